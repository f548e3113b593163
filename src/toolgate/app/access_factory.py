"""Builds what decides on requests and records them: permissions, logins, guards, receipts."""

from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from toolgate.app.access_control import Permissions
from toolgate.app.factories.storage import Storage
from toolgate.app.project_tables import ProjectTables
from toolgate.app.servers.upstream_servers import UpstreamServers
from toolgate.audit import Receipts
from toolgate.security.access import AccessData
from toolgate.security.credentials import CredentialWatcher, LoginRights, Logins
from toolgate.security.guards import Approvals, CallGuardChain, CallGuards, secret_scanner
from toolgate.settings import CurrentSettings, GuardTable, Settings
from toolgate.types import ServerSpec

_LOCAL: Final = frozenset({"stdio", "inprocess"})
"""Transports to servers on this machine."""


@dataclass(frozen=True, kw_only=True)
class AccessParts:
    """The parts that decide on requests and record them."""

    permissions: Permissions
    """Authentication and permissions."""

    receipts: Receipts
    """Writes audit records."""

    logins: Logins
    """Logins of users to servers."""

    credential_watcher: CredentialWatcher
    """Notices changed credentials, from any process."""

    guards: CallGuardChain
    """Guards and approvals before each call."""


async def open_access(
    stack: AsyncExitStack,
    settings: CurrentSettings,
    storage: Storage,
    servers: UpstreamServers,
    *,
    delete_documents: Callable[[str], Awaitable[None]],
) -> AccessParts:
    """Build access control with the data of the store; closing the stack closes it.

    `delete_documents` deletes the documents of a project.

    Raises:
        ConfigError: A rule, guard or authenticator cannot be used.
        StoreError: The store cannot be read, and callers must authenticate.
    """
    store, catalog = storage.store, servers.catalog
    data = AccessData(store)
    projects = ProjectTables(settings.current, data)
    receipts = Receipts(
        storage.audit.recorder,
        keep_queries=lambda: settings.current.audit.keep_queries,
        is_closed=projects.is_closed,
        mask=lambda value: secret_scanner().mask_json(value, Counter()),
        process=storage.audit.writer_id,
    )
    stack.callback(receipts.flush)
    permissions = Permissions(
        settings.current,
        store,
        catalog,
        receipts,
        data=data,
        projects=projects,
        delete_documents=delete_documents,
    )
    stack.push_async_callback(permissions.aclose)
    watcher = CredentialWatcher(servers.credentials.vault, changed=servers.fleet.relogin)
    stack.push_async_callback(watcher.aclose)
    policy = permissions.policy
    logins = Logins(
        servers.credentials,
        servers.login_links,
        rights=LoginRights(
            manages=lambda caller: policy.decide(caller, "right", "manage").allowed,
            reaches=lambda caller, server: policy.decide(caller, "reach", server).allowed,
        ),
        specs=lambda: list(catalog.specs),
        settings=lambda: settings.current.credentials,
        record=receipts.note,
        changed=watcher.refresh,
    )
    guards = CallGuardChain(
        CallGuards(
            guards_of(settings.current, permissions),
            is_trusted=lambda server: server not in policy.distrusted,
            folder_of=lambda server: _folder_of(servers.fleet.spec(server)),
        ),
        Approvals(
            store.approvals,
            storage.signer,
            settings=lambda: settings.current.approvals,
            note=receipts.approval,
            page=servers.login_links.approvals_page,
        ),
    )
    permissions.on_change(lambda: guards.guards.reload(guards_of(settings.current, permissions)))
    return AccessParts(
        permissions=permissions,
        receipts=receipts,
        logins=logins,
        credential_watcher=watcher,
        guards=guards,
    )


def _folder_of(spec: ServerSpec | None) -> str | None:
    """The working folder of a server that can access local files; None if it cannot."""
    if spec is None or spec.kind not in _LOCAL:
        return None
    folder = spec.options.get("cwd")
    try:
        return str(Path(folder if isinstance(folder, str) else "").absolute())
    except FileNotFoundError:  # the gateway's folder was removed while it runs
        return "/"


def guards_of(settings: Settings, permissions: Permissions) -> tuple[GuardTable, ...]:
    """The guards of file and store, and the guard of SQLcl, which would run any statement."""
    configured = (*settings.guard, *permissions.guards)
    if not settings.packs.options.get("sql", {}).get("sqlcl"):
        return configured
    sqlcl = GuardTable(tools=("sqlcl-*:run-sql",), sql={"sql": "oracle"}, source="the pack sql")
    return (*configured, sqlcl)
