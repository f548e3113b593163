"""Records to several places at once: each with a writer of its own, so none waits for another."""

from collections.abc import Callable, Sequence

import anyio

from toolgate.audit.recorder import Recorder, RecorderStatus
from toolgate.types import AuditRecord

__all__ = ["FanoutRecorder"]


class FanoutRecorder:
    """All places of the audit as one."""

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
        for one in self._recorders:
            one.record(record)

    async def record_durable(self, record: AuditRecord) -> None:
        """Take a record and wait until it is everywhere.

        Raises:
            StoreError: It could not be written somewhere now; it is tried again there.
        """
        self.record(record)
        await self.settle()

    async def settle(self) -> None:
        """Wait until everything taken so far is everywhere.

        Raises:
            StoreError: Something could not be written somewhere now.
        """
        for one in self._recorders:
            await one.settle()

    async def flush(self) -> bool:
        """Write everything taken so far now; False when a place does not work."""
        return all([await one.flush() for one in self._recorders])

    async def aclose(self, *, timeout_s: float = 5.0) -> None:
        """Write what is left and stop."""
        async with anyio.create_task_group() as tasks:
            for one in self._recorders:
                tasks.start_soon(_close, one, timeout_s)

    def status(self) -> RecorderStatus:
        """How it is doing: of the first place that does not work, else of the first of all."""
        found = [one.status() for one in self._recorders]
        return next((one for one in found if one.failing_since), found[0])


async def _close(one: Recorder, timeout_s: float) -> None:
    await one.aclose(timeout_s=timeout_s)
