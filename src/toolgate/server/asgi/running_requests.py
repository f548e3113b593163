"""Running requests: how many there may be, and how they end when the gateway shuts down."""

import asyncio
import contextlib
import math
from collections import Counter
from collections.abc import Callable, Generator
from typing import Any

import anyio

__all__ = ["OVERLOADED", "SHUTTING_DOWN", "RunningRequests"]

OVERLOADED = (
    "The gateway is overloaded and refuses requests of callers that have most of them running."
    " Nothing was sent to a server. Repeat the request later."
)
SHUTTING_DOWN = "The gateway is shutting down and takes no new calls."


_NEVER_REFUSED = 32
"""Requests that may run whatever the delay: with fewer, the delay comes from elsewhere (chosen)."""

_LONGEST_WAIT_S = 10
"""The longest time after which a refused client is to try again, in seconds (chosen)."""


class RunningRequests:
    """Counts requests that are being answered; drains and cancels them at shutdown."""

    def __init__(
        self, lag_s: Callable[[], float] = lambda: 0.0, *, max_lag_s: float = math.inf
    ) -> None:
        """Count from zero.

        Args:
            lag_s: Delay of the event loop in seconds.
            max_lag_s: Delay beyond which the gateway is overloaded.
        """
        self._lag_s = lag_s
        self._max_lag_s = max_lag_s
        self._by_caller = Counter[str]()
        self.refusals = 0
        """Requests refused because of overload."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._idle = anyio.Event()
        self.is_draining = False
        """Whether new calls are refused."""
        self.is_ending = False
        """Whether the requests that still run are being cancelled."""

    def __len__(self) -> int:
        """How many requests are running."""
        return len(self._tasks)

    def refusal_wait_s(self, caller: str) -> int:
        """Seconds after which a request that is refused for overload may come again; 0: it may run.

        The gateway is overloaded while the event loop is late. Then a caller with as many running
        requests as the mean of all callers, or more, has to wait; the others do not.
        """
        lag_s = self._lag_s()
        if lag_s <= self._max_lag_s or len(self._tasks) < _NEVER_REFUSED:
            return 0
        if self._by_caller[caller] * len(self._by_caller) < len(self._tasks):
            return 0
        self.refusals += 1
        return min(math.ceil(lag_s), _LONGEST_WAIT_S)

    @contextlib.contextmanager
    def counted(self, caller: str = "") -> Generator[None]:
        """Count the current task as a running request of a caller."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._by_caller[caller] += 1
        try:
            yield
        finally:
            self._tasks.discard(task)
            self._by_caller[caller] -= 1
            if not self._by_caller[caller]:
                del self._by_caller[caller]
            if not self._tasks:
                self._idle.set()

    def begin_draining(self) -> None:
        """Take no new calls from now on."""
        self.is_draining = True

    async def wait_until_idle(self, within_s: float) -> bool:
        """Wait for running requests; False when some are still running after `within_s`."""
        with anyio.move_on_after(within_s):
            while self._tasks:
                self._idle = anyio.Event()
                await self._idle.wait()
        return not self._tasks

    def cancel_all(self) -> None:
        """Cancel what still runs; clients get an error that says so."""
        self.is_draining = self.is_ending = True
        for task in self._tasks:
            task.cancel()
