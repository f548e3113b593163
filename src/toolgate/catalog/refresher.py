"""Lists servers again in the background: after they connect, a change, or the end of a TTL."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextvars import Context

import anyio

from toolgate.catalog.events import CatalogEvents
from toolgate.errors import UpstreamError
from toolgate.upstream import Fleet, Listing, UpstreamServer

log = logging.getLogger(__name__)

_SETTLE_S = 0.02
"""Seconds to wait before listing, since servers often announce several changes at once (chosen)."""

_RETRY_S = 5.0
"""Seconds before a server whose listing failed is listed again (chosen)."""

_MIN_TTL_S = 30.0
"""Shortest time in seconds for which a listing is used, whatever its `ttlMs` (chosen)."""


class ListingRefresher:
    """Keeps the listings of a fleet up to date. Implements `FleetObserver`."""

    def __init__(
        self,
        fleet: Fleet,
        events: CatalogEvents,
        *,
        apply_listing: Callable[[str, Listing], Awaitable[None]],
        forget_states: Callable[[], None],
    ) -> None:
        """Create the refresher; it refreshes nothing yet.

        Args:
            fleet: The servers.
            events: Receives events about states and resources.
            apply_listing: Receives a server and its new listing.
            forget_states: Called when the state of a server changes, before `events`.
        """
        self._fleet = fleet
        self._events = events
        self._apply_listing = apply_listing
        self._forget_states = forget_states
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._changed_meanwhile: set[str] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._failures: dict[str, str] = {}
        self._progress = asyncio.Event()

    @property
    def is_refreshing(self) -> bool:
        """Whether any server is being listed."""
        return bool(self._tasks)

    def failure(self, name: str) -> str:
        """Return why the last listing of a server failed; empty if it succeeded or is running."""
        return self._failures.get(name, "")

    async def wait_for_progress(self) -> None:
        """Wait until a listing ends or the state of a server changes."""
        self._progress.clear()
        await self._progress.wait()

    def refresh_soon(self, name: str) -> None:
        """List a server; if it is being listed, list it once more afterwards."""
        if name in self._tasks:
            self._changed_meanwhile.add(name)
            return
        # An empty context: the deadline of the request that happens to start it does not apply.
        task = asyncio.create_task(self._refresh(name), name=f"list:{name}", context=Context())
        self._tasks[name] = task
        task.add_done_callback(lambda done: self._refreshed(name, done))

    def forget(self, name: str) -> None:
        """Forget a removed server."""
        self._failures.pop(name, None)
        self._cancel_timer(name)

    def _cancel_timer(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    async def aclose(self) -> None:
        """Stop listing."""
        for timer in self._timers.values():
            timer.cancel()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # FleetObserver

    def server_connected(self, server: UpstreamServer) -> None:
        """List the server."""
        self._failures.pop(server.name, None)
        self.refresh_soon(server.name)

    async def wait_listed(self, server: UpstreamServer) -> None:
        """Wait until the server is listed."""
        if (task := self._tasks.get(server.name)) is not None:
            await asyncio.wait({task})

    def server_changed(self, server: UpstreamServer) -> None:
        """List the server again."""
        self.refresh_soon(server.name)

    def server_state(self, server: UpstreamServer) -> None:
        """Notify listeners; the lists stay, since searches read the state when they run."""
        del server
        self._notify_state()

    def resource_updated(self, server: UpstreamServer, uri: str) -> None:
        """Notify listeners."""
        self._events.resource_updated(server.name, uri)

    def _notify_state(self) -> None:
        self._forget_states()
        self._progress.set()
        self._events.state_changed()

    def _refreshed(self, name: str, done: asyncio.Task[None]) -> None:
        self._tasks.pop(name, None)
        if not done.cancelled() and (error := done.exception()) is not None:
            # A bug of ours must not leave a server unlisted without a log entry.
            log.error("listing failed unexpectedly", extra={"server": name}, exc_info=error)
            self._refresh_later(name, _RETRY_S)
        if name in self._changed_meanwhile:
            self._changed_meanwhile.discard(name)
            if name in self._fleet.servers:
                self.refresh_soon(name)
        self._progress.set()

    async def _refresh(self, name: str) -> None:
        server = self._fleet.servers.get(name)
        if server is None or server.spec.start == "always":  # no call waits for it
            await anyio.sleep(_SETTLE_S)
            server = self._fleet.servers.get(name)
        if server is None or server.state == "asleep":
            return
        try:
            listing = await server.listing()
        except UpstreamError as error:
            log.warning("listing failed", extra={"server": name, "error": str(error)})
            if server.main is not None and self._fleet.servers.get(name) is server:
                self._failures[name] = str(error)
                self._notify_state()
                self._refresh_later(name, _RETRY_S)
            return
        if self._fleet.servers.get(name) is not server:
            return  # removed or replaced in the meantime
        for reason in listing.left_out:
            log.warning("entry left out", extra={"server": name, "reason": reason})
        await self._apply_listing(name, listing)
        server.demand.listed()
        if self._failures.pop(name, ""):
            self._notify_state()
        if listing.ttl_ms:
            self._refresh_later(name, max(listing.ttl_ms / 1000, _MIN_TTL_S))

    def _refresh_later(self, name: str, delay_s: float) -> None:
        self._cancel_timer(name)
        loop = asyncio.get_running_loop()
        self._timers[name] = loop.call_later(delay_s, self.refresh_soon, name)
