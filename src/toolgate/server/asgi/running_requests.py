"""Running requests, and how they end when the gateway shuts down."""

import asyncio
import contextlib
from collections.abc import Generator
from typing import Any

import anyio

__all__ = ["SHUTTING_DOWN", "RunningRequests"]

SHUTTING_DOWN = "The gateway is shutting down and takes no new calls."


class RunningRequests:
    """Counts requests that are being answered; drains and cancels them at shutdown."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._idle = anyio.Event()
        self.is_draining = False
        """Whether new calls are refused."""
        self.is_ending = False
        """Whether the requests that still run are being cancelled."""

    def __len__(self) -> int:
        """How many requests are running."""
        return len(self._tasks)

    @contextlib.contextmanager
    def counted(self) -> Generator[None]:
        """Count the current task as a running request."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            yield
        finally:
            self._tasks.discard(task)
            if not self._tasks:
                self._idle.set()

    def begin_draining(self) -> None:
        """Take no new calls from now on."""
        self.is_draining = True

    async def wait_until_idle(self, within_s: float) -> bool:
        """Wait for running requests; False when some are still running after `within_s`."""
        with anyio.move_on_after(within_s):
            while self._tasks:
                self._idle = anyio.Event()
                await self._idle.wait()
        return not self._tasks

    def cancel_all(self) -> None:
        """Cancel what still runs; clients get an error that says so."""
        self.is_draining = self.is_ending = True
        for task in self._tasks:
            task.cancel()
