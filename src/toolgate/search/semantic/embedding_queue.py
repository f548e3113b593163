"""Gets the vectors of tools in the background: from the store, otherwise from the embedder."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from itertools import chain, islice, repeat
from typing import Literal, TypeAlias

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from toolgate.base.ids import utc_now
from toolgate.models.embedders import Embedder, Vectors
from toolgate.search.base import SearchableTool
from toolgate.search.semantic.metrics import SearchMetrics
from toolgate.search.semantic.tool_vector_store import VectorSpace
from toolgate.search.semantic.tool_vectors import (
    TEXT_WEIGHTS,
    PendingText,
    TextHashes,
    ToolVectors,
    align_vectors,
    empty_rows,
    pending_texts,
    rows_of,
)
from toolgate.search.semantic.vector_cache import VectorCache

log = logging.getLogger(__name__)

Phase: TypeAlias = Literal["idle", "loading", "embedding", "keeping", "resting"]
"""`loading`: vectors are read from the store. `embedding`: missing ones are computed. `keeping`:
they are written to the store and indexed. `resting`: that failed and will be retried."""

_TINY = 1e-9
"""Length below which a vector counts as 0."""
_BATCH = 64
"""Number of texts per batch for the embedder; chosen."""
_RETRY_S = (1.0, 5.0, 30.0)
"""Seconds before the first, second and each further retry; chosen."""
_LAST_FLUSH_S = 5.0
"""Most seconds for writing when the process ends; chosen."""
_FIRST_CLEAN_UP_S = 600.0
"""Seconds from the start to the first removal of unused vectors; chosen."""
_SECOND_CLEAN_UP_S = 3_600.0
"""Seconds until the second removal, which deletes what the first one marked; chosen."""
_CLEAN_UP_S = 86_400.0
"""Seconds between further removals: a day."""
_SETTLE_AGAIN_S = 30.0
"""Seconds until a failed store is retried even without changes; chosen."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """Texts that the embedder has been asked for."""

    digests: tuple[bytes, ...]
    rows: asyncio.Task[Vectors]
    """Their vectors, in the same order."""


class EmbeddingQueue:
    """Gets the vectors of an index's tools. Runs one task at a time."""

    def __init__(
        self,
        embedder: Embedder,
        cache: VectorCache | None = None,
        metrics: SearchMetrics | None = None,
    ) -> None:
        self._embedder = embedder
        self._metrics = metrics or SearchMetrics()
        self._cache = cache or VectorCache(None, self._metrics)
        self._task: asyncio.Task[None] | None = None
        self._sent: _Batch | None = None
        self._house: asyncio.Task[None] | None = None
        self._has_vectors = asyncio.Event()
        self.space: VectorSpace | None = None
        """The space of the vectors; None until the embedder has reported it."""
        self.phase: Phase = "idle"
        """The current phase."""
        self.left = 0
        """Number of texts that wait for the embedder."""
        self._distrusted: set[bytes] = set()

    async def align_vectors(
        self,
        last: ToolVectors | None,
        tools: Sequence[SearchableTool],
        size: int,
        *,
        elsewhere: bool = False,
        texts: TextHashes | None = None,
    ) -> ToolVectors | None:
        """Return the known vectors of these tools.

        None if the embedder does not work at all; the search then uses only words. With
        `elsewhere`, rows are empty: the vectors stay in the store. `texts` has the known hashes
        of their texts.
        """

        # In a thread, since the embedder may have to read its files first.
        def ask() -> VectorSpace:
            return VectorSpace(model=self._embedder.identity, dim=self._embedder.dim)

        try:
            self.space = await anyio.to_thread.run_sync(ask)
        except Exception as error:  # noqa: BLE001 - an embedder of anybody; words go on without it
            log.warning("embedder failed", extra={"error": str(error)})
            self._metrics.failed(str(error), utc_now())
            return None
        self._cache.use(self.space)
        dim = 0 if elsewhere and self._cache.is_there else self.space.dim
        return await anyio.to_thread.run_sync(align_vectors, last, tools, size, dim, texts)

    async def start(
        self,
        vectors: ToolVectors,
        grown: Callable[[ToolVectors], Awaitable[None]],
        *,
        wait_s: float,
        slots: NDArray[np.int32] | None = None,
    ) -> None:
        """Read or compute missing vectors; wait at most `wait_s` until this is done or fails.

        Args:
            vectors: Vectors of the tools; empty rows are filled gradually.
            grown: Called when more rows are filled.
            wait_s: Seconds to wait.
            slots: Slots of `vectors` that have a tool; None if all have one.
        """
        if vectors.there.all() and not self._cache.is_there and not self._distrusted:
            return
        if self._house is None and self._cache.is_there:
            self._house = asyncio.create_task(self._keep_house(), context=Context())
        tried = asyncio.Event()
        self._has_vectors = asyncio.Event()
        # An empty context: the deadline of the request that happens to start it does not apply.
        filling = self._fill(vectors, grown, tried, slots)
        self._task = asyncio.create_task(filling, context=Context())
        with anyio.move_on_after(wait_s):
            await tried.wait()

    def distrust(self, vectors: ToolVectors, slots: Sequence[int]) -> None:
        """Recompute the vectors of some tools at the next start, even existing ones."""
        rows = np.unique(vectors.of_tool[np.array(slots, np.int64)]).tolist()
        self._distrusted.update(vectors.digests[row].tobytes() for row in rows)

    async def pause(self) -> None:
        """Stop filling vectors; the next start uses what the embedder has been asked for."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
            self.left = 0
            self.phase = "idle"

    async def stop(self) -> None:
        """Stop filling vectors, and discard what the embedder has been asked for."""
        await self.pause()
        if self._sent is not None:
            self._sent.rows.cancel()
            await asyncio.gather(self._sent.rows, return_exceptions=True)
            self._sent = None

    async def aclose(self) -> None:
        """Stop computing, and store what was computed."""
        await self.stop()
        if self._house is not None:
            self._house.cancel()
            await asyncio.gather(self._house, return_exceptions=True)
            self._house = None
        # Shielded, since a cancelled shutdown would lose what was computed.
        with anyio.CancelScope(shield=True), anyio.move_on_after(_LAST_FLUSH_S):
            await self._cache.flush()

    async def ready(self) -> None:
        """Wait until no vector is missing."""
        while self._task is not None and not self._task.done() and not self._has_vectors.is_set():
            has_vectors = asyncio.create_task(self._has_vectors.wait())
            try:
                await asyncio.wait({self._task, has_vectors}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                has_vectors.cancel()

    async def wait_until_saved(self) -> None:
        """Wait until no vector is missing and all are in the store."""
        while self._task is not None and not self._task.done():
            await asyncio.wait({self._task})

    async def _fill(
        self,
        vectors: ToolVectors,
        grown: Callable[[ToolVectors], Awaitable[None]],
        tried: asyncio.Event,
        slots: NDArray[np.int32] | None,
    ) -> None:
        try:
            self.phase = "loading"
            left = await self._load(vectors, grown)
            self.phase = "embedding"
            if len(left):
                await self._compute(vectors, left, grown, tried)
        except Exception:
            # Whatever the error, callers that wait must not wait forever.
            log.exception("vectors of tools failed")
            self.phase = "idle"
            return
        finally:
            tried.set()
            self._has_vectors.set()
        await self._prepare()
        try:
            self.phase = "keeping"
            # Nothing signals when a failed store works again.
            while not await self._cache.settle(vectors, slots):
                self.phase = "resting"
                await anyio.sleep(_SETTLE_AGAIN_S)
        except Exception:
            log.exception("vectors of tools were not stored")
        self.phase = "idle"

    async def _prepare(self) -> None:
        """Let the embedder read its files and be tested now, and not in the first search."""
        try:
            await self._metrics.embed(self._embedder, (), "document")
        except Exception as error:  # noqa: BLE001 - an embedder of anybody; words go on
            log.warning("embedder failed", extra={"error": str(error)})
            self._metrics.failed(str(error) or type(error).__name__, utc_now())

    async def _keep_house(self) -> None:
        """Delete unused vectors every day; a CLI command ends before the first time."""
        for pause_s in chain([_FIRST_CLEAN_UP_S, _SECOND_CLEAN_UP_S], repeat(_CLEAN_UP_S)):
            await anyio.sleep(pause_s)
            await self._cache.prune()

    async def _load(
        self, vectors: ToolVectors, grown: Callable[[ToolVectors], Awaitable[None]]
    ) -> NDArray[np.int64]:
        """Load stored vectors; return the rows that are still empty or distrusted."""
        missing, anew = empty_rows(vectors), np.zeros(0, np.int64)
        if self._distrusted:
            texts = list(self._distrusted)
            hashes = np.frombuffer(b"".join(texts), np.uint64).reshape(-1, 2)
            anew = rows_of(vectors.digests, hashes)
            row_of = zip(texts, anew.tolist(), strict=True)
            self._distrusted = {text for text, row in row_of if row >= 0}
            anew = anew[anew >= 0]
            missing = np.setdiff1d(missing, anew)
        left = await self._cache.load(vectors, missing)
        if len(left) < len(missing):
            await grown(vectors)
        return np.concatenate([left, anew])

    async def _compute(
        self,
        vectors: ToolVectors,
        rows: NDArray[np.int64],
        grown: Callable[[ToolVectors], Awaitable[None]],
        tried: asyncio.Event,
    ) -> None:
        """Embed texts in batches of similar length, since padding costs time."""
        waiting = await anyio.to_thread.run_sync(_by_size, vectors, rows)
        failures = 0
        self.left = len(waiting)
        while waiting:
            if self._sent is None:
                batch = list(islice(waiting.values(), _BATCH))
                self._sent = _Batch(
                    tuple(text.digest for text in batch), asyncio.create_task(self._rows_of(batch))
                )
            sent = self._sent
            # Waiting does not cancel it: a service is paid for a batch even if nobody waits.
            await asyncio.wait({sent.rows})
            try:
                embeddings = sent.rows.result()
            except Exception as error:  # noqa: BLE001 - an embedder of anybody; words go on
                self._sent = None
                log.warning(
                    "vectors of tools failed",
                    extra={"error": str(error), "texts": len(sent.digests)},
                )
                self._metrics.failed(str(error) or type(error).__name__, utc_now())
                tried.set()
                await anyio.sleep(_RETRY_S[min(failures, len(_RETRY_S) - 1)])
                failures += 1
                continue
            self._sent = None
            failures = 0
            # A batch of an earlier start may have texts that are no longer missing.
            at = [at for at, digest in enumerate(sent.digests) if digest in waiting]
            digests = [sent.digests[place] for place in at]
            slots = [waiting[digest].row for digest in digests]
            # With the precision of the store, so that a restart changes no score.
            halves = embeddings[at].astype(np.float16)
            self._cache.add(digests, halves)
            if vectors.rows.shape[1]:
                vectors.rows[slots] = halves
            elif not await self._cache.flush():  # it is nowhere else
                tried.set()
                await anyio.sleep(_SETTLE_AGAIN_S)
                continue
            vectors.there[slots] = True
            self._distrusted.difference_update(digests)
            for digest in digests:
                del waiting[digest]
            self.left = len(waiting)
            await grown(vectors)
            if self._cache.is_due:
                await self._cache.flush()

    async def _rows_of(self, batch: Sequence[PendingText]) -> Vectors:
        texts_by_row = [pending.texts for pending in batch]
        texts = list(dict.fromkeys(chain.from_iterable(texts_by_row)))
        embeddings = await self._metrics.embed(self._embedder, texts, "document")
        row_of = {text: row for row, text in enumerate(texts)}
        total = np.zeros((len(batch), embeddings.shape[1]), np.float32)
        for weight, texts_of_kind in zip(
            TEXT_WEIGHTS, zip(*texts_by_row, strict=True), strict=True
        ):
            total += np.float32(weight) * embeddings[[row_of[text] for text in texts_of_kind]]
        # A vector of 0 means that the model cannot read any of the texts.
        total /= np.maximum(np.linalg.norm(total, axis=1, keepdims=True), _TINY)
        return total


def _by_size(vectors: ToolVectors, rows: NDArray[np.int64]) -> dict[bytes, PendingText]:
    """Return texts by digest, the shortest first."""
    texts = sorted(pending_texts(vectors, rows), key=lambda pending: (pending.size, pending.row))
    return {text.digest: text for text in texts}
