"""Keeps a server connected: reconnects when a connection ends, with pauses that grow."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import NamedTuple

import anyio

from toolgate.types import ServerState
from toolgate.upstream.supervision.on_demand import Demand

# Seconds before the first retry, doubled each time (chosen).
_FIRST_S = 0.25
# Most seconds between retries (chosen: a recovered server is used within half a minute).
_MAX_S = 30.0
# The same for a server that was up and died (chosen: callers wait for it).
_RESTART_MAX_S = 2.0
# Seconds after which the end of a connection is an accident and not a crash loop (chosen).
_STABLE_S = 10.0


class ConnectionEnd(NamedTuple):
    """How a connection ended."""

    reason: str
    """The reason; empty if nobody needed it any more."""
    lasted_s: float
    """Seconds that it lasted; 0 if it could not be opened."""


class Reconnecting:
    """Opens the next connection when one has ended: after a pause, or when it is needed."""

    def __init__(
        self,
        demand: Demand,
        hold_connection: Callable[[], Awaitable[ConnectionEnd]],
        *,
        set_state: Callable[[ServerState], None],
        settled: asyncio.Event,
    ) -> None:
        """Create it, without connecting.

        Args:
            demand: What keeps the server awake.
            hold_connection: Opens a connection and returns when it has ended.
            set_state: Told when the server is asleep or down.
            settled: Set when the first attempt to connect has succeeded or failed.
        """
        self._demand = demand
        self._hold_connection = hold_connection
        self._set_state = set_state
        self._settled = settled
        self._failed = 0
        self._short = 0
        self._retry_at: float | None = None
        self._retry_now = asyncio.Event()

    @property
    def pause_left_s(self) -> float | None:
        """Seconds until the next attempt; None outside a pause."""
        return None if self._retry_at is None else max(0.0, self._retry_at - monotonic())

    def retry_now(self) -> None:
        """End the pause."""
        self._retry_now.set()

    async def run(self) -> None:
        """Connect, and reconnect with growing pauses, until cancelled."""
        demand = self._demand
        while True:
            if demand.is_asleep:
                self._set_state("asleep")
                self._settled.set()
                await demand.wait()
            end = await self._hold_connection()
            demand.ended(is_failure=end.lasted_s == 0)
            if demand.is_on_demand and demand.has_slept:
                continue
            if end.lasted_s == 0:  # it could not be reached or greeted: an outage
                self._set_state("down")
                self._settled.set()
                await self._pause_after_failure()
            else:  # it was there: callers wait for it, however often it dies
                await self._pause_after_loss(end.lasted_s)

    async def _pause_after_failure(self) -> None:
        self._failed += 1
        await self._pause(min(_MAX_S, _FIRST_S * 2 ** min(self._failed, 10)))

    async def _pause_after_loss(self, lasted_s: float) -> None:
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
