"""Watches the event loop: how late it runs what is due, and where it stood when it was latest."""

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from time import monotonic, thread_time
from types import FrameType

from toolgate.base.ids import utc_now

STALL_S = 0.02
"""Seconds of delay from which the loop counts as stalled (chosen: half of what people notice in a
chain of five calls)."""

_BEAT_S = 0.01
"""Seconds between two looks while requests run (chosen: half of a stall)."""

_IDLE_BEAT_S = 0.25
"""Seconds between two looks while none runs, so that an idle gateway hardly wakes up (chosen)."""

_KEPT_S = 3600.0
"""Seconds for which the worst stall is kept: that of the start says nothing later (chosen)."""

_SMOOTHING = 0.2
"""Weight of the latest delay in the mean: it follows a change within five looks (chosen)."""

_frames = sys._current_frames  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - documented

_FRAMES = 25
"""Frames of a stack that are kept, the innermost ones (chosen)."""


@dataclass(frozen=True, kw_only=True)
class Stall:
    """A time in which the event loop ran nothing of what was due."""

    seconds: float
    """How long."""

    cpu_s: float
    """CPU seconds that its thread used meanwhile, at most; far less than `seconds` if it waited for
    a disk or for a processor that others used."""

    at: str
    """When it ended: UTC, ISO 8601."""

    stack: str
    """What it ran, the innermost call last; empty if that was over before it could be seen."""


class LoopMonitor:
    """Measures the event loop of a process from within and from a thread beside it."""

    def __init__(self) -> None:
        self.stalls = 0
        """How often the loop was stalled."""
        self._lag_s = 0.0
        self._worst: Stall | None = None
        self._worst_at = 0.0
        self._stack = ""
        self._pause_s = _IDLE_BEAT_S
        self._due = 0.0
        self._cpu_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._watchers: list[Callable[[], bool]] = []
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def lag_s(self) -> float:
        """Mean delay of the last looks in seconds."""
        return self._lag_s

    @property
    def worst(self) -> Stall | None:
        """The longest stall of the last hour."""
        if monotonic() - self._worst_at > _KEPT_S:
            self._worst = None
        return self._worst

    @contextmanager
    def watching(self, is_busy: Callable[[], bool]) -> Generator[None]:
        """Watch the running loop within the block; blocks on the same loop may overlap.

        Args:
            is_busy: Whether requests run, so that a delay matters.
        """
        self._watchers.append(is_busy)
        if len(self._watchers) == 1:
            self._start(asyncio.get_running_loop())
        try:
            yield
        finally:
            self._watchers.remove(is_busy)
            if not self._watchers:
                self._end()

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._stopped.clear()
        self._due = monotonic()
        self._beat(loop)
        self._thread = threading.Thread(
            target=self._sample,
            args=(threading.get_ident(),),
            name="toolgate loop monitor",
            daemon=True,
        )
        self._thread.start()

    def _end(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        delay_s = monotonic() - self._due
        self._lag_s += _SMOOTHING * (delay_s - self._lag_s)
        if delay_s > STALL_S:
            self._note_stall(delay_s)
        is_busy = any(watcher() for watcher in self._watchers)
        self._pause_s = _BEAT_S if is_busy else _IDLE_BEAT_S
        self._cpu_s = thread_time()
        self._due = monotonic() + self._pause_s
        self._timer = loop.call_later(self._pause_s, self._beat, loop)

    def _note_stall(self, seconds: float) -> None:
        self.stalls += 1
        if self.worst is None or seconds > self.worst.seconds:
            self._worst_at = monotonic()
            self._worst = Stall(
                seconds=seconds,
                # The clock was read with the last look, a pause before the stall began.
                cpu_s=min(seconds, thread_time() - self._cpu_s),
                at=utc_now(),
                stack=self._stack,
            )
        self._stack = ""

    def _sample(self, watched: int) -> None:
        """Keep the stack of the watched thread in a stall that becomes the worst."""
        while not self._stopped.wait(self._pause_s):
            worst = self._worst
            limit_s = STALL_S if worst is None else max(STALL_S, worst.seconds)
            if self._stack or monotonic() - self._due <= limit_s:
                continue
            frame = _frames().get(watched)
            if frame is not None:
                self._stack = _stack_of(frame)


def _stack_of(frame: FrameType) -> str:
    """The innermost frames, the last call last: modules instead of paths of this machine."""
    frames = list(islice(traceback.walk_stack(frame), _FRAMES))
    return "".join(
        f"{inner.f_globals.get('__name__', '?')}:{line} {inner.f_code.co_qualname}\n"
        for inner, line in reversed(frames)
    )
