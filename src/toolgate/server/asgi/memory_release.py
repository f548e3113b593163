"""Returns memory to the operating system after large messages."""

import asyncio

from toolgate.base.processes.memory import trim

TRIM_AFTER_S = 1.5
"""Seconds between the last large message and the release; chosen, so that a burst causes one
release."""

_RELEASE_EVERY_BYTES = 4 * 2**20
"""Bytes of requests and responses after which memory is released; chosen."""


class MemoryRelease:
    """Counts bytes of messages: many small ones fragment the heap, too."""

    def __init__(self) -> None:
        self._bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def count(self, size_bytes: int) -> None:
        """Count the bytes of a request and its response; schedule a release when due."""
        self._bytes += size_bytes
        if self._bytes <= _RELEASE_EVERY_BYTES:
            return
        self._bytes = 0
        self.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(TRIM_AFTER_S, loop.run_in_executor, None, trim)

    def cancel(self) -> None:
        """Cancel a scheduled release."""
        if self._timer is not None:
            self._timer.cancel()
