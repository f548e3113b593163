"""Running and recently ended turns, and their events for any number of readers."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from time import monotonic

import anyio

from toolgate.chat.base import Event, Outcome
from toolgate.types import Caller

_KEPT_S = 600.0
"""Seconds for which a run can be read after its end."""
_MOST = 200
"""Ended runs in memory (chosen: bounds memory)."""
_MOST_EVENTS = 20_000
"""Stored events of a run for late readers (chosen: bounds memory, above any run seen)."""


@dataclass
class Run:
    """A turn from the view of its readers."""

    run_id: str
    """An opaque id."""

    caller: Caller
    """Its owner."""

    thread: str | None
    """Name of its thread."""

    began: float
    """Start time, by the clock of the runs."""

    task: "asyncio.Task[Outcome] | None" = None
    """The task that runs it."""

    outcome: Outcome | None = None
    """Its result; None while it runs, and if it failed."""

    error: Exception | None = None
    """Why it failed."""

    was_cancelled: bool = False
    """Whether it was cancelled."""

    ended: float | None = None
    """End time, by the clock of the runs."""

    first: int = 1
    """Number of the first stored event."""

    _events: list[Event] = field(default_factory=list[Event])
    _waiting: "list[asyncio.Future[None]]" = field(
        default_factory=list["asyncio.Future[None]"], repr=False
    )
    ended_event: anyio.Event = field(default_factory=anyio.Event)
    """Set when it has ended."""
    wants_rollback: bool = False
    """Whether its messages are to be deleted, because another turn has replaced it."""

    @property
    def status(self) -> str:
        """`running`, `cancelled`, `failed`, or the status of its result."""
        if self.ended is None:
            return "running"
        if self.outcome is not None:
            return self.outcome.status
        return "cancelled" if self.was_cancelled else "failed"

    def emit(self, event: Event) -> None:
        """Add an event; never waits."""
        self._events.append(event)
        if len(self._events) > _MOST_EVENTS:
            del self._events[: _MOST_EVENTS // 2]
            self.first += _MOST_EVENTS // 2
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            _let_go(waiter)

    def end(self, *, at: float) -> None:
        """Mark the run as ended."""
        self.ended = at
        self.ended_event.set()
        self._wake()

    @property
    def last(self) -> int:
        """Number of the last event."""
        return self.first + len(self._events) - 1

    def since(self, number: int) -> list[tuple[int, Event]]:
        """Return the events after the one with this number, with their numbers."""
        start = max(number + 1, self.first)
        return list(enumerate(self._events[start - self.first :], start))

    async def wait(self, after: int, *, within_s: float | None = None) -> bool:
        """Wait for an event after the one with this number, or the end; False: timed out.

        Uses a future and a timer for each piece of an answer, since cancel scopes around events
        cost several times as much.
        """
        if self.last > after or self.ended is not None:
            return True
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        self._waiting.append(woken)
        timer = None if within_s is None else loop.call_later(within_s, _let_go, woken)
        try:
            await woken
        finally:
            if timer is not None:
                timer.cancel()
            if woken in self._waiting:
                self._waiting.remove(woken)
        return self.last > after or self.ended is not None

    async def events(self, after: int = 0) -> AsyncGenerator[tuple[int, Event]]:
        """Yield the events after the one with this number, until the run ends."""
        while True:
            for number, event in self.since(after):
                yield number, event
                after = number
            if self.last > after:
                continue
            if self.ended is not None:
                return
            await self.wait(after)

    def cancel(self) -> None:
        """Cancel it."""
        if self.task is not None:
            self.task.cancel()


def _let_go(woken: "asyncio.Future[None]") -> None:
    if not woken.done():
        woken.set_result(None)


class Runs:
    """All runs of a process."""

    def __init__(self, *, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._runs: OrderedDict[str, Run] = OrderedDict()

    def current_time(self) -> float:
        """Return the seconds of the clock."""
        return self._clock()

    def begin(self, run_id: str, caller: Caller, thread: str | None) -> Run:
        """Create a run."""
        self._tidy()
        run = Run(run_id=run_id, caller=caller, thread=thread, began=self.current_time())
        self._runs[run_id] = run
        return run

    def find(self, caller: Caller, run_id: str) -> Run | None:
        """Return a run of this caller; None if it does not exist or has another owner."""
        run = self._runs.get(run_id)
        if run is None or (run.caller.project_id, run.caller.caller_id) != (
            caller.project_id,
            caller.caller_id,
        ):
            return None
        return run

    @property
    def running(self) -> list[Run]:
        """Runs that have not ended."""
        return [run for run in self._runs.values() if run.ended is None]

    def _tidy(self) -> None:
        oldest = self.current_time() - _KEPT_S
        while self._runs:
            run = next(iter(self._runs.values()))
            if run.ended is None or (run.ended > oldest and len(self._runs) < _MOST):
                break
            self._runs.popitem(last=False)
