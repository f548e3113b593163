"""Vectors of requests: remembered, under a deadline, and not asked for while the embedder fails."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from toolgate.models.embedders import Embedder, computes_at_once, embedded
from toolgate.search.semantic.metrics import SearchMetrics

__all__ = ["QueryVectors"]

log = logging.getLogger(__name__)

_FAILURES_MOST = 3
"""Failures in a row after which the embedder is not asked for a while; chosen."""


class QueryVectors:
    """Asks the embedder for vectors of requests."""

    def __init__(
        self,
        embedder: Embedder,
        *,
        timeout_s: float,
        cooldown_s: float,
        max_entries: int,
        ttl_s: float = 300.0,
        metrics: SearchMetrics | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Remember `max_entries` vectors, each for `ttl_s` seconds after it was made.

        What could be remembered is counted in `metrics`.
        """
        self._metrics = metrics or SearchMetrics()
        self._embedder = embedder
        self._timeout_s = timeout_s
        self._cooldown_s = cooldown_s
        self._max_entries = max_entries
        self._ttl_s = ttl_s
        self._clock = clock
        self._cache: OrderedDict[str, tuple[float, NDArray[np.float32]]] = OrderedDict()
        self._failures = 0
        self._resting_until = 0.0
        self.trouble = ""
        """Why the last texts got no vectors, as what the embedder did; empty when they did."""

    async def vectors_of(self, texts: Sequence[str]) -> dict[str, NDArray[np.float32]] | None:
        """Vectors by text, or None when there are none now; never raises."""
        now_s = self._clock()
        entries = {text: self._cache[text] for text in texts if self._is_known(text, now_s)}
        fresh = [text for text in dict.fromkeys(texts) if text not in entries]
        self._metrics.vectors_remembered += len(entries)
        self._metrics.vectors_asked += len(entries) + len(fresh)
        if fresh:
            if now_s < self._resting_until:
                self.trouble = "failed several times, and is left alone for a while"
                return None
            try:
                if computes_at_once(self._embedder, fresh):  # a deadline costs a fifth of that
                    rows = await embedded(self._embedder, fresh, "query")
                else:
                    async with asyncio.timeout(self._timeout_s):
                        rows = await embedded(self._embedder, fresh, "query")
            except Exception as error:  # noqa: BLE001 - an embedder of anybody; words go on
                self._failed(error)
                return None
            self._failures = 0
            until = self._clock() + self._ttl_s
            entries.update((text, (until, row)) for text, row in zip(fresh, rows, strict=True))
        self.trouble = ""
        self._remember(entries)
        return {text: row for text, (_, row) in entries.items()}

    def _is_known(self, text: str, now_s: float) -> bool:
        entry = self._cache.get(text)
        return entry is not None and now_s < entry[0]

    def _remember(self, entries: dict[str, tuple[float, NDArray[np.float32]]]) -> None:
        cache = self._cache
        for text, entry in entries.items():
            cache[text] = entry
            cache.move_to_end(text)
        while len(cache) > self._max_entries:
            cache.popitem(last=False)

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        late = isinstance(error, TimeoutError)
        self.trouble = (
            f"did not answer within {self._timeout_s:g} s"
            if late
            else "failed; the log of the gateway says why"
        )
        log.warning("embedder failed", extra={"error": str(error) or type(error).__name__})
        if self._failures >= _FAILURES_MOST:
            self._resting_until = self._clock() + self._cooldown_s
            # After the pause it takes a full new series of failures to stop again.
            self._failures = 0
