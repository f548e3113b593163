"""The health of a server's recent calls: failures for the circuit breaker, and latency."""

import asyncio
from collections import deque
from contextlib import suppress
from statistics import median
from time import monotonic
from typing import Protocol

from toolgate.errors import InvalidAnswerError, RpcError, UpstreamError
from toolgate.types import Era, Json

_PING_S = 5.0
"""Seconds that a ping may take (chosen)."""

_DEGRADED_AFTER = 2
"""Consecutive failed calls before the server counts as degraded (chosen: one may be an
accident)."""

_PING_AFTER = 4
"""Consecutive failed calls before a ping decides whether to reconnect (chosen)."""

_LATENCIES = 50
"""Number of calls for the median latency (chosen)."""


class Session(Protocol):
    """The parts of a session that a ping uses."""

    @property
    def era(self) -> Era:
        """The protocol era of the session."""
        ...

    async def request(self, method: str, params: Json) -> Json:
        """Send a request; raises `UpstreamError`."""
        ...


class CallHealth:
    """Counts consecutive failures, and pings a server that fails often."""

    def __init__(self) -> None:
        self.failures = 0
        """Failed calls since the last successful one."""
        self._latencies_ms: deque[float] = deque(maxlen=_LATENCIES)
        self._is_pinging = False

    @property
    def latency_ms(self) -> float | None:
        """The median latency of the last calls; None if there were none."""
        return round(median(self._latencies_ms), 2) if self._latencies_ms else None

    @property
    def is_degraded(self) -> bool:
        """Whether several calls in a row have failed."""
        return self.failures >= _DEGRADED_AFTER

    def claim_ping(self) -> bool:
        """Whether to ping now: so many calls failed that the connection itself is in doubt.

        True once until that `ping` has ended.
        """
        if self.failures < _PING_AFTER or self._is_pinging:
            return False
        self._is_pinging = True
        return True

    def reset(self) -> None:
        """Start again for a new connection."""
        self.failures = 0

    def answered(self, began: float) -> None:
        """Record an answered call; `began` is its start on the monotonic clock."""
        self._latencies_ms.append((monotonic() - began) * 1000)
        self.failures = 0

    def failed(self) -> None:
        """Record a failed call."""
        self.failures += 1

    async def ping(self, session: Session) -> bool:
        """Whether the server answers at all; an error is an answer too."""
        try:
            async with asyncio.timeout(_PING_S):
                with suppress(RpcError, InvalidAnswerError):
                    # The modern era has no ping; this is its cheapest request.
                    method = "server/discover" if session.era == "modern" else "ping"
                    await session.request(method, {})
        except (TimeoutError, UpstreamError):
            return False
        else:
            self.failures = 0
            return True
        finally:
            self._is_pinging = False
