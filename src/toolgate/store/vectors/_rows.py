"""Converts vectors to stored bytes and back, and compares them exactly."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toolgate.store.vectors.base import KEY_BYTES, Metric, Rows, VectorCollection, VectorMatch

_NORM_MOST = 1.02
"""Largest squared length of a `half` row; a longer one is damaged. Embedders return rows of
length 1, means of them are shorter, and float16 rounds."""


def _stored_type(collection: VectorCollection) -> str:
    return "<f2" if collection.precision == "half" else "<f4"


def row_bytes(collection: VectorCollection) -> int:
    """Return the length of a stored vector in bytes."""
    return np.dtype(_stored_type(collection)).itemsize * collection.dim


def checked(collection: VectorCollection, rows: Rows, count: int) -> Rows:
    """Return the vectors if their number, shape and values are valid.

    Raises:
        ValueError: They are not.
    """
    if rows.shape != (count, collection.dim):
        raise ValueError(f"Vectors of shape {rows.shape} instead of {(count, collection.dim)}.")
    if not np.isfinite(rows).all():
        raise ValueError("Vectors that are not finite.")
    return rows


def unit(rows: Rows) -> NDArray[np.float32]:
    """Return the rows scaled to length 1; rows of zeros stay unchanged."""
    wide = rows.astype(np.float32)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    return np.divide(wide, lengths, out=np.zeros_like(wide), where=lengths > 0)


def packed(collection: VectorCollection, rows: Rows) -> list[bytes]:
    """Return each row as bytes, little-endian."""
    raw = np.ascontiguousarray(rows, _stored_type(collection)).tobytes()
    size = row_bytes(collection)
    return [raw[at : at + size] for at in range(0, len(raw), size)]


def unpacked(
    collection: VectorCollection, blobs: Sequence[bytes]
) -> tuple[NDArray[np.int64], Rows]:
    """Return the rows of undamaged blobs, with their positions."""
    size = row_bytes(collection)
    positions = np.arange(len(blobs), dtype=np.int64)
    if any(len(blob) != size for blob in blobs):
        positions = positions[[len(blob) == size for blob in blobs]]
        blobs = [blob for blob in blobs if len(blob) == size]
    rows = np.frombuffer(b"".join(blobs), _stored_type(collection)).reshape(-1, collection.dim)
    is_sound = _sound(collection, rows)
    return (positions, rows) if is_sound.all() else (positions[is_sound], rows[is_sound])


def _sound(collection: VectorCollection, rows: Rows) -> NDArray[np.bool_]:
    """Return which rows are undamaged, that is, `put` can have written them."""
    if collection.precision == "single":
        return np.asarray(np.isfinite(rows).all(axis=1))
    wide = rows.astype(np.float32)
    with np.errstate(all="ignore"):
        squares: NDArray[np.float32] = np.einsum("ij,ij->i", wide, wide)
    return squares <= _NORM_MOST  # false for NaN


def measured(metric: Metric, rows: Rows, query: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the scores of rows; see `VectorMatch`."""
    wide = rows.astype(np.float32, copy=False)
    match metric:
        case "dot":
            return wide @ query
        case "euclidean":
            return np.linalg.norm(wide - query, axis=1)
        case "cosine":
            lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide)) * np.linalg.norm(query)
            products = wide @ query
            cosines = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
            return np.clip(cosines, -1, 1)


class TopMatches:
    """Collects the nearest of vectors that arrive in batches."""

    def __init__(self, collection: VectorCollection, query: Rows, limit: int) -> None:
        """Compare with `query`.

        Raises:
            ValueError: Its dimension is not that of the collection.
        """
        [self._query] = checked(collection, np.asarray(query, np.float32)[np.newaxis], 1)
        self._metric: Metric = collection.metric
        self._sign = -1 if collection.metric == "euclidean" else 1
        self._limit = limit
        self._scores = np.zeros(0, np.float32)
        self._keys = np.zeros(0, f"V{KEY_BYTES}")

    def consider(self, keys: Sequence[bytes], rows: Rows) -> None:
        """Add a batch of vectors."""
        scores = measured(self._metric, rows, self._query)
        self._scores = np.concatenate([self._scores, scores])
        self._keys = np.concatenate([self._keys, np.array(keys, f"V{KEY_BYTES}")])
        if len(self._scores) > self._limit:
            nearness = self._sign * self._scores
            top = np.argpartition(-nearness, self._limit - 1)
            # All with the same score as the last one stay, since their keys decide.
            mask = nearness >= nearness[top[self._limit - 1]]
            self._scores, self._keys = self._scores[mask], self._keys[mask]

    def matches(self) -> list[VectorMatch]:
        """Return the matches, best first; equal scores in the order of their keys."""
        pairs = zip(self._scores.tolist(), self._keys.tolist(), strict=True)
        ordered = sorted(pairs, key=lambda pair: (-self._sign * pair[0], pair[1]))
        return [VectorMatch(key=bytes(key), score=score) for score, key in ordered[: self._limit]]
