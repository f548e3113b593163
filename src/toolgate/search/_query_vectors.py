"""Vectors of requests: remembered, under a deadline, and not asked for while the embedder fails."""

import logging
from collections import OrderedDict
from collections.abc import Sequence
from time import monotonic

import anyio
import numpy as np
from numpy.typing import NDArray

from toolgate.embed import Embedder, embedded

__all__ = ["QueryVectors"]

log = logging.getLogger(__name__)

_FAILURES_MOST = 3


class QueryVectors:
    """Asks the embedder for vectors of requests."""

    def __init__(self, embedder: Embedder, *, timeout_s: float, rest_s: float, kept: int) -> None:
        self._embedder = embedder
        self._timeout_s = timeout_s
        self._rest_s = rest_s
        self._kept = kept
        self._known: OrderedDict[str, NDArray[np.float32]] = OrderedDict()
        self._failures = 0
        self._resting_until = 0.0

    async def vectors_of(self, texts: Sequence[str]) -> dict[str, NDArray[np.float32]] | None:
        """Vectors by text, or None when there are none now; never raises."""
        known = self._known
        found = {text: known[text] for text in texts if text in known}
        fresh = [text for text in dict.fromkeys(texts) if text not in found]
        if fresh:
            if monotonic() < self._resting_until:
                return None
            try:
                with anyio.fail_after(self._timeout_s):
                    rows = await embedded(self._embedder, fresh, "query")
            except Exception as error:  # noqa: BLE001 - an embedder of anybody; words go on
                self._failed(error)
                return None
            self._failures = 0
            found.update(zip(fresh, rows, strict=True))
        for text, row in found.items():
            known[text] = row
            known.move_to_end(text)
        while len(known) > self._kept:
            known.popitem(last=False)
        return found

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        log.warning("embedder failed", extra={"error": str(error) or type(error).__name__})
        if self._failures >= _FAILURES_MOST:
            self._resting_until = monotonic() + self._rest_s
            self._failures = 0
