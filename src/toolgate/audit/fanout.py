"""Sends audit records to several sinks, each with its own writer."""

from collections.abc import Callable, Sequence

import anyio

from toolgate.audit.recorder import Recorder, RecorderStatus
from toolgate.types import AuditRecord

__all__ = ["FanoutRecorder"]


class FanoutRecorder:
    """All sinks of the audit as one recorder."""

    def __init__(self, recorders: Sequence[Recorder]) -> None:
        self._recorders = tuple(recorders)
        self._listeners: list[Callable[[AuditRecord], None]] = []

    def on_outcome(self, listener: Callable[[AuditRecord], None]) -> Callable[[], None]:
        """Have a function called with each outcome, also where nothing is kept; gives what ends it.

        It must be quick and must not raise.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def record(self, record: AuditRecord) -> None:
        """Take a record; it is written everywhere soon. Never waits, never raises."""
        if record.phase == "outcome":
            for listener in self._listeners:
                listener(record)
        for recorder in self._recorders:
            recorder.record(record)

    async def record_durable(self, record: AuditRecord) -> None:
        """Take a record and wait until it is everywhere.

        Raises:
            StoreError: It could not be written somewhere now; it is tried again there.
        """
        self.record(record)
        await self.wait_written()

    async def wait_written(self) -> None:
        """Wait until all records taken so far are written everywhere.

        Raises:
            StoreError: Something could not be written somewhere now.
        """
        for recorder in self._recorders:
            await recorder.wait_written()

    async def flush(self) -> bool:
        """Write everything taken so far now; False when a place does not work."""
        # A list, not a generator: all() would stop at the first sink that fails.
        return all([await recorder.flush() for recorder in self._recorders])

    async def aclose(self, *, timeout_s: float = 5.0) -> None:
        """Write what is left and stop."""
        # At the same time, so a sink that hangs does not use up the time of the others.
        async with anyio.create_task_group() as tasks:
            for recorder in self._recorders:
                tasks.start_soon(_close, recorder, timeout_s)

    def status(self) -> RecorderStatus:
        """How it is doing: of the first place that does not work, else of the first of all."""
        statuses = [recorder.status() for recorder in self._recorders]
        return next((status for status in statuses if status.failing_since), statuses[0])


async def _close(recorder: Recorder, timeout_s: float) -> None:
    await recorder.aclose(timeout_s=timeout_s)
