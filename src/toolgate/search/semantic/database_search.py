"""Searches vectors in the database: only those nearest to a request are loaded.

The best tools by words are looked up too, so that a tool that matches by words also gets its
cosine. All other tools count as average: they are not found by meaning, like tools below the
mean of all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from toolgate.search.lexical.best_hits import highest_scores
from toolgate.search.lexical.query import read_request
from toolgate.search.semantic.first_stage import DECIMALS, Cosines, HybridState
from toolgate.search.semantic.tool_vector_store import ToolVectorStore, VectorSpace
from toolgate.search.semantic.tool_vectors import rows_of

_NEAREST = 500
"""Most texts that the database returns for a request; chosen."""
_BY_WORDS = 300
"""Number of texts, the best by words, that are looked up; chosen."""
_MOST_NAMED = 50_000
"""Most texts listed in a filter when not all are allowed; with more, the nearest are first
queried without a filter, which is as good if enough of them are allowed; chosen."""
_UNFILTERED = 2_000
"""Number of texts queried without a filter; chosen."""
_ENOUGH = 100
"""Number of allowed texts among them that makes a second query with a filter unnecessary;
chosen."""
_SAMPLE = 4_096
"""Number of vectors from which the mean of all is estimated; chosen."""


class DatabaseSearch:
    """Queries a vector store for what an index in memory would compute."""

    def __init__(self, store: ToolVectorStore, space: VectorSpace) -> None:
        self.space = space
        self._store = store
        self._mean: NDArray[np.float32] | None = None
        self._mean_of = 0

    async def near(
        self,
        state: HybridState,
        vectors: Mapping[str, NDArray[np.float32]],
        allowed: NDArray[np.bool_] | None,
    ) -> HybridState:
        """Return the state with the cosines of these texts, for one request.

        Raises:
            StoreError: The store failed.
        """
        assert state.vectors is not None
        mean = await self._usual(state)
        rows_by_text: dict[str, set[int]] = {}
        for text, vector in vectors.items():
            if vector.any():
                rows = await self._nearest_rows(state, vector, allowed)
                rows_by_text[text] = {*rows, *_best_by_words(state, text)}
        rows = np.array(sorted(set[int]().union(*rows_by_text.values())), np.int64)
        exact = np.zeros((len(rows), self.space.dim), np.float32)
        there = np.zeros(len(rows), np.bool_)

        def put(slots: NDArray[np.int64], vectors_read: NDArray[np.float16]) -> None:
            exact[slots] = vectors_read
            there[slots] = True

        hashes = [state.vectors.digests[row].tobytes() for row in rows.tolist()]
        await self._store.load(self.space, hashes, put)
        rows, exact = rows[there], exact[there]
        near = {text: _cosines(state, rows, exact, vectors[text], mean) for text in rows_by_text}
        return replace(state, near={text: cosines for text, cosines in near.items() if cosines})

    async def _nearest_rows(
        self, state: HybridState, vector: NDArray[np.float32], allowed: NDArray[np.bool_] | None
    ) -> list[int]:
        vectors, live = state.vectors, state.words.live
        assert vectors is not None
        if allowed is None and live is None:
            matches = await self._store.nearest(self.space, vector, limit=_NEAREST)
            return _rows_of(state, [match.key for match in matches])
        mask = np.ones(len(vectors.of_tool), np.bool_) if live is None else live
        mask = mask if allowed is None else mask & allowed
        may = np.zeros(len(vectors.digests), np.bool_)
        may[vectors.of_tool[mask]] = True
        if int(may.sum()) > _MOST_NAMED:
            matches = await self._store.nearest(self.space, vector, limit=_UNFILTERED)
            rows = [row for row in _rows_of(state, [match.key for match in matches]) if may[row]]
            if len(rows) >= _ENOUGH:
                return rows[:_NEAREST]
        named = [vectors.digests[row].tobytes() for row in np.flatnonzero(may).tolist()]
        matches = await self._store.nearest(self.space, vector, limit=_NEAREST, allowed=named)
        return _rows_of(state, [match.key for match in matches])

    async def _usual(self, state: HybridState) -> NDArray[np.float32]:
        """Return the mean of all vectors, estimated from a sample: hashes are as good as random."""
        vectors = state.vectors
        assert vectors is not None
        n_vectors = int(np.count_nonzero(vectors.there))
        # The mean changes slowly, so it is computed again only after a tenth more vectors; chosen.
        if self._mean is None or n_vectors > 1.1 * self._mean_of:
            rows = np.flatnonzero(vectors.there)
            rows = rows[:: max(1, len(rows) // _SAMPLE)].tolist()
            total, count = np.zeros(self.space.dim, np.float64), 0

            def put(slots: NDArray[np.int64], vectors_read: NDArray[np.float16]) -> None:
                nonlocal count
                total[:] += vectors_read.sum(axis=0, dtype=np.float64)
                count += len(slots)

            hashes = [vectors.digests[row].tobytes() for row in rows]
            await self._store.load(self.space, hashes, put)
            self._mean = (total / max(1, count)).astype(np.float32)
            self._mean_of = n_vectors
        return self._mean


def _best_by_words(state: HybridState, text: str) -> list[int]:
    assert state.vectors is not None
    shares = read_request(state.words, text).shares
    best = highest_scores(shares, min(_BY_WORDS, len(shares)))
    return state.vectors.of_tool[best[shares[best] > 0]].tolist()


def _rows_of(state: HybridState, hashes: Sequence[bytes]) -> list[int]:
    vectors = state.vectors
    assert vectors is not None
    digests = np.frombuffer(b"".join(hashes), np.uint64).reshape(-1, 2)
    rows = rows_of(vectors.digests, digests)
    return rows[rows >= 0].tolist()


def _cosines(
    state: HybridState,
    rows: NDArray[np.int64],
    exact: NDArray[np.float32],
    query: NDArray[np.float32],
    mean: NDArray[np.float32],
) -> Cosines | None:
    assert state.vectors is not None
    if not len(rows):
        return None
    values = np.round(exact @ query, DECIMALS)
    low = round(float(mean @ query), DECIMALS)
    by_row = np.full(len(state.vectors.digests), low, np.float32)
    by_row[rows] = values
    return Cosines(by_row[state.vectors.of_tool], low, float(values.max()))
