"""The servers of a gateway and the current snapshot of what they offer."""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal, Protocol

import anyio

from toolgate.base.names import fold, server_prefix
from toolgate.catalog.changes import changed_lists
from toolgate.catalog.events import CatalogEvents
from toolgate.catalog.listed_definitions import INSTRUCTIONS, EntryId
from toolgate.catalog.refresher import ListingRefresher
from toolgate.catalog.snapshot import ServerEntries, Snapshot, build_entries, cache_problem
from toolgate.catalog.stored_listings import StoredListings, configuration_digest
from toolgate.errors import SettingError, StoreError
from toolgate.store import Store
from toolgate.types import (
    EntryKind,
    Json,
    ServerSpec,
    ServerStatus,
    ToolOverride,
)
from toolgate.upstream import Fleet, Listing, UpstreamServer

log = logging.getLogger(__name__)

ConnectChoice = Literal["all", "unknown"] | Collection[str]
"""Servers to connect to: all, those that were never listed, or those of these names."""


class ListingInspector(Protocol):
    """Inspects what a server lists before any client sees it."""

    async def inspect(
        self, server: str, listing: Listing, *, is_stored: bool = False
    ) -> Mapping[EntryId, str]:
        """Return the definitions of a listing to quarantine, each with the reason."""
        ...

    async def refresh(self) -> Collection[str]:
        """Adopt decisions that other processes made. Returns the affected servers."""
        ...

    async def forget(self, server: str) -> None:
        """Forget a removed server."""
        ...


