"""When a server that starts on demand is needed, and when it may sleep."""

import asyncio
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import monotonic

import anyio

from toolgate.types import ServerSpec, ServerState

# Seconds a server stays awake after it asked the client something (chosen: as a parked call).
_ANSWER_S = 300.0

_AWAKE = nullcontext()
"""The use of a server that is always awake."""


class Demand:
    """Decides when a server is awake. One that is always connected never sleeps."""

    def __init__(self, spec: ServerSpec, *, is_listed: bool) -> None:
        """Start asleep if the server's listing is known, else awake.

        Args:
            spec: The configuration of the server.
            is_listed: Whether its stored listing belongs to this configuration.
        """
        self.is_on_demand = spec.start == "on-demand"
        self.failed = asyncio.Event()
        """Set when the current attempt to start has failed."""
        self.has_slept = False
        """Whether the next connection follows a sleep, and so does not count as a restart."""
        self._idle_s = spec.idle_s
        self._is_listed = is_listed
        self._is_subscribed = False
        self._uses = 0
        self._awake_until = 0.0
        self._changed = asyncio.Event()
        self._wanted = asyncio.Event()
        if not (self.is_on_demand and is_listed):
            self._wanted.set()

    @property
    def first_state(self) -> ServerState:
        """The state of an enabled server before anything happens."""
        return "asleep" if self.is_asleep else "connecting"

    @property
    def is_asleep(self) -> bool:
        """Whether nothing needs the server."""
        return not self._wanted.is_set()

    def wake(self) -> None:
        """Request a start of the server, if it is asleep."""
        if self.failed.is_set():
            self.failed = asyncio.Event()
        self._wanted.set()

    async def wait(self) -> None:
        """Wait until the server is needed."""
        await self._wanted.wait()

    def started(self) -> None:
        """Note that a connection is up."""
        self.has_slept = False
        self._extend(self._idle_s)

    def ended(self, *, is_failure: bool) -> None:
        """Note that a connection ended or failed: sleep, if the server's listing is known."""
        if is_failure:
            self.failed.set()
        if self.is_on_demand and self._is_listed and (is_failure or not self._is_used):
            self.sleep()

    def sleep(self) -> None:
        """Sleep until the server is needed again."""
        self.has_slept = True
        self._wanted.clear()

    def listed(self) -> None:
        """Note that the server's listing is known, so that it may sleep."""
        self._is_listed = True
        self._changed.set()

    def subscribe(self, *, is_subscribed: bool) -> None:
        """Stay awake while somebody is subscribed to a resource."""
        self._is_subscribed = is_subscribed
        self._extend(self._idle_s)
        self._changed.set()

    def expect_answer(self) -> None:
        """Stay awake for the answer to a server's question."""
        self._extend(_ANSWER_S)

    def use(self, *, is_listing: bool = False) -> AbstractContextManager[None]:
        """Stay awake within the block, and for the idle time afterwards unless it only lists."""
        # Counting the uses of a server that never sleeps would wake a task with every call.
        return self._used(is_listing=is_listing) if self.is_on_demand else _AWAKE

    @contextmanager
    def _used(self, *, is_listing: bool) -> Generator[None]:
        self._uses += 1
        try:
            yield
        finally:
            self._uses -= 1
            if not is_listing:
                self._extend(self._idle_s)
            if not self._uses:
                self._changed.set()

    @property
    def may_sleep(self) -> bool:
        """Whether nothing has needed the server for its idle time."""
        is_idle = not self._is_used and monotonic() >= self._awake_until
        return is_idle and self._is_listed and self.is_on_demand

    async def wait_idle(self) -> None:
        """Wait until the server may sleep."""
        while not self.may_sleep:
            self._changed.clear()
            if self._is_used or not self._is_listed or not self.is_on_demand:
                await self._changed.wait()
            else:
                with anyio.move_on_after(max(0.0, self._awake_until - monotonic())):
                    await self._changed.wait()

    @property
    def _is_used(self) -> bool:
        return self._uses > 0 or self._is_subscribed

    def _extend(self, seconds: float) -> None:
        self._awake_until = max(self._awake_until, monotonic() + seconds)
