"""Computes the vectors of tools in the background, and tries again when the embedder fails."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import anyio
import anyio.to_thread
import numpy as np

from toolgate.embed import Embedder, Vectors, embedded
from toolgate.search._vectors import ToolVectors, Wanted, aligned
from toolgate.search.base import SearchableTool

__all__ = ["Filler"]

log = logging.getLogger(__name__)

_BATCH = 64
_RETRY_S = (1.0, 5.0, 30.0)


class Filler:
    """Gives the tools of an index their vectors. One task at a time."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._task: asyncio.Task[None] | None = None

    async def aligned(
        self, last: ToolVectors | None, tools: Sequence[SearchableTool], size: int
    ) -> tuple[ToolVectors | None, list[Wanted]]:
        """The vectors of these tools as far as they are known, and what is missing.

        None when the embedder cannot be asked at all; words go on without it.
        """
        try:
            dim = await anyio.to_thread.run_sync(lambda: self._embedder.dim)
        except Exception as error:  # noqa: BLE001 - an embedder of anybody; words go on without it
            log.warning("embedder failed", extra={"error": str(error)})
            return None, []
        return await anyio.to_thread.run_sync(aligned, last, tools, size, dim)

    async def start(
        self,
        vectors: ToolVectors,
        missing: Sequence[Wanted],
        grown: Callable[[ToolVectors], Awaitable[None]],
        *,
        wait_s: float,
    ) -> None:
        """Compute what is missing; waits for it, or for the first failure, at most `wait_s`."""
        tried = asyncio.Event()
        self._task = asyncio.create_task(self._fill(vectors, missing, grown, tried))
        with anyio.move_on_after(wait_s):
            await tried.wait()

    async def stop(self) -> None:
        """Stop computing."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def ready(self) -> None:
        """Wait until nothing is missing."""
        while self._task is not None and not self._task.done():
            await asyncio.wait({self._task})

    async def _fill(
        self,
        vectors: ToolVectors,
        missing: Sequence[Wanted],
        grown: Callable[[ToolVectors], Awaitable[None]],
        tried: asyncio.Event,
    ) -> None:
        """Texts of like length go together: what is padded costs."""
        waiting = sorted(missing, key=lambda wanted: (wanted.size, wanted.row))
        failures = 0
        while waiting:
            batch, waiting = waiting[:_BATCH], waiting[_BATCH:]
            try:
                rows = await self._rows_of(batch)
            except Exception as error:  # noqa: BLE001 - an embedder of anybody; words go on
                log.warning(
                    "vectors of tools failed", extra={"error": str(error), "texts": len(batch)}
                )
                tried.set()
                waiting = [*batch, *waiting]
                await anyio.sleep(_RETRY_S[min(failures, len(_RETRY_S) - 1)])
                failures += 1
                continue
            failures = 0
            places = [wanted.row for wanted in batch]
            vectors.rows[places] = rows
            vectors.there[places] = True
            await grown(vectors)
        tried.set()

    async def _rows_of(self, batch: Sequence[Wanted]) -> Vectors:
        texts = list(
            dict.fromkeys(text for wanted in batch for text in (wanted.split, wanted.rich))
        )
        found = await embedded(self._embedder, texts, "document")
        row_of = {text: row for row, text in enumerate(texts)}
        split = found[[row_of[wanted.split] for wanted in batch]]
        return (split + found[[row_of[wanted.rich] for wanted in batch]]) * np.float32(0.5)
