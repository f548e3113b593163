"""Vectors of passages: their keys, groups and similarities to a question."""

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from toolgate.documents.base import Collection
from toolgate.store import StoredCollection, StoredPassage
from toolgate.store.vectors import (
    KEY_BYTES,
    Metric,
    Rows,
    VectorCollection,
    VectorStore,
    measured,
)


def vector_collection(row: StoredCollection | Collection) -> VectorCollection:
    """Return the vector collection of a document collection."""
    return VectorCollection(
        collection_id=row.shelf_id,
        dim=row.dim,
        metric=cast("Metric", row.metric),
        version=row.version,
    )


async def put_passages(
    store: VectorStore,
    collection: VectorCollection,
    passages: Sequence[tuple[str, StoredPassage]],
    vectors: NDArray[np.float32],
) -> None:
    """Store the vectors of passages; each passage comes with its document."""
    await store.put(
        collection,
        [_key(passage.passage_id) for _, passage in passages],
        vectors,
        groups=[document_id for document_id, _ in passages],
    )


async def nearest_passages(
    store: VectorStore, collection: VectorCollection, question: NDArray[np.float32], *, limit: int
) -> dict[int, float]:
    """Return the similarities of the nearest passages by number, best first."""
    matches = await store.nearest(collection, question, limit=limit)
    scores = np.array([match.score for match in matches], np.float32)
    similarities = _similarities(collection.metric, scores)
    return {
        int.from_bytes(match.key): float(value)
        for match, value in zip(matches, similarities, strict=True)
    }


async def passage_vectors(
    store: VectorStore, collection: VectorCollection, passages: Sequence[int]
) -> dict[int, NDArray[np.float32]]:
    """Return the existing vectors of passages by number."""
    vectors: dict[int, NDArray[np.float32]] = {}

    def receive(positions: NDArray[np.int64], rows: Rows) -> None:
        for position, row in zip(positions.tolist(), rows, strict=True):
            vectors[passages[position]] = row.astype(np.float32)

    await store.load(collection, [_key(number) for number in passages], receive)
    return vectors


async def passage_similarities(
    store: VectorStore,
    collection: VectorCollection,
    passages: Sequence[int],
    question: NDArray[np.float32],
) -> dict[int, float | None]:
    """Return the similarities of passages by number; None: the vector does not exist."""
    vectors = await passage_vectors(store, collection, passages)
    similarities: dict[int, float | None] = dict.fromkeys(passages)
    if vectors:
        scores = measured(collection.metric, np.stack(list(vectors.values())), question)
        values = _similarities(collection.metric, scores)
        similarities |= dict(zip(vectors, map(float, values), strict=True))
    return similarities


def _key(passage_id: int) -> bytes:
    return passage_id.to_bytes(KEY_BYTES)


def _similarities(metric: Metric, scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Convert scores to similarities; higher is more similar.

    A cosine in [-1, 1] is mapped to [0, 1], where 0.5 is a right angle; a distance is mapped to
    (0, 1]; a dot product stays unchanged, has no bounds and is never compared with others.
    """
    match metric:
        case "cosine":
            return ((1 + scores) / 2).astype(np.float32)
        case "euclidean":
            return (1 / (1 + scores)).astype(np.float32)
        case "dot":
            return scores
