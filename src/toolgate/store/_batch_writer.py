"""Writes rows in the background in batches, without delaying the caller."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import Generic, TypeVar

import anyio

from toolgate.errors import StoreError

log = logging.getLogger(__name__)

_BATCH = 500
"""Rows per transaction (chosen: a lock of some milliseconds)."""
_PAUSE_S = 0.2
"""Seconds between two transactions (chosen: what a killed process loses)."""
_LONGEST_PAUSE_S = 10.0
"""Longest pause in seconds between two attempts while the store fails (chosen)."""

RowT = TypeVar("RowT")


class BatchWriter(Generic[RowT]):
    """The only writer of a log. Belongs to one event loop.

    A kill loses the rows of the last 0.2 s. While the store fails, the newest `max_pending` rows
    wait in memory, and callers are not delayed.
    """

    def __init__(
        self,
        write: Callable[[Sequence[RowT]], Awaitable[None]],
        *,
        name: str,
        max_pending: int = 5_000,
    ) -> None:
        """Create a writer.

        Args:
            write: Writes all given rows or none.
            name: Name of the log, for messages.
            max_pending: Largest number of waiting rows.
        """
        self._write = write
        self._name = name
        self._max_pending = max_pending
        self._pending: deque[RowT] = deque()
        self._task: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()
        self._closed = False
        self.dropped = 0
        """Rows lost because the store failed for too long."""
        self.last_error = ""
        """The error of the last attempt; empty while writing works."""

    @property
    def pending(self) -> int:
        """Rows that are not written yet."""
        return len(self._pending)

    def put(self, row: RowT) -> None:
        """Queue a row, which is written soon. Never waits, never raises."""
        if self._closed:
            self.dropped += 1
            return
        self._pending.append(row)
        self._drop_oldest()
        if self._task is None:
            # An empty context: the deadline of the request that happens to start it does not apply.
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(self._write_all(), context=Context())

    async def flush(self) -> bool:
        """Write all queued rows now. False if the store fails."""
        async with self._writing:  # what is being written now counts too
            left = len(self._pending)
            while left > 0:
                if not await self._write_batch():
                    return False
                left -= _BATCH
        return True

    async def aclose(self, *, timeout_s: float = 3.0) -> None:
        """Write the remaining rows, for at most `timeout_s`, and stop."""
        with anyio.move_on_after(timeout_s):
            await self.flush()
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=timeout_s)
        if self._pending:
            log.warning("log lost", extra={"log": self._name, "rows": len(self._pending)})
            self.dropped += len(self._pending)
            self._pending.clear()

    def forget(self, unwanted: Callable[[RowT], bool]) -> None:
        """Drop queued rows that match."""
        self._pending = deque(row for row in self._pending if not unwanted(row))

    async def _write_all(self) -> None:
        pause_s = _PAUSE_S
        try:
            while self._pending:
                await anyio.sleep(pause_s)
                async with self._writing:
                    written = await self._write_batch()
                if written:
                    pause_s = 0.0 if len(self._pending) >= _BATCH else _PAUSE_S
                else:
                    pause_s = min(max(2 * pause_s, _PAUSE_S), _LONGEST_PAUSE_S)
        finally:
            self._task = None

    async def _write_batch(self) -> bool:
        batch = [self._pending.popleft() for _ in range(min(_BATCH, len(self._pending)))]
        if not batch:
            return True
        try:
            await self._write(batch)
        except asyncio.CancelledError:
            self._put_back(batch)
            raise
        except Exception as error:
            self._put_back(batch)
            if not self.last_error:
                log.warning(
                    "log cannot be written",
                    extra={"log": self._name, "reason": str(error)},
                    exc_info=None if isinstance(error, StoreError) else error,
                )
            self.last_error = str(error) or type(error).__name__
            return False
        self.last_error = ""
        return True

    def _put_back(self, batch: Sequence[RowT]) -> None:
        self._pending.extendleft(reversed(batch))
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        while len(self._pending) > self._max_pending:
            self._pending.popleft()
            self.dropped += 1
