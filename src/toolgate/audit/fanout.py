"""Sends audit records to several sinks, each with its own writer."""

from collections.abc import Callable, Sequence

import anyio

from toolgate.audit.recorder import Recorder, RecorderStatus
from toolgate.types import AuditRecord


class FanoutRecorder:
    """Passes records to the recorders of all sinks."""

    def __init__(self, recorders: Sequence[Recorder]) -> None:
        self._recorders = tuple(recorders)
        self._listeners: list[Callable[[AuditRecord], None]] = []

    def on_outcome(self, listener: Callable[[AuditRecord], None]) -> Callable[[], None]:
        """Call a function with each outcome, even without sinks. Returns the unsubscribe function.

        The function must be quick and must not raise.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def record(self, record: AuditRecord) -> None:
        """Queue a record for all sinks. Never waits, never raises."""
        if record.phase == "outcome":
            for listener in self._listeners:
                listener(record)
        for recorder in self._recorders:
            recorder.record(record)

    async def record_durable(self, record: AuditRecord) -> None:
        """Queue a record and wait until all sinks have written it.

        Raises:
            StoreError: A sink failed to write it; it will retry.
        """
        self.record(record)
        await self.wait_written()

    async def wait_written(self) -> None:
        """Wait until all sinks have written all records queued so far.

        Raises:
            StoreError: A sink failed to write.
        """
        for recorder in self._recorders:
            await recorder.wait_written()

    async def flush(self) -> bool:
        """Write all queued records now. False if a sink fails."""
        # A list, not a generator: all() would stop at the first sink that fails.
        return all([await recorder.flush() for recorder in self._recorders])

    async def aclose(self, *, timeout_s: float = 5.0) -> None:
        """Write the remaining records and stop."""
        # Concurrently, so that a sink that hangs does not use up the time of the others.
        async with anyio.create_task_group() as tasks:
            for recorder in self._recorders:
                tasks.start_soon(_close, recorder, timeout_s)

    def status(self) -> RecorderStatus:
        """The status of the first sink that fails, or else of the first sink."""
        statuses = [recorder.status() for recorder in self._recorders]
        return next((status for status in statuses if status.failing_since), statuses[0])


async def _close(recorder: Recorder, timeout_s: float) -> None:
    await recorder.aclose(timeout_s=timeout_s)
