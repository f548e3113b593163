"""Threads that wait for the processes of a sandbox."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeAlias, TypeVar

ResultT = TypeVar("ResultT")

_Work: TypeAlias = tuple[Callable[[], object], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]
"""Work for a thread, and the future that waits for it in an event loop."""


class WorkerThreads:
    """Threads that wait for the processes of a sandbox.

    Plain threads with a queue: each call of a program goes through them, and a thread of anyio
    or `concurrent.futures` takes twice the CPU time for the round trip.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._started = 0
        self._busy = 0
        self._works: SimpleQueue[_Work | None] = SimpleQueue()

    async def run(self, work: Callable[[], ResultT]) -> ResultT:
        """Run a function in a thread. If cancelled, it goes on until its process ends."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[ResultT] = loop.create_future()
        if self._busy >= self._started and self._started < self._count:
            self._started += 1
            Thread(target=self._work, name=f"toolgate-monty-{self._started}", daemon=True).start()
        self._busy += 1
        self._works.put((work, loop, done))
        return await done

    def close(self) -> None:
        """Accept no more work."""
        for _ in range(self._started):
            self._works.put(None)

    def _work(self) -> None:
        while (item := self._works.get()) is not None:
            work, loop, done = item
            try:
                settle = partial(done.set_result, work())
            except BaseException as error:  # noqa: BLE001 -- the caller gets it
                settle = partial(done.set_exception, error)
            with suppress(RuntimeError):  # the caller's loop has ended
                loop.call_soon_threadsafe(self._finish, done, settle)
            del item, work, done, settle  # freed while it waits for more

    def _finish(self, done: "asyncio.Future[Any]", settle: Callable[[], None]) -> None:
        self._busy -= 1
        if not done.done():
            settle()
