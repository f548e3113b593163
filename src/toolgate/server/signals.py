"""Operating system signals as awaitable events."""

import asyncio
import contextlib
import signal
from collections.abc import Generator
from typing import Any


@contextlib.contextmanager
def received(*numbers: signal.Signals) -> Generator[asyncio.Queue[int]]:
    """Yield a queue of received signals, which replaces their handlers (main thread only)."""
    queue: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    before: dict[signal.Signals, Any] = {}
    for number in numbers:
        with contextlib.suppress(ValueError):
            before[number] = signal.signal(
                number, lambda got, _frame: loop.call_soon_threadsafe(queue.put_nowait, got)
            )
    try:
        yield queue
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
