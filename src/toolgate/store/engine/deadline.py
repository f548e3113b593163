"""Deadlines for requests to the store, and what is certain after they expire."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from threading import Lock
from time import monotonic
from typing import Any, Literal, TypeVar

import anyio

from toolgate.errors import StoreError

T = TypeVar("T")

_current: ContextVar["StoreDeadline | None"] = ContextVar("toolgate_patience", default=None)
_left_alone: set[asyncio.Task[Any]] = set()
"""Work whose caller has left; it counts as running until it ends."""


class TransactionAttempt:
    """A transaction with a caller: either given up or committed, never both."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._state: Literal["open", "given up", "committing", "kept", "failed"] = "open"

    def may_begin(self) -> None:
        """Called by the worker thread before it starts.

        Raises:
            StoreError: The caller has left.
        """
        with self._lock:
            if self._state == "given up":
                raise StoreError("The caller no longer waits for this; nothing was changed.")

    def may_commit(self) -> None:
        """Called by the worker thread before it commits.

        Raises:
            StoreError: The caller has left, so the work must be rolled back.
        """
        with self._lock:
            if self._state == "given up":
                raise StoreError("The caller no longer waits for this; nothing was changed.")
            self._state = "committing"

    def was_kept(self) -> None:
        """Called by the worker thread after the commit."""
        self._state = "kept"

    def has_failed(self) -> None:
        """Called by the worker thread when it is certain that nothing was committed."""
        self._state = "failed"

    @property
    def is_settled(self) -> bool:
        """Whether it is certain whether it was or will be committed."""
        return self._state in {"given up", "kept", "failed"}

    def give_up(self) -> None:
        """Prevent the commit, unless it has started."""
        with self._lock:
            if self._state == "open":
                self._state = "given up"

    @property
    def was_saved(self) -> bool:
        """Whether it was certainly committed."""
        return self._state == "kept"

    @property
    def may_be_saved(self) -> bool:
        """Whether the commit was sent and its result is unknown."""
        return self._state == "committing"


class StoreDeadline:
    """The remaining time that a caller waits for the store."""

    def __init__(self, wait_s: float, *, each: bool) -> None:
        self.wait_s = wait_s
        """Seconds in total, or per transaction."""
        self.was_slow = False
        """Whether the time ran out."""
        self.has_ended = False
        """Whether the caller has left; tasks that it started are no longer bound by the
        deadline."""
        self._each = each
        self._left_s = wait_s
        self._has_saved = False
        self.unsettled: list[TransactionAttempt] = []
        """The last transaction, and earlier ones whose result is not certain."""

    @property
    def has_saved(self) -> bool:
        """Whether something was saved since `forget_saved`."""
        return self._has_saved or any(attempt.was_saved for attempt in self.unsettled)

    @property
    def may_have_saved(self) -> bool:
        """Whether something since `forget_saved` may have been saved without confirmation."""
        return any(attempt.may_be_saved for attempt in self.unsettled)

    def forget_saved(self) -> None:
        """Reset `has_saved` and `may_have_saved`."""
        self._has_saved = False
        self.unsettled.clear()

    async def wait_for(
        self, work: Coroutine[Any, Any, T], attempt: TransactionAttempt, *, saves: bool
    ) -> T:
        """Wait for work within the deadline.

        A caller that is cancelled leaves work that writes to be finished, as without a deadline.

        Args:
            work: Runs a transaction, and ends by itself eventually.
            attempt: Decides whether the transaction may commit.
            saves: Whether it writes.

        Raises:
            StoreError: The time ran out; `has_saved` and `may_have_saved` say what happened.
        """
        if saves:
            # Streams save for hours: of settled attempts, only the result is kept.
            settled = [other for other in self.unsettled if other.is_settled]
            self._has_saved = self._has_saved or any(other.was_saved for other in settled)
            self.unsettled = [other for other in self.unsettled if other not in settled]
            self.unsettled.append(attempt)
        task = asyncio.ensure_future(work)
        _left_alone.add(task)
        task.add_done_callback(_release)
        try:
            with anyio.CancelScope(shield=saves):
                await self.until(task)
        except StoreError:
            attempt.give_up()
            raise
        return task.result()

    async def until(self, work: asyncio.Future[T]) -> T:
        """Wait for a future within the deadline; it continues if the caller leaves.

        Raises:
            StoreError: The time ran out.
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
        """Acquire a lock whose holder may be waiting for the store.

        Raises:
            StoreError: The time ran out.
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
            hint="Try again; `toolgate doctor` checks the store.",
        )


@asynccontextmanager
async def acquired(lock: anyio.Lock) -> AsyncGenerator[None]:
    """Hold a lock under which the store is used, within the caller's deadline."""
    deadline = current_deadline()
    await (lock.acquire() if deadline is None else deadline.take(lock))
    try:
        yield
    finally:
        lock.release()


@contextmanager
def store_deadline(wait_s: float, *, each: bool = False) -> Generator[StoreDeadline]:
    """Set the deadline for the store within the block.

    Args:
        wait_s: Seconds for all requests together.
        each: Whether the seconds apply to each transaction instead.
    """
    deadline = StoreDeadline(wait_s, each=each)
    before = _current.set(deadline)
    try:
        yield deadline
    finally:
        deadline.has_ended = True
        _current.reset(before)


def current_deadline() -> StoreDeadline | None:
    """The deadline of the current context; None: no deadline."""
    deadline = _current.get()
    return None if deadline is None or deadline.has_ended else deadline


def _release(task: asyncio.Task[Any]) -> None:
    """Let go of a finished task, whose caller may have stopped waiting for it."""
    _left_alone.discard(task)
    if not task.cancelled():
        task.exception()  # nobody else asks for it
