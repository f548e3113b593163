"""Keeps the catalog up to date in the background, so that no call waits for a listing."""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import islice
from operator import is_
from typing import Literal, Protocol

import anyio

from toolgate.base import json_text
from toolgate.base.names import fold, server_prefix
from toolgate.catalog.snapshot import CatalogEntry, ServerEntries, Snapshot, build_entries
from toolgate.errors import SettingError, StoreError, UpstreamError
from toolgate.store import Store, StoredSnapshot
from toolgate.types import (
    Caller,
    Json,
    Peer,
    ServerSpec,
    ServerStatus,
    json_array,
    json_object,
)
from toolgate.upstream import Fleet, Listing, UpstreamServer

__all__ = ["Catalog", "CatalogChange", "ToolInspector"]

log = logging.getLogger(__name__)

CatalogChange = Literal["tools", "prompts", "resources"]
"""Which list is different."""

_SETTLE_S = 0.02
"""Servers often announce several changes at once; they are listed once."""
# Seconds before a server whose listing failed is listed again. Chosen.
_RETRY_S = 5.0
# Seconds that a listing is believed at least, whatever `ttlMs` says. Chosen.
_SHORTEST_TTL_S = 30.0
_STEP = 1_024
"""Servers that are compared at a time."""


class ToolInspector(Protocol):
    """Inspects tools before any client sees them."""

    async def inspect(self, server: str, tools: Sequence[Json]) -> Mapping[str, str]:
        """Which tools of a listing to quarantine: name and reason."""
        ...

    async def forget(self, server: str) -> None:
        """A server is removed."""
        ...


