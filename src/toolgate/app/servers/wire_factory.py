"""Builds transports to servers, with their HTTP clients and credentials."""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

from toolgate.base.plugins import make
from toolgate.security.credentials import ConnectionCredential, CredentialProvider
from toolgate.settings import OutboundSettings, base_environment, proxies
from toolgate.types import PluginSpec, ServerSpec
from toolgate.upstream import OrphanGuard, Wire, WireMaker

_OUTBOUND_MODULE = "toolgate.security.outbound"


class OutboundClients:
    """The HTTP clients of a gateway; their library is loaded on first use."""

    def __init__(self, settings: OutboundSettings) -> None:
        """Load nothing yet."""
        self._settings = settings
        self._outbound: Any = None

    def __call__(self) -> Any:
        """The gateway's `Outbound`."""
        if self._outbound is None:
            self._outbound = import_module(_OUTBOUND_MODULE).Outbound(self._settings, proxies())
        return self._outbound

    async def aclose(self) -> None:
        """Close the clients."""
        if self._outbound is not None:
            await self._outbound.aclose()


class WireFactory:
    """Creates the transport of a server; child processes end with the gateway, even on a kill."""

    def __init__(
        self,
        outbound: OutboundClients,
        credentials: CredentialProvider,
        wires: Mapping[str, WireMaker],
    ) -> None:
        """Create the factory.

        Args:
            outbound: The HTTP clients.
            credentials: Provides the credential of each connection.
            wires: Transports by server name that replace those of the settings, for tests.
        """
        self._wires = wires
        self._services: dict[str, Callable[[ServerSpec], object]] = {
            "guard": lambda _: self._guard,
            "base_environment": lambda _: self._environment,
            "max_message_bytes": lambda spec: spec.max_message_bytes,
            "http": lambda _: outbound().session(import_module(_OUTBOUND_MODULE).CONFIGURED),
            "proxy_for": lambda _: outbound().proxy_for,
            "credential": lambda spec: ConnectionCredential(credentials, spec),
        }
        self._guard = OrphanGuard()
        self._environment = base_environment()

    def __call__(self, spec: ServerSpec) -> Wire:
        """A new transport to a server."""
        if spec.name in self._wires:
            return self._wires[spec.name](spec)
        plugin = PluginSpec(name=spec.kind, setting=f"server.{spec.name}", options=spec.options)
        return make("transport", Wire, plugin, _WireServices(spec, self._services))

    async def aclose(self) -> None:
        """End the process that watches the children."""
        await self._guard.aclose()


class _WireServices(Mapping[str, object]):
    """The services available to the transport of a server, created on first use."""

    def __init__(
        self, spec: ServerSpec, services: Mapping[str, Callable[[ServerSpec], object]]
    ) -> None:
        self._spec = spec
        self._services = services

    def __getitem__(self, name: str) -> object:
        return self._services[name](self._spec)

    def __iter__(self) -> Iterator[str]:
        return iter(self._services)

    def __len__(self) -> int:
        return len(self._services)