class Catalog:
    """Adds, changes and removes servers, and publishes a snapshot whenever their lists change.

    Servers are listed in the background, so no call waits for a listing. The last listing of a
    server is used while it is down, and is stored, so that it is available right after the next
    start.
    """

    def __init__(
        self,
        fleet: Fleet,
        store: Store | None,
        *,
        project_id: str,
        max_name_chars: int = 48,
        flat: bool = False,
        inspection: ListingInspector | None = None,
        connect: ConnectChoice = "all",
    ) -> None:
        self._fleet = fleet
        self._connect = connect
        self._inspection = inspection
        self._stored = None if store is None else StoredListings(store, project_id)
        self._max_name_chars = max_name_chars
        self._flat = flat
        self.snapshot = Snapshot()
        """What all servers offer now; use the same one throughout a request."""
        self.generation = 0
        """Grows with each change of servers, of their settings, or of their lists."""
        self._entries_by_server: dict[str, ServerEntries] = {}
        self._listings: dict[str, Listing] = {}
        self._listed_configurations: dict[str, str] = {}
        self._down: frozenset[str] | None = None
        self._never_listed: frozenset[str] | None = None
        self.events = CatalogEvents()
        """Notifies of changed lists, server states and resources."""
        self._refresher = ListingRefresher(
            fleet,
            self.events,
            apply_listing=self._apply_listing,
            forget_states=self._forget_states,
        )
        fleet.observe(self._refresher)
        self.server = fleet.get
        """Returns the server of a name; see `Fleet.get`."""
        self.spec = fleet.spec
        """Returns the configuration of a server; None if it does not exist."""

    # Servers

    async def load(self, specs: Iterable[ServerSpec]) -> None:
        """Use the stored listings of these servers, and connect to them in the background.

        Raises:
            SettingError: Two names are too similar.
        """
        if self._stored is not None:
            for name, listing, listed_at, configuration in await self._stored.load():
                try:
                    entries = await self._inspected_entries(
                        name, listing, listed_at, is_stored=True
                    )
                except (ValueError, KeyError, TypeError, StoreError) as error:
                    log.warning(
                        "stored listing cannot be used",
                        extra={"server": name, "error": repr(error)},
                    )
                else:
                    self._entries_by_server[name] = entries
                    self._listed_configurations[name] = configuration
        await self.reload(specs)

    async def reload(self, specs: Iterable[ServerSpec]) -> None:
        """Replace the servers by these; unchanged ones keep running.

        Raises:
            SettingError: Two names are too similar; nothing was changed.
        """
        ordered = list(specs)
        _check_distinguishable(spec.name for spec in ordered)
        await self._fleet.reload(
            ordered, should_connect=self._should_connect, is_listed=self._is_listed
        )
        await self._apply_overrides(ordered)
        self._publish()

    async def add(self, spec: ServerSpec) -> UpstreamServer:
        """Add a server while running.

        Raises:
            SettingError: Its name is too similar to another's.
        """
        _check_distinguishable([*self._fleet.servers, spec.name])
        server = self._fleet.add(
            spec, connect=self._should_connect(spec.name), is_listed=self._is_listed(spec)
        )
        self._publish()
        return server

    async def remove(self, name: str) -> None:
        """Remove a server and its listing.

        Raises:
            UnknownServerError: There is no such server.
        """
        await self._fleet.remove(name)
        self._entries_by_server.pop(name, None)
        self._listings.pop(name, None)
        self._listed_configurations.pop(name, None)
        self._refresher.forget(name)
        self._publish()
        if self._stored is not None:
            await self._stored.delete(name)
        if self._inspection is not None:
            await self._inspection.forget(name)

    async def replace(self, spec: ServerSpec, *, start: bool = False) -> None:
        """Give a server new settings and reconnect it; its entries stay meanwhile.

        Args:
            spec: The new settings.
            start: Whether it is started now even if it starts on demand.
        """
        await self._fleet.replace(
            spec,
            connect=self._should_connect(spec.name),
            is_listed=not start and self._is_listed(spec),
        )
        await self._apply_overrides([spec])
        self._publish()

    async def revise(self, spec: ServerSpec) -> None:
        """Change settings of a server, if possible without reconnecting it.

        It keeps running if only the way its tools are offered changes; else it is reconnected.
        """
        if not self._fleet.revise(spec):
            await self.replace(spec)
            return
        await self._apply_overrides([spec])
        self._publish()

    def with_overrides(
        self, name: str, overrides: Mapping[str, ToolOverride]
    ) -> ServerEntries | None:
        """Return what a server would offer with other overrides; None: it was never listed."""
        entries = self._entries_by_server.get(name)
        if entries is None:
            return None
        return entries.with_overrides(
            name, overrides, max_name_chars=self._max_name_chars, flat=self._flat
        )

    async def reinspect(self, name: str) -> None:
        """Inspect the definitions of a server again, as last listed.

        Raises:
            UnknownServerError: There is no such server.
        """
        self._fleet.get(name)
        listing = self._listings.get(name)
        if listing is not None:
            self._entries_by_server[name] = await self._inspected_entries(
                name, listing, self._entries_by_server[name].listed_at
            )
            self._publish()

    async def adopt_decisions(self) -> None:
        """Offer or withdraw definitions by the decisions of other processes.

        Raises:
            StoreError: The decisions cannot be read.
        """
        if self._inspection is not None:
            for name in await self._inspection.refresh():
                if self._fleet.spec(name) is not None:
                    await self.reinspect(name)

    async def reinspect_all(self) -> None:
        """Inspect all definitions again, because the rules of the quarantine have changed."""
        for name in list(self._listings):
            await self.reinspect(name)
        for server in self._fleet.servers.values():
            if server.main is not None:
                self._refresher.refresh_soon(server.name)

    @property
    def specs(self) -> list[ServerSpec]:
        """Return the configurations of the servers, in order."""
        return [server.spec for server in self._fleet.servers.values()]

    def statuses(self) -> list[ServerStatus]:
        """Return the state of every server, with the sizes of its lists."""
        return [self._status(server) for server in self._fleet.servers.values()]

    def status(self, name: str) -> ServerStatus | None:
        """Return the state of a server, with the sizes of its lists; None if it does not exist."""
        server = self._fleet.servers.get(name)
        return None if server is None else self._status(server)

    def down(self) -> frozenset[str]:
        """Return the servers that are down, without those that wait for logins."""
        if self._down is None:
            self._down = frozenset(
                name
                for name, server in self._fleet.servers.items()
                if server.state == "down" and not server.waits_for_login
            )
        return self._down

    def _should_connect(self, name: str) -> bool:
        if self._connect == "all":
            return True
        if self._connect == "unknown":
            return name not in self._entries_by_server
        return name in self._connect

    def _is_listed(self, spec: ServerSpec) -> bool:
        """Whether there is a listing of a server with its current configuration."""
        return self._listed_configurations.get(spec.name) == configuration_digest(spec)

    def never_listed(self) -> frozenset[str]:
        """Return the servers that were never listed, and are starting or being listed."""
        if self._never_listed is None:
            self._never_listed = frozenset(
                name
                for name, server in self._fleet.servers.items()
                if name not in self._entries_by_server
                and server.state not in ("down", "disabled")
                and not server.is_offline
                and not self._refresher.failure(name)
            )
        return self._never_listed

    async def wait_listed(self, timeout_s: float) -> None:
        """Wait until every server is listed or has failed, for at most `timeout_s` seconds."""
        with anyio.move_on_after(timeout_s):
            while self.never_listed() or self._refresher.is_refreshing:
                await self._refresher.wait_for_progress()

    async def wait_first_listing(self, server: str, timeout_s: float) -> None:
        """Wait until a starting server is listed or has failed, for at most `timeout_s` seconds."""
        with anyio.move_on_after(timeout_s):
            while server in self.never_listed():
                await self._refresher.wait_for_progress()

    def _forget_states(self) -> None:
        """Invalidate the cached sets; every request reads them, and they change rarely."""
        self._down = self._never_listed = None

    # Subscriptions and shutdown

    async def subscribe(self, server: str, uris: set[str]) -> None:
        """Subscribe to exactly these resources of a server."""
        await self._fleet.get(server).subscribe(uris)

    async def aclose(self) -> None:
        """Stop listing, and stop all servers."""
        await self._refresher.aclose()
        await self._fleet.aclose()
        if self._stored is not None:
            await self._stored.aclose()

    # Listings and snapshots

    async def _apply_listing(self, name: str, listing: Listing) -> None:
        listed_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        entries = await self._inspected_entries(name, listing, listed_at)
        is_first = name not in self._entries_by_server
        self._entries_by_server[name] = entries
        if (spec := self._fleet.spec(name)) is not None:
            await self._apply_overrides([spec])  # they may have changed in the meantime
        configuration = self._listed_configurations[name] = (
            "" if spec is None else configuration_digest(spec)
        )
        self._publish()
        if is_first:
            self.events.state_changed()
        if self._stored is not None:
            self._stored.save_soon(name, listing, listed_at, configuration)

    async def _inspected_entries(
        self, name: str, listing: Listing, listed_at: str | None, *, is_stored: bool = False
    ) -> ServerEntries:
        quarantined: Mapping[EntryId, str] = {}
        if self._inspection is not None:
            quarantined = await self._inspection.inspect(name, listing, is_stored=is_stored)
        # Quarantined definitions may be approved while their server does not answer.
        if quarantined:
            self._listings[name] = listing
        else:
            self._listings.pop(name, None)
        # Building entries of thousands of tools takes long: not on the event loop.
        return await asyncio.to_thread(self._build, name, listing, listed_at, quarantined)

    async def _apply_overrides(self, specs: Iterable[ServerSpec]) -> None:
        """Rebuild the entries of servers whose overrides have changed."""
        for spec in specs:
            entries = self._entries_by_server.get(spec.name)
            if entries is None or entries.overrides == spec.tool_overrides:
                continue
            self._entries_by_server[spec.name] = await asyncio.to_thread(
                entries.with_overrides,
                spec.name,
                spec.tool_overrides,
                max_name_chars=self._max_name_chars,
                flat=self._flat,
            )

    def _build(
        self, name: str, listing: Listing, listed_at: str | None, quarantined: Mapping[EntryId, str]
    ) -> ServerEntries:
        spec = self._fleet.spec(name)

        def accepted(kind: EntryKind, member: str, entries: Iterable[Json]) -> list[Json]:
            return [entry for entry in entries if (kind, entry[member]) not in quarantined]

        return build_entries(
            name,
            tools=accepted("tool", "name", listing.tools),
            prompts=accepted("prompt", "name", listing.prompts),
            resources=accepted("resource", "uri", listing.resources),
            templates=accepted("template", "uriTemplate", listing.templates),
            quarantined=quarantined,
            capabilities=listing.capabilities,
            instructions="" if INSTRUCTIONS in quarantined else listing.instructions,
            listed_at=listed_at,
            left_out=listing.left_out,
            max_name_chars=self._max_name_chars,
            flat=self._flat,
            overrides=spec.tool_overrides if spec is not None else None,
        )

    def _publish(self) -> None:
        """Publish a snapshot of the enabled servers, and notify listeners of changed lists."""
        self._forget_states()
        self.generation += 1
        old = self.snapshot
        servers = {
            spec.name: self._entries_by_server.get(spec.name, ServerEntries())
            for spec in self.specs
            if spec.enabled
        }
        new = Snapshot(old.version + 1, servers)
        changed = changed_lists(old, new)
        if not changed and list(old.servers) == list(new.servers):
            self.snapshot = Snapshot(old.version, servers)
            return
        self.snapshot = new
        for kind in changed:
            self.events.list_changed(kind)

    def _status(self, server: UpstreamServer) -> ServerStatus:
        entries = self._entries_by_server.get(server.name)
        offers = entries or ServerEntries()
        status = server.status(
            tools=len(offers.tools),
            held=len(offers.quarantined),
            prompts=len(offers.prompts),
            resources=len(offers.resources),
            listed_at=offers.listed_at,
        )
        if problems := (*offers.override_problems, *_cache_problems(server.spec, entries)):
            status = replace(status, override_problems=problems)
        if status.state not in ("ready", "degraded"):
            return status
        if failure := self._refresher.failure(server.name):
            return replace(
                status, state="degraded", last_error=f"Its tools cannot be listed. {failure}"
            )
        # Nobody can use a server whose tools are unknown.
        return status if entries is not None else replace(status, state="connecting")


def _cache_problems(spec: ServerSpec, entries: ServerEntries | None) -> list[str]:
    if entries is None or not spec.tool_caches:
        return []
    tools = {tool.own_name: tool for tool in entries.tools}
    problems = {tool: cache_problem(tools.get(tool), spec) for tool in spec.tool_caches}
    return [
        f"[server.{spec.name}.tools.{tool}] has cache_s. {problem}"
        for tool, problem in problems.items()
        if problem
    ]


def _check_distinguishable(names: Iterable[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        prefix = fold(server_prefix(name))
        other = seen.get(prefix)
        if other is not None:
            raise SettingError(
                f"Servers {other!r} and {name!r} have names that clients cannot distinguish.",
                allowed="Names must differ in more than case, '-', '_' and '.'.",
                hint="Rename one of them.",
            )
        seen[prefix] = name
