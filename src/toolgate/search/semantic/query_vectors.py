"""Vectors of requests: cached, with a deadline, and with pauses while the embedder fails."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from toolgate.models.embedders import Embedder, computes_at_once, is_remote
from toolgate.search.semantic.metrics import SearchMetrics

log = logging.getLogger(__name__)

_TIMEOUT_S = 0.3
"""Timeout in seconds of a model on this machine for a request; chosen."""

_REMOTE_TIMEOUT_S = 2.0
"""Timeout in seconds of a service for a request; hosted models take 0.1 to 1 s."""

_LATE_S = 30.0
"""Seconds without an answer after which an embedder has failed; chosen."""

_PENDING_MOST = 16
"""Most requests that the embedder processes at a time; chosen."""

_FAILURES_MOST = 3
"""Number of consecutive failures after which the embedder is not used for a while; chosen."""

_Entries: TypeAlias = Mapping[str, tuple[float, NDArray[np.float32]]]
"""Expiry time and vector, by text."""


class QueryVectors:
    """Gets the vectors of requests from the embedder.

    A request waits for its vectors until the deadline. Late vectors are not a failure of the
    embedder: they are cached for the next request with the same words.
    """

    def __init__(
        self,
        embedder: Embedder,
        *,
        timeout_s: float | None = None,
        cooldown_s: float,
        max_entries: int,
        ttl_s: float = 300.0,
        metrics: SearchMetrics | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Create an empty cache.

        Args:
            embedder: Computes the vectors.
            timeout_s: Seconds that a request waits for its vectors; None means 0.3 for a model
                on this machine, 2 for a service.
            cooldown_s: Seconds without using the embedder after several failures.
            max_entries: Most vectors in the cache.
            ttl_s: Seconds for which a vector is cached after it was computed.
            metrics: Counts the requested and the cached texts, and the work of the embedder.
            clock: Monotonic clock in seconds.
        """
        if timeout_s is None:
            timeout_s = _REMOTE_TIMEOUT_S if is_remote(embedder) else _TIMEOUT_S
        self._metrics = metrics or SearchMetrics()
        self._embedder = embedder
        self._timeout_s = timeout_s
        self._cooldown_s = cooldown_s
        self._max_entries = max_entries
        self._ttl_s = ttl_s
        self._clock = clock
        self._cache: OrderedDict[str, tuple[float, NDArray[np.float32]]] = OrderedDict()
        self._pending: dict[str, asyncio.Task[_Entries | None]] = {}
        self._failures = 0
        self._resting_until = 0.0
        self.trouble = ""
        """Why the last texts got no vectors, as what the embedder did; empty if they did."""

    async def vectors_of(self, texts: Sequence[str]) -> dict[str, NDArray[np.float32]] | None:
        """Return vectors by text; None if there are none now. Never raises."""
        now_s = self._clock()
        entries = {text: self._cache[text] for text in texts if self._is_known(text, now_s)}
        fresh = [text for text in dict.fromkeys(texts) if text not in entries]
        self._metrics.vectors_remembered += len(entries)
        self._metrics.vectors_asked += len(entries) + len(fresh)
        if fresh:
            if now_s < self._resting_until:
                self.trouble = "failed several times, and is left alone for a while"
                return None
            # Computed without another task if possible: a deadline adds a fifth of the computing
            # time.
            at_once = computes_at_once(self._embedder, fresh)
            made = await (self._embed(fresh) if at_once else self._in_time(fresh))
            if made is None:
                return None
            entries.update(made)
        self.trouble = ""
        self._remember(entries)
        return {text: entries[text][1] for text in entries}

    async def aclose(self) -> None:
        """Cancel pending requests to the embedder."""
        pending = set(self._pending.values())
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)

    async def _in_time(
        self, texts: Sequence[str]
    ) -> dict[str, tuple[float, NDArray[np.float32]]] | None:
        """Embed texts that are not cached; None if that is late or fails."""
        tasks = {self._pending[text] for text in texts if text in self._pending}
        if new := [text for text in texts if text not in self._pending]:
            if len(set(self._pending.values())) >= _PENDING_MOST:
                self.trouble = "still works on earlier requests"
                return None
            task = asyncio.create_task(self._embed_late(new), name="toolgate query vectors")
            self._pending.update(dict.fromkeys(new, task))
            tasks.add(task)
        _, late = await asyncio.wait(tasks, timeout=self._timeout_s)
        if late:
            self.trouble = f"did not answer within {self._timeout_s:g} s"
            return None
        made: dict[str, tuple[float, NDArray[np.float32]]] = {}
        for task in tasks:
            entries = None if task.cancelled() else task.result()
            if entries is None:
                return None
            made.update(entries)
        return {text: made[text] for text in texts}

    async def _embed_late(self, texts: Sequence[str]) -> _Entries | None:
        """Embed texts, and cache the vectors even if nobody waits for them any more."""
        try:
            entries = await self._embed(texts)
            if entries is not None:
                self._remember(entries)
            return entries
        finally:
            for text in texts:
                del self._pending[text]

    async def _embed(self, texts: Sequence[str]) -> _Entries | None:
        """Embed texts; None if the embedder failed."""
        try:
            async with asyncio.timeout(_LATE_S):
                rows = await self._metrics.embed(self._embedder, texts, "query")
        except Exception as error:  # noqa: BLE001 - an embedder of anybody; words go on
            self._failed(error)
            return None
        self._failures = 0
        until = self._clock() + self._ttl_s
        return {text: (until, row) for text, row in zip(texts, rows, strict=True)}

    def _is_known(self, text: str, now_s: float) -> bool:
        entry = self._cache.get(text)
        return entry is not None and now_s < entry[0]

    def _remember(self, entries: _Entries) -> None:
        cache = self._cache
        for text, entry in entries.items():
            cache[text] = entry
            cache.move_to_end(text)
        while len(cache) > self._max_entries:
            cache.popitem(last=False)

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        self.trouble = (
            f"did not answer within {_LATE_S:g} s"
            if isinstance(error, TimeoutError)
            else "failed; the log of the gateway says why"
        )
        log.warning("embedder failed", extra={"error": str(error) or type(error).__name__})
        if self._failures >= _FAILURES_MOST:
            self._resting_until = self._clock() + self._cooldown_s
            # After the pause it takes the full number of failures again to pause.
            self._failures = 0
