"""Deadlines for requests to the store, and what is certain after one has passed."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from threading import Lock
from time import monotonic
from typing import Any, Literal, TypeVar

import anyio

from toolgate.errors import StoreError

__all__ = ["StoreDeadline", "TransactionAttempt", "acquired", "current_deadline", "store_deadline"]

T = TypeVar("T")

_current: ContextVar["StoreDeadline | None"] = ContextVar("toolgate_patience", default=None)
_left_alone: set[asyncio.Task[Any]] = set()
"""What nobody waits for any more; it keeps its place among those at work until it has ended."""


class TransactionAttempt:
    """One transaction that somebody waits for: given up, or kept, never both."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._state: Literal["open", "given up", "committing", "kept", "failed"] = "open"

    def may_begin(self) -> None:
        """Called by the thread at work before it does anything.

        Raises:
            StoreError: Nobody waits any more.
        """
        with self._lock:
            if self._state == "given up":
                raise StoreError("Nobody waits for this any more; nothing was changed.")

    def may_commit(self) -> None:
        """Called by the thread at work before it keeps what it did.

        Raises:
            StoreError: Nobody waits any more; what was done has to be undone.
        """
        with self._lock:
            if self._state == "given up":
                raise StoreError("Nobody waits for this any more; nothing was changed.")
            self._state = "committing"

    def was_kept(self) -> None:
        """Called by the thread at work afterwards."""
        self._state = "kept"

    def has_failed(self) -> None:
        """Called by the thread at work when it is certain that nothing was kept."""
        self._state = "failed"

    def give_up(self) -> None:
        """From now on nothing is kept, unless keeping it has begun."""
        with self._lock:
            if self._state == "open":
                self._state = "given up"

    @property
    def was_saved(self) -> bool:
        """Whether it is certain that it was kept."""
        return self._state == "kept"

    @property
    def may_be_saved(self) -> bool:
        """Whether the database was asked to keep it, and nobody knows what came of that."""
        return self._state == "committing"


class StoreDeadline:
    """What is left of the time that somebody waits for the store."""

    def __init__(self, wait_s: float, *, each: bool) -> None:
        self.wait_s = wait_s
        """Seconds in all, or for each transaction."""
        self.was_slow = False
        """Whether it came to an end."""
        self.has_ended = False
        """Whether whoever waited has left; tasks that they began are not held to it."""
        self._each = each
        self._left_s = wait_s
        self._attempts: list[TransactionAttempt] = []

    @property
    def has_saved(self) -> bool:
        """Whether something was kept since `forget_saved`."""
        return any(attempt.was_saved for attempt in self._attempts)

    @property
    def may_have_saved(self) -> bool:
        """Whether something since then may still be kept, or was, without anybody knowing."""
        return any(attempt.may_be_saved for attempt in self._attempts)

    def forget_saved(self) -> None:
        """Count from here on."""
        self._attempts.clear()

    async def wait_for(
        self, work: Coroutine[Any, Any, T], attempt: TransactionAttempt, *, saves: bool
    ) -> T:
        """What the work gives.

        Args:
            work: Runs one transaction, and ends by itself some time.
            attempt: What that transaction asks before it keeps anything.
            saves: Whether it may keep anything.

        Raises:
            StoreError: It took longer than is waited; `has_saved` and `may_have_saved` say what
                became of it.
        """
        if saves:
            self._attempts.append(attempt)
        task = asyncio.ensure_future(work)
        _left_alone.add(task)
        task.add_done_callback(_forget)
        try:
            return await self.until(task)
        finally:
            if not task.done():
                attempt.give_up()

    async def until(self, work: asyncio.Future[T]) -> T:
        """What comes of something that waits for the store; it goes on without whoever waited.

        Raises:
            StoreError: It took longer than is waited.
        """
        began = monotonic()
        try:
            await asyncio.wait({work}, timeout=max(0.0, self._left_s))
        finally:
            if not self._each:
                self._left_s -= monotonic() - began
        if work.done():
            return work.result()
        raise self._ended()

    async def take(self, lock: anyio.Lock) -> None:
        """Acquire a lock, which may be held by somebody who waits for the store.

        Raises:
            StoreError: It took longer than is waited.
        """
        began = monotonic()
        with anyio.move_on_after(max(0.0, self._left_s)) as waiting:
            await lock.acquire()
        if not self._each:
            self._left_s -= monotonic() - began
        if waiting.cancelled_caught:
            raise self._ended()

    def _ended(self) -> StoreError:
        self.was_slow = True
        return StoreError(
            f"The store did not answer within {self.wait_s:g} s.",
            hint="Try again; `toolgate doctor` looks at the store.",
        )


@asynccontextmanager
async def acquired(lock: anyio.Lock) -> AsyncGenerator[None]:
    """Hold a lock under which the store is asked, with the patience of whoever wants it."""
    deadline = current_deadline()
    await (lock.acquire() if deadline is None else deadline.take(lock))
    try:
        yield
    finally:
        lock.release()


@contextmanager
def store_deadline(wait_s: float, *, each: bool = False) -> Generator[StoreDeadline]:
    """Within the block nobody waits longer for the store than this.

    Args:
        wait_s: Seconds, for all that is asked of it together.
        each: They are meant for each single transaction, however many there are.
    """
    deadline = StoreDeadline(wait_s, each=each)
    before = _current.set(deadline)
    try:
        yield deadline
    finally:
        deadline.has_ended = True
        _current.reset(before)


def current_deadline() -> StoreDeadline | None:
    """That of whoever asks the store now; None: it is waited for as long as it takes."""
    deadline = _current.get()
    return None if deadline is None or deadline.has_ended else deadline


def _forget(task: asyncio.Task[Any]) -> None:
    _left_alone.discard(task)
    if not task.cancelled():
        task.exception()  # nobody else asks for it
