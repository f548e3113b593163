"""Writes audit records in the background, in batches, without delaying a call."""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from contextvars import Context
from dataclasses import dataclass
from typing import Protocol

import anyio

from toolgate.base.ids import utc_now
from toolgate.base.tracing import observe
from toolgate.errors import StoreError
from toolgate.store import current_deadline
from toolgate.types import AuditRecord

log = logging.getLogger(__name__)

# Records per batch (chosen).
_BATCH = 500
# Seconds between attempts while the store fails (chosen).
_MAX_WAIT_S = 5.0
"""Seconds that a request waits for its record to be written, in projects that allow no unrecorded
actions (chosen: longer than any write of a healthy database, shorter than clients wait)."""

_LONGEST_PAUSE_S = 5.0
"""Longest pause in seconds between two attempts while the store fails (chosen: its return is
noticed
soon)."""


class _Place(Protocol):
    """A destination of records: the store or another sink."""

    async def append(self, records: Sequence[AuditRecord]) -> None:
        """Write records; all or none.

        Raises:
            StoreError: They could not be written now.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class RecorderStatus:
    """The state of the recorder, for `toolgate doctor`."""

    enabled: bool
    """Whether auditing is on."""

    pending: int
    """Records in memory that are not written yet."""

    written: int
    """Records written since the start."""

    dropped: int
    """Records lost because the store failed for too long."""

    failing_since: str | None
    """Since when writing has failed, UTC, ISO 8601; None while it works."""

    last_error: str | None
    """The error of the last attempt; None while writing works."""


class Recorder:
    """The only writer of one destination of the audit log.

    Belongs to one event loop. If the process is killed, at most the records of the last
    `flush_interval_s` are lost, and none for which `record_durable` returned.
    """

    def __init__(
        self,
        store: _Place,
        *,
        enabled: bool = True,
        flush_interval_s: float = 0.2,
        max_pending: int = 10_000,
    ) -> None:
        self._store = store
        self._enabled = enabled
        # Half of the promised time is for waiting, the other half for writing.
        self._interval_s = flush_interval_s / 2
        self._max_pending = max_pending
        self._pending: deque[tuple[int, AuditRecord]] = deque()
        self._taken = 0
        self._in_flight = 0
        self._written = 0
        self._dropped = 0
        self._failing_since: str | None = None
        self._last_error: str | None = None
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._hurry = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._closed = False

    def record(self, record: AuditRecord) -> None:
        """Queue a record, which is written soon. Never waits, never raises."""
        if not self._enabled:
            return
        if self._closed:
            self._dropped += 1
            return
        self._taken += 1
        self._pending.append((self._taken, record))
        # Memory is bounded: losing old records beats stopping the gateway. Projects that must
        # not lose any use record_durable.
        self._drop_oldest()
        if self._writer is None:
            self._start()

    async def record_durable(self, record: AuditRecord) -> None:
        """Queue a record and wait until it is on disk.

        Raises:
            StoreError: It could not be written now; it stays in memory for the next attempt.
        """
        if not self._enabled:
            return
        if self._closed:
            raise StoreError("The audit log is closed, because Toolgate is stopping.")
        self.record(record)
        await self._settled()

    async def wait_written(self) -> None:
        """Wait until all records queued so far are on disk.

        Raises:
            StoreError: They could not be written now; they stay in memory for the next attempt.
        """
        if self._enabled:
            await self._settled()

    async def flush(self) -> bool:
        """Write all queued records now. False if the store fails."""
        try:
            await self._settled()
        except StoreError:
            return False
        return True

    async def aclose(self, *, timeout_s: float = 5.0) -> None:
        """Write the remaining records, for at most `timeout_s`, and stop. Can be called twice."""
        self._closed = True
        with anyio.move_on_after(timeout_s):
            await self.flush()
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.wait({self._writer}, timeout=timeout_s)
        if self._pending:
            log.error("audit records lost", extra={"records": len(self._pending)})
            self._dropped += len(self._pending)
            self._pending.clear()

    def status(self) -> RecorderStatus:
        """The state of the recorder."""
        return RecorderStatus(
            enabled=self._enabled,
            pending=len(self._pending) + self._in_flight,
            written=self._written,
            dropped=self._dropped,
            failing_since=self._failing_since,
            last_error=self._last_error,
        )

    async def _settled(self) -> None:
        """Have all records queued so far written at once, and wait for it.

        Raises:
            StoreError: The store did not accept them.
        """
        if not self._pending and self._writer is None:
            return
        waiter = asyncio.get_running_loop().create_future()
        # A waiter is done once this number is written; later records do not delay it.
        self._waiters.append((self._taken, waiter))
        self._hurry.set()
        if self._writer is None:
            self._start()
        patience = current_deadline()
        try:
            with anyio.fail_after(_MAX_WAIT_S):
                await (waiter if patience is None else patience.until(waiter))
        except TimeoutError as error:
            # A database that hangs fails no write by itself.
            late = StoreError(
                f"The audit log was not written within {_MAX_WAIT_S:g} seconds.",
                hint="Toolgate retries. Check whether the database responds.",
            )
            self._note_failure(late)
            raise late from error

    def _start(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # taken outside of the loop: written with the next one
        # An empty context: the deadline of the request that happens to start it does not apply.
        self._writer = loop.create_task(self._write_all(), name="toolgate audit", context=Context())

    async def _write_all(self) -> None:
        """Write until the queue is empty; the next record starts the task again."""
        pause_s = self._interval_s
        try:
            while self._pending or self._waiters:
                with anyio.move_on_after(pause_s):
                    await self._hurry.wait()
                self._hurry.clear()
                if await self._write_batch():
                    pause_s = 0.0 if len(self._pending) >= _BATCH else self._interval_s
                    if self._waiters:
                        self._hurry.set()
                else:
                    pause_s = min(max(2 * pause_s, self._interval_s), _LONGEST_PAUSE_S)
        finally:
            self._writer = None
            # Nothing else would wake them.
            self._fail_waiters(StoreError("The audit log is closed, because Toolgate is stopping."))

    async def _write_batch(self) -> bool:
        batch = [self._pending.popleft() for _ in range(min(_BATCH, len(self._pending)))]
        through = batch[-1][0] if batch else self._taken
        self._in_flight = len(batch)
        try:
            with observe("audit", records=len(batch)):
                await self._store.append([record for _, record in batch])
        except Exception as error:  # noqa: BLE001 - whatever a store does, calls go on
            self._put_back(batch)
            self._note_failure(error)
            return False
        except asyncio.CancelledError:
            self._put_back(batch)
            raise
        finally:
            self._in_flight = 0
        self._written += len(batch)
        self._note_success()
        while self._waiters and self._waiters[0][0] <= through:
            _, waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
        return True

    def _put_back(self, batch: list[tuple[int, AuditRecord]]) -> None:
        # At the front and in order: the chain follows the order of events.
        self._pending.extendleft(reversed(batch))
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        while len(self._pending) > self._max_pending:
            self._pending.popleft()
            self._dropped += 1

    def _note_failure(self, error: Exception) -> None:
        if self._failing_since is None:
            self._failing_since = utc_now()
            log.error(
                "audit cannot be written",
                extra={"reason": str(error), "pending": len(self._pending)},
                exc_info=None if isinstance(error, StoreError) else error,
            )
        self._last_error = str(error)
        self._fail_waiters(error)

    def _note_success(self) -> None:
        if self._failing_since is not None:
            log.warning(
                "audit is written again",
                extra={"failing_since": self._failing_since, "dropped": self._dropped},
            )
        self._failing_since = self._last_error = None

    def _fail_waiters(self, error: Exception) -> None:
        while self._waiters:
            _, waiter = self._waiters.popleft()
            if not waiter.done():
                reason = f" {error}" if isinstance(error, StoreError) else ""
                failure = StoreError(
                    f"The audit log could not be written.{reason}", detail=str(error)
                )
                failure.__cause__ = error
                waiter.set_exception(failure)
