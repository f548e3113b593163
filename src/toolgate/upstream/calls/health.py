"""How recent calls to a server went: failures for the circuit breaker, and latency."""

import asyncio
from collections import deque
from contextlib import suppress
from statistics import median
from time import monotonic
from typing import Protocol

from toolgate.errors import InvalidAnswerError, RpcError, UpstreamError
from toolgate.types import Era, Json

__all__ = ["CallHealth"]

_PING_S = 5.0
"""Seconds that a ping may take; chosen."""

_DEGRADED_AFTER = 2
"""Calls in a row that fail before the server counts as degraded; chosen: one may be an accident."""

_PING_AFTER = 4
"""Calls in a row that fail before a ping decides whether to reconnect; chosen."""

_LATENCIES = 50
"""Calls over which the median latency is taken; chosen."""


class Session(Protocol):
    """What a ping needs of a session."""

    @property
    def era(self) -> Era:
        """The protocol era of the session."""
        ...

    async def request(self, method: str, params: Json) -> Json:
        """Send a request; raises `UpstreamError`."""
        ...


class CallHealth:
    """Counts failures in a row, and asks a server that fails often whether it is alive."""

    def __init__(self) -> None:
        self.failures = 0
        """Calls that failed since the last one that did not."""
        self._latencies_ms: deque[float] = deque(maxlen=_LATENCIES)
        self._is_pinging = False

    @property
    def latency_ms(self) -> float | None:
        """The median of the last calls; None: there was none."""
        return round(median(self._latencies_ms), 2) if self._latencies_ms else None

    @property
    def is_degraded(self) -> bool:
        """Whether calls fail one after the other."""
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
        """There is a new connection."""
        self.failures = 0

    def answered(self, began: float) -> None:
        """A call that began then, on the monotonic clock, was answered."""
        self._latencies_ms.append((monotonic() - began) * 1000)
        self.failures = 0

    def failed(self) -> None:
        """A call failed."""
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
