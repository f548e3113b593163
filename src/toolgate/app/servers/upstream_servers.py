"""Builds the connections to servers, their credentials, and the catalog of their tools."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

from toolgate.app.factories.storage import Storage
from toolgate.app.servers.wire_factory import OutboundClients, WireFactory
from toolgate.catalog import Catalog, ConnectChoice
from toolgate.catalog.scanner import Quarantine
from toolgate.security.credentials import (
    CredentialProvider,
    Keychain,
    LoginLinks,
    Vault,
    source_of,
)
from toolgate.settings import CurrentSettings
from toolgate.types import DEFAULT_PROJECT
from toolgate.upstream import EraBridge, Fleet, WireMaker


@dataclass(frozen=True, kw_only=True)
class UpstreamServers:
    """The server-related parts of a gateway, before servers are added."""

    fleet: Fleet
    """The connections."""

    catalog: Catalog
    """The catalog of what servers offer."""

    quarantine: Quarantine
    """Withholds definitions until they are accepted."""

    credentials: CredentialProvider
    """Provides the credentials for servers."""

    login_links: LoginLinks
    """Links to the pages where users log in to servers."""


def open_upstream_servers(
    stack: AsyncExitStack,
    settings: CurrentSettings,
    storage: Storage,
    *,
    connect: ConnectChoice,
    hold: bool,
    wires: Mapping[str, WireMaker],
) -> UpstreamServers:
    """Open the server-related parts; closing the stack closes all but the catalog.

    Args:
        stack: Closes what is opened.
        settings: The current settings.
        storage: Stores listings and credentials.
        connect: As for `open_app`.
        hold: As for `open_app`.
        wires: As for `open_app`.

    Raises:
        SettingError: The key for credentials cannot be used.
    """
    at_start, store = settings.current, storage.store
    outbound = OutboundClients(at_start.outbound)
    stack.push_async_callback(outbound.aclose)
    login_links = LoginLinks(storage.signer, lambda: settings.current.credentials)
    credentials = CredentialProvider(
        Vault(store.credentials, Keychain(store.credentials, source_of(at_start))),
        outbound,
        links=login_links,
        is_local=at_start.auth != "required",
    )
    make_wire = WireFactory(outbound, credentials, wires)
    stack.push_async_callback(make_wire.aclose)
    stack.push_async_callback(credentials.aclose)
    fleet = Fleet(
        make_wire,
        EraBridge(storage.signer),
        completed=credentials.completed,
        subject_of=credentials.subject_for,
        deferred=hold,
    )
    quarantine = Quarantine(
        store, project_id=DEFAULT_PROJECT, mode=lambda: settings.current.quarantine
    )
    catalog = Catalog(
        fleet,
        store,
        project_id=DEFAULT_PROJECT,
        max_name_chars=at_start.max_name_chars,
        flat=at_start.tool_names == "flat",
        inspection=quarantine,
        connect=connect,
    )
    return UpstreamServers(
        fleet=fleet,
        catalog=catalog,
        quarantine=quarantine,
        credentials=credentials,
        login_links=login_links,
    )