class Catalog:
    """The servers of a gateway and the current snapshot of what they offer.

    Implements `FleetObserver`: connecting, announcements of change and the lifetime of a listing
    make it list a server again. What was last known of a server stays when it goes down, and is
    stored, so that it is there right after the next start.
    """

    def __init__(
        self,
        fleet: Fleet,
        store: Store | None,
        *,
        project_id: str,
        max_name_chars: int = 48,
        flat: bool = False,
        inspection: ToolInspector | None = None,
    ) -> None:
        self._fleet = fleet
        self._inspection = inspection
        self._store = store
        self._project_id = project_id
        self._name_limit = max_name_chars
        self._flat = flat
        self._snapshot = Snapshot()
        self._generation = 0
        self._entries_by_server: dict[str, ServerEntries] = {}
        self._listings: dict[str, Listing] = {}
        self._listeners: list[Callable[[CatalogChange], None]] = []
        self._updates: list[Callable[[str, str], None]] = []
        self._states: list[Callable[[], None]] = []
        self._refreshing: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._saving: set[asyncio.Task[None]] = set()
        self._listed = asyncio.Event()
        self._down: frozenset[str] | None = None
        self._never_listed: frozenset[str] | None = None
        fleet.observe(self)

    @property
    def snapshot(self) -> Snapshot:
        """The present one; hold on to it for the time of a request."""
        return self._snapshot

    @property
    def generation(self) -> int:
        """Grows with each change of servers, of their settings, or of what they offer."""
        return self._generation

    # Servers

    async def load(self, specs: Iterable[ServerSpec]) -> None:
        """Start with what is stored of these servers, and connect to them in the background.

        Raises:
            SettingError: Two names are too alike.
        """
        if self._store is not None:
            try:
                stored = await self._store.catalog.snapshots(self._project_id)
            except StoreError as error:
                log.warning("stored listings cannot be read", extra={"error": str(error)})
                stored = []
            for row in stored:
                entries = await self._from_stored(row)
                if entries is not None:
                    self._entries_by_server[row.server] = entries
        await self.reload(specs)

    async def reload(self, specs: Iterable[ServerSpec]) -> None:
        """Have exactly these servers; those that stay as they are keep running untouched.

        Raises:
            SettingError: Two names are too alike; nothing was changed.
        """
        ordered = list(specs)
        _check_alike(spec.name for spec in ordered)
        await self._fleet.reload(ordered)
        self._publish()

    async def add(self, spec: ServerSpec) -> UpstreamServer:
        """Add a server while running.

        Raises:
            SettingError: Its name is too much like another's.
        """
        _check_alike([*self._fleet.servers, spec.name])
        server = self._fleet.add(spec)
        self._publish()
        return server

    async def remove(self, name: str) -> None:
        """Remove a server and what is known of it.

        Raises:
            UnknownServerError: There is none of this name.
        """
        await self._fleet.remove(name)
        self._entries_by_server.pop(name, None)
        self._listings.pop(name, None)
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()
        self._publish()
        if self._store is not None:
            await self._store.catalog.delete_snapshot(self._project_id, name)
        if self._inspection is not None:
            await self._inspection.forget(name)

    async def replace(self, spec: ServerSpec) -> None:
        """Give a server new settings; it is connected anew, its entries stay meanwhile."""
        await self._fleet.replace(spec)
        self._publish()

    async def reinspect(self, name: str) -> None:
        """Have the tools of a server inspected again, as it listed them last.

        Raises:
            UnknownServerError: There is none of this name.
        """
        self._fleet.get(name)
        listing = self._listings.get(name)
        if listing is not None:
            self._entries_by_server[name] = await self._inspected_entries(
                name, listing, self._entries_by_server[name].listed_at
            )
            self._publish()

    async def reinspect_all(self) -> None:
        """Have all tools inspected again: other ones are to be held back from now on."""
        for name in list(self._listings):
            await self.reinspect(name)
        for server in self._fleet.servers.values():
            if server.main is not None:
                self._refresh_soon(server.name)

    def server(self, name: str) -> UpstreamServer:
        """The server of this name.

        Raises:
            UnknownServerError: There is none.
        """
        return self._fleet.get(name)

    def spec(self, name: str) -> ServerSpec | None:
        """How a server is configured; None: there is none of this name."""
        return self._fleet.spec(name)

    @property
    def specs(self) -> list[ServerSpec]:
        """The servers as they are configured, in order."""
        return [server.spec for server in self._fleet.servers.values()]

    def statuses(self) -> list[ServerStatus]:
        """State of every server, with what is listed of it."""
        return [self._status(server) for server in self._fleet.servers.values()]

    def status(self, name: str) -> ServerStatus | None:
        """State of one server, with what is listed of it; None: there is none of this name."""
        server = self._fleet.servers.get(name)
        return None if server is None else self._status(server)

    def down(self) -> frozenset[str]:
        """Names of servers that do not answer; one that waits for logins answers who has one."""
        if self._down is None:
            self._down = frozenset(
                name
                for name, server in self._fleet.servers.items()
                if server.state == "down" and not server.waits_for_login
            )
        return self._down

    def has_tools_of(self, name: str) -> bool:
        """Whether the tools of a server are known, from now or from an earlier start."""
        return name in self._entries_by_server

    def never_listed(self) -> frozenset[str]:
        """Names of servers that have to be expected, of which nothing is known yet."""
        if self._never_listed is None:
            self._never_listed = frozenset(
                name
                for name, server in self._fleet.servers.items()
                if name not in self._entries_by_server
                and server.state not in ("down", "disabled")
                and not server.is_offline
            )
        return self._never_listed

    async def wait_listed(self, timeout_s: float) -> None:
        """Wait until every server is listed or has failed, at most so many seconds."""
        with anyio.move_on_after(timeout_s):
            while self.never_listed() or self._refreshing:
                self._listed.clear()
                await self._listed.wait()

    # Listeners

    def on_change(self, listener: Callable[[CatalogChange], None]) -> Callable[[], None]:
        """Register a listener for changed lists. Returns a function that removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def on_state(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Register a listener for server states. Returns a function that removes it."""
        self._states.append(listener)
        return lambda: self._states.remove(listener)

    def on_resource(self, listener: Callable[[str, str], None]) -> Callable[[], None]:
        """Have a function called with server and URI when a resource has new content."""
        self._updates.append(listener)
        return lambda: self._updates.remove(listener)

    # What the fleet tells

    def server_connected(self, server: UpstreamServer) -> None:
        """List it."""
        self._refresh_soon(server.name)

    def server_changed(self, server: UpstreamServer) -> None:
        """List it again."""
        self._refresh_soon(server.name)

    def server_state(self, server: UpstreamServer) -> None:
        """Nothing of the lists changes; searches look at the state when they run."""
        del server
        self._forget_states()
        self._listed.set()
        for listener in list(self._states):
            listener()

    def _forget_states(self) -> None:
        """Every request asks for these, and they change seldom."""
        self._down = self._never_listed = None

    def resource_updated(self, server: UpstreamServer, uri: str) -> None:
        """Pass on, under the URI that clients use."""
        for listener in list(self._updates):
            listener(server.name, uri)

    # Requests

    async def request(
        self,
        server: str,
        method: str,
        params: Json,
        *,
        caller: Caller,
        peer: Peer | None,
        repeatable: bool = True,
    ) -> Json:
        """Send a request to a server.

        `repeatable` says whether the request may be sent twice; of a tool call that is what the
        tool's annotations say, which count only where the server is trusted.
        """
        upstream = self._fleet.get(server)
        if method == "tools/call":
            repeatable = repeatable and upstream.spec.trust
        return await upstream.request(
            method, params, caller=caller, peer=peer, repeatable=repeatable
        )

    async def subscribe(self, server: str, uris: set[str]) -> None:
        """Have exactly these resources of a server watched."""
        await self._fleet.get(server).subscribe(uris)

    async def aclose(self) -> None:
        """End listing and all servers."""
        for timer in self._timers.values():
            timer.cancel()
        tasks = [*self._refreshing.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._fleet.aclose()
        await asyncio.gather(*self._saving, return_exceptions=True)

    # Listing in the background

    def _refresh_soon(self, name: str) -> None:
        if name in self._refreshing:
            self._again.add(name)
            return
        task = asyncio.create_task(self._refresh(name), name=f"list:{name}")
        self._refreshing[name] = task
        task.add_done_callback(lambda done: self._refreshed(name, done))

    def _refreshed(self, name: str, done: asyncio.Task[None]) -> None:
        self._refreshing.pop(name, None)
        if not done.cancelled() and (error := done.exception()) is not None:
            # A fault of ours must not leave a server unlisted without a word.
            log.error("listing failed unexpectedly", extra={"server": name}, exc_info=error)
            self._later(name, _RETRY_S)
        if name in self._again:
            self._again.discard(name)
            if name in self._fleet.servers:
                self._refresh_soon(name)
        self._listed.set()

    async def _refresh(self, name: str) -> None:
        await anyio.sleep(_SETTLE_S)
        server = self._fleet.servers.get(name)
        if server is None:
            return
        try:
            listing = await server.listing()
        except UpstreamError as error:
            log.warning("listing failed", extra={"server": name, "error": str(error)})
            if server.main is not None:
                self._later(name, _RETRY_S)
            return
        if self._fleet.servers.get(name) is not server:
            return  # removed or replaced meanwhile
        for sentence in listing.left_out:
            log.warning("entry left out", extra={"server": name, "reason": sentence})
        await self._apply_listing(name, listing)
        if listing.ttl_ms:
            self._later(name, max(listing.ttl_ms / 1000, _SHORTEST_TTL_S))

    def _later(self, name: str, delay_s: float) -> None:
        old = self._timers.pop(name, None)
        if old is not None:
            old.cancel()
        loop = asyncio.get_running_loop()
        self._timers[name] = loop.call_later(delay_s, self._refresh_soon, name)

    async def _apply_listing(self, name: str, listing: Listing) -> None:
        listed_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        entries = await self._inspected_entries(name, listing, listed_at)
        self._entries_by_server[name] = entries
        self._publish()
        if self._store is not None:
            task = asyncio.create_task(self._save(name, listing, listed_at))
            self._saving.add(task)
            task.add_done_callback(self._saving.discard)

    async def _inspected_entries(
        self, name: str, listing: Listing, listed_at: str | None
    ) -> ServerEntries:
        quarantined: Mapping[str, str] = {}
        if self._inspection is not None:
            quarantined = await self._inspection.inspect(name, listing.tools)
        # What is held may be let through while its server does not answer.
        if quarantined:
            self._listings[name] = listing
        else:
            self._listings.pop(name, None)
        # Building entries of thousands of tools takes a while: not on the loop that answers.
        return await asyncio.to_thread(self._build, name, listing, listed_at, quarantined)

    def _build(
        self, name: str, listing: Listing, listed_at: str | None, quarantined: Mapping[str, str]
    ) -> ServerEntries:
        return build_entries(
            name,
            tools=[tool for tool in listing.tools if tool.get("name") not in quarantined],
            held=quarantined,
            prompts=listing.prompts,
            resources=listing.resources,
            templates=listing.templates,
            capabilities=listing.capabilities,
            instructions=listing.instructions,
            listed_at=listed_at,
            left_out=listing.left_out,
            max_name_chars=self._name_limit,
            flat=self._flat,
        )

    def _publish(self) -> None:
        """A new snapshot of the enabled servers; listeners hear which lists are different."""
        self._forget_states()
        self._generation += 1
        old = self._snapshot
        servers = {
            spec.name: self._entries_by_server.get(spec.name, ServerEntries())
            for spec in self.specs
            if spec.enabled
        }
        new = Snapshot(old.version + 1, servers)
        before, after = _changed_servers(old, new)
        changed: list[CatalogChange] = [
            kind for kind in _KINDS if _identities(before, kind) != _identities(after, kind)
        ]
        if not changed and list(old.servers) == list(new.servers):
            self._snapshot = Snapshot(old.version, servers)
            return
        self._snapshot = new
        for kind in changed:
            for listener in list(self._listeners):
                listener(kind)

    # Storing

    async def _save(self, name: str, listing: Listing, listed_at: str) -> None:
        assert self._store is not None
        body = await asyncio.to_thread(json_text.dumps, asdict(replace(listing)))
        row = StoredSnapshot(
            project_id=self._project_id,
            server=name,
            listing=body,
            digest=hashlib.sha256(body).hexdigest(),
            listed_at=listed_at,
        )
        try:
            await self._store.catalog.save_snapshot(row)
        except StoreError as error:
            log.warning("listing not stored", extra={"server": name, "error": str(error)})

    async def _from_stored(self, row: StoredSnapshot) -> ServerEntries | None:
        try:
            stored = json_object(json_text.loads(row.listing))
            listing = Listing(
                tools=tuple(json_array(stored.get("tools"))),
                prompts=tuple(json_array(stored.get("prompts"))),
                resources=tuple(json_array(stored.get("resources"))),
                templates=tuple(json_array(stored.get("templates"))),
                capabilities=json_object(stored.get("capabilities")),
                instructions=str(stored.get("instructions") or ""),
            )
            return await self._inspected_entries(row.server, listing, row.listed_at)
        except (ValueError, KeyError, TypeError, StoreError) as error:
            log.warning(
                "stored listing cannot be used", extra={"server": row.server, "error": repr(error)}
            )
            return None

    def _status(self, server: UpstreamServer) -> ServerStatus:
        entries = self._entries_by_server.get(server.name, ServerEntries())
        return server.status(
            tools=len(entries.tools),
            held=len(entries.quarantined),
            prompts=len(entries.prompts),
            resources=len(entries.resources),
            listed_at=entries.listed_at,
        )


_KINDS: tuple[CatalogChange, ...] = ("tools", "prompts", "resources")


def _changed_servers(
    old: Snapshot, new: Snapshot
) -> tuple[list[ServerEntries], list[ServerEntries]]:
    """The servers of both without those at the beginning and the end that stayed."""
    if list(old.servers) == list(new.servers):
        stayed = list(map(is_, old.servers.values(), new.servers.values()))
        if all(stayed):
            return [], []
        head, tail = stayed.index(False), stayed[::-1].index(False)
    else:
        before, after = _identified(old), _identified(new)
        head = _shared(before, after, min(len(before), len(after)))
        tail = _shared(before[::-1], after[::-1], min(len(before), len(after)) - head)
    return (
        list(islice(old.servers.values(), head, len(old.servers) - tail)),
        list(islice(new.servers.values(), head, len(new.servers) - tail)),
    )


def _identified(snapshot: Snapshot) -> list[tuple[str, int]]:
    """Servers by name and by which object their entries are: they are compared in C."""
    return list(zip(snapshot.servers, map(id, snapshot.servers.values()), strict=True))


def _shared(left: list[tuple[str, int]], other: list[tuple[str, int]], limit: int) -> int:
    """How many at the beginning are the same, `most` at most."""
    at = 0
    while at < limit and left[at : min(at + _STEP, limit)] == other[at : min(at + _STEP, limit)]:
        at = min(at + _STEP, limit)
    while at < limit and left[at] == other[at]:
        at += 1
    return at


def _identities(servers: Iterable[ServerEntries], kind: CatalogChange) -> list[tuple[str, str]]:
    def of(entries: ServerEntries) -> tuple[CatalogEntry, ...]:
        match kind:
            case "tools":
                return entries.tools
            case "prompts":
                return entries.prompts
            case "resources":
                return entries.resources + entries.templates

    return [(e.key, e.digest) for entries in servers for e in of(entries)]


def _check_alike(names: Iterable[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.get(fold(server_prefix(name)))
        if other is not None:
            raise SettingError(
                f"Servers {other!r} and {name!r} have names that clients cannot tell apart.",
                allowed="Names must differ in more than case, '-', '_' and '.'.",
                hint="Rename one of them.",
            )
        seen[fold(server_prefix(name))] = name
