"""All upstream servers of a gateway, which can be added, changed and removed while it runs."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from toolgate.errors import UnknownServerError
from toolgate.types import Caller, ServerSpec
from toolgate.upstream.base import Wire
from toolgate.upstream.era_bridge import EraBridge
from toolgate.upstream.server import UpstreamServer
from toolgate.upstream.supervision.server_observer import ServerObserver

FleetObserver = ServerObserver[UpstreamServer]
"""Is notified about the servers of a fleet; implemented by the catalog."""

WireMaker = Callable[[ServerSpec], Wire]
"""Builds the wire of a server; implemented by `app`."""

SpecCompletion = Callable[[ServerSpec], Awaitable[ServerSpec]]
"""Adds what is stored for a server to its options; raises `LoginNeededError` if it is missing."""

SubjectOf = Callable[[ServerSpec, Caller], str]
"""Returns the subject whose credential a caller's calls to a server use."""

# Seconds servers have to end before they are abandoned (chosen: longer than ending a child takes).
_END_S = 10.0


class Fleet:
    """The servers by name, each with the task that keeps it connected."""

    def __init__(
        self,
        make_wire: WireMaker,
        bridge: EraBridge,
        *,
        completed: SpecCompletion,
        subject_of: SubjectOf = lambda _, caller: caller.caller_id,
        deferred: bool = False,
    ) -> None:
        """Create a fleet without servers.

        Args:
            make_wire: Builds the wire of a server.
            bridge: Connects clients and servers of different protocol eras.
            completed: Adds what is stored for a server to its options.
            subject_of: Returns the subject whose credential a call uses, for servers with one
                credential per subject.
            deferred: Whether servers stay unconnected until `allow_connections`.
        """
        self._make_wire = make_wire
        self._completed = completed
        self._bridge = bridge
        self._observer: FleetObserver | None = None
        self._servers: dict[str, UpstreamServer] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._subject_of = subject_of
        self._may_connect = asyncio.Event()
        if not deferred:
            self._may_connect.set()

    def allow_connections(self) -> None:
        """Connect the waiting servers."""
        self._may_connect.set()

    def observe(self, observer: FleetObserver) -> None:
        """Set the observer, before the first server is added."""
        self._observer = observer

    @property
    def servers(self) -> dict[str, UpstreamServer]:
        """All servers by name, in the order in which they were added."""
        return dict(self._servers)

    def spec(self, name: str) -> ServerSpec | None:
        """The configuration of a server; None if it does not exist."""
        server = self._servers.get(name)
        return server.spec if server is not None else None

    def get(self, name: str) -> UpstreamServer:
        """Return a server by name.

        Raises:
            UnknownServerError: It does not exist.
        """
        if name not in self._servers:
            raise UnknownServerError(
                f"There is no server {name!r}.",
                allowed=f"Servers: {', '.join(self._servers) or 'none'}.",
                hint="See: toolgate servers list",
            )
        return self._servers[name]

    def add(
        self, spec: ServerSpec, *, connect: bool = True, is_listed: bool = False
    ) -> UpstreamServer:
        """Add a server and, unless `connect` is false, start connecting to it in the background.

        Args:
            spec: The configuration of the server.
            connect: Whether it may be connected at all.
            is_listed: Whether its listing is known, so that it can start on demand.
        """
        assert spec.name not in self._servers
        return self._start(spec, connect=connect, is_listed=is_listed)

    def _start(
        self,
        spec: ServerSpec,
        *,
        connect: bool,
        is_listed: bool,
        after: "asyncio.Task[None] | None" = None,
    ) -> UpstreamServer:
        """Put a server into the list, and connect it once the task `after` has ended."""
        assert self._observer is not None
        server = UpstreamServer(
            spec,
            self._make_wire,
            self._observer,
            self._bridge,
            completed=self._completed,
            subject_of=None if spec.credentials.per == "server" else self._subject_of,
            is_offline=not connect,
            is_listed=is_listed,
        )
        self._servers[spec.name] = server
        self._running[spec.name] = asyncio.create_task(
            self._keep(server, after), name=f"server:{spec.name}"
        )
        return server

    async def _keep(self, server: UpstreamServer, after: "asyncio.Task[None] | None") -> None:
        if after is not None:  # two processes of a server may not run at the same time
            await asyncio.wait([after], timeout=_END_S)
        await self._may_connect.wait()
        await server.run()

    async def replace(
        self, spec: ServerSpec, *, connect: bool = True, is_listed: bool = False
    ) -> UpstreamServer:
        """Reconnect a server with new settings, or the same ones, at its position in the list.

        The list always has a server of this name: what asks for it meanwhile finds the new one,
        which connects when the old one has ended.
        """
        self.get(spec.name)
        old = self._running.pop(spec.name)
        server = self._start(spec, connect=connect, is_listed=is_listed, after=old)
        await _ended([old])
        return server

    def revise(self, spec: ServerSpec) -> bool:
        """Apply new settings to a running server if they only change how its tools are offered.

        Time limits of its tools count as that.

        Returns:
            Whether they are such settings; if not, nothing was changed.
        """
        server = self._servers.get(spec.name)
        if server is None or not _is_offered_alike(server.spec, spec):
            return False
        server.spec = spec
        return True

    async def relogin(self, name: str, subject: str) -> None:
        """Use the new credential of a subject, or none if it was removed."""
        if name in self._servers:
            await self._servers[name].relogin(subject)

    async def remove(self, name: str) -> None:
        """Stop a server and everything that belongs to it; its running calls fail."""
        self.get(name)
        # Removed from the list first: no call may go to a server that is ending.
        del self._servers[name]
        await _ended([self._running.pop(name)])

    async def reload(
        self,
        specs: Iterable[ServerSpec],
        *,
        should_connect: Callable[[str], bool] = lambda _: True,
        is_listed: Callable[[ServerSpec], bool] = lambda _: False,
    ) -> tuple[set[str], set[str]]:
        """Replace the servers with these; unchanged ones keep running.

        Args:
            specs: The servers, in order.
            should_connect: Whether to connect to an added server of this name.
            is_listed: Whether the listing of an added server is known.

        Returns:
            Names that were removed or changed, and names that were added or changed.
        """
        specs_by_name = {spec.name: spec for spec in specs}
        ended = {
            name: self._running.pop(name)
            for name in self._servers
            if name not in specs_by_name or not self.revise(specs_by_name[name])
        }
        fresh = [
            spec
            for name, spec in specs_by_name.items()
            if name in ended or name not in self._servers
        ]
        for spec in fresh:
            self._start(
                spec,
                connect=should_connect(spec.name),
                is_listed=is_listed(spec),
                after=ended.get(spec.name),
            )
        self._servers = {name: self._servers[name] for name in specs_by_name}
        await _ended(list(ended.values()))
        return set(ended), {spec.name for spec in fresh}

    async def aclose(self) -> None:
        """Stop all servers concurrently."""
        tasks = list(self._running.values())
        self._servers.clear()
        self._running.clear()
        await _ended(tasks)
        self._bridge.close()


async def _ended(tasks: list["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        # A server that does not end must not keep the gateway from ending.
        await asyncio.wait(tasks, timeout=_END_S)


def _is_offered_alike(old: ServerSpec, new: ServerSpec) -> bool:
    """Whether both settings can use the same connection: only its tools have other settings."""
    revised = replace(old, tool_overrides=new.tool_overrides, overridden=new.overridden)
    revised = replace(revised, tool_timeouts_s=new.tool_timeouts_s, asking_tools=new.asking_tools)
    return revised == new
