"""Pauses before a server is reconnected."""

import asyncio
import random
from time import monotonic

import anyio

__all__ = ["Backoff"]

# Seconds before the first retry, doubled each time (chosen).
_FIRST_S = 0.25
# Most seconds between retries (chosen: a recovered server is used within half a minute).
_MAX_S = 30.0
# The same for a server that was up and died (chosen: callers wait for it).
_RESTART_MAX_S = 2.0
# Seconds after which the end of a connection is an accident and not a crash loop (chosen).
_STABLE_S = 10.0


class Backoff:
    """Pauses between the connections to one server, which grow while they fail."""

    def __init__(self) -> None:
        self._failed = 0
        self._short = 0
        self._retry_at: float | None = None
        self._retry_now = asyncio.Event()

    @property
    def left_s(self) -> float | None:
        """Seconds until the next attempt; None outside a pause."""
        return None if self._retry_at is None else max(0.0, self._retry_at - monotonic())

    def end(self) -> None:
        """End the pause, to try now."""
        self._retry_now.set()

    async def after_failure(self) -> None:
        """Pause after a failed attempt to connect."""
        self._failed += 1
        await self._pause(min(_MAX_S, _FIRST_S * 2 ** min(self._failed, 10)))

    async def after_loss(self, lasted_s: float) -> None:
        """Pause after the loss of a connection that lasted `lasted_s` seconds."""
        self._failed = 0
        self._short = 0 if lasted_s > _STABLE_S else self._short + 1
        await self._pause(min(_FIRST_S * 2 ** min(self._short, 10), _RESTART_MAX_S))

    async def _pause(self, seconds: float) -> None:
        spread = random.uniform(0.8, 1.2)  # noqa: S311 -- many clients must not retry in step
        self._retry_at = monotonic() + seconds * spread
        self._retry_now.clear()
        with anyio.move_on_after(seconds * spread):
            await self._retry_now.wait()
        self._retry_at = None
