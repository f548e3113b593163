"""Running requests: overload protection, and their end at shutdown."""

import asyncio
import contextlib
import math
from collections import Counter, deque
from collections.abc import Callable, Generator
from time import monotonic
from typing import Any

import anyio

OVERLOADED = (
    "The gateway is overloaded and refuses requests of callers that have most of them running."
    " Nothing was sent to a server. Repeat the request later."
)
SHUTTING_DOWN = "The gateway is shutting down and takes no new calls."


_NEVER_REFUSED = 32
"""Requests that may always run: with fewer, the delay has another cause (chosen)."""

_STARTS_PER_TURN = 4
"""Requests that start in one turn of the event loop (chosen: a search takes 4 ms of it)."""

_LONGEST_WAIT_S = 10
"""Longest wait in seconds that a refused client is told (chosen)."""


class RunningRequests:
    """Counts running requests, starts few at a time, and drains and cancels them at shutdown."""

    def __init__(
        self, lag_s: Callable[[], float] = lambda: 0.0, *, max_lag_s: float = math.inf
    ) -> None:
        """Start with no requests.

        Args:
            lag_s: Returns the delay of the event loop in seconds.
            max_lag_s: Delay, of the loop or of a request that waits to start, above which the
                gateway is overloaded.
        """
        self._lag_s = lag_s
        self._max_lag_s = max_lag_s
        self._by_caller = Counter[str]()
        self._started = 0  # in this turn of the event loop
        self._waiting = deque[tuple[float, asyncio.Future[None]]]()
        self.refusals = 0
        """Requests refused because of overload."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._idle = anyio.Event()
        self.is_draining = False
        """Whether new calls are refused."""
        self.is_ending = False
        """Whether the remaining requests are being cancelled."""

    def __len__(self) -> int:
        """Return the number of running requests."""
        return len(self._tasks)

    async def wait_to_start(self) -> None:
        """Wait for a turn of the event loop in which few other requests start.

        Hundreds that arrive at once would otherwise all start in one turn, and the requests that
        run already, and everything that has a time, would wait for that.
        """
        loop = asyncio.get_running_loop()
        if not self._started:
            loop.call_soon(self._begin_turn)
        if self._started < _STARTS_PER_TURN:
            self._started += 1
            return
        may_start = loop.create_future()
        self._waiting.append((monotonic(), may_start))
        await may_start

    def _begin_turn(self) -> None:
        self._started = 0
        while self._waiting and self._started < _STARTS_PER_TURN:
            _, may_start = self._waiting.popleft()
            if not may_start.done():  # its client has gone
                may_start.set_result(None)
                self._started += 1
        if self._started:
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def refusal_wait_s(self, caller: str) -> int:
        """Return the seconds until a request refused for overload may retry; 0: it may run now.

        The gateway is overloaded while the event loop is delayed, or requests wait to start. Then
        a caller whose number of running requests is at or above the mean of all callers has to
        wait; the others do not.
        """
        lag_s = self._lag_s()
        if self._waiting:
            lag_s = max(lag_s, monotonic() - self._waiting[0][0])
        if lag_s <= self._max_lag_s or len(self._tasks) + len(self._waiting) < _NEVER_REFUSED:
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
        """Refuse new calls from now on."""
        self.is_draining = True

    async def wait_until_idle(self, within_s: float) -> bool:
        """Wait for running requests; False if some are still running after `within_s`."""
        with anyio.move_on_after(within_s):
            while self._tasks:
                self._idle = anyio.Event()
                await self._idle.wait()
        return not self._tasks

    def cancel_all(self) -> None:
        """Cancel running requests; clients get an error that says so."""
        self.is_draining = self.is_ending = True
        for task in self._tasks:
            task.cancel()
