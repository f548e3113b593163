"""Exact vector comparison that keeps the best matches."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toolgate.store.passages.base import Metric, PassageMatch, VectorCollection

__all__ = ["TopPassages", "in_order", "measured", "sized", "unit"]


def sized(shelf: VectorCollection, vectors: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """The vectors, once they are as many and as long as they should be.

    Raises:
        ValueError: They are not.
    """
    rows = np.asarray(vectors, np.float32)
    if rows.shape != (count, shelf.dim):
        raise ValueError(f"vectors of shape {rows.shape} instead of {(count, shelf.dim)}")
    if not np.isfinite(rows).all():
        raise ValueError("vectors that are not finite")
    return rows


def unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows of length 1; those of length 0 stay what they are."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)


def measured(
    metric: Metric, rows: NDArray[np.float32], question: NDArray[np.float32]
) -> NDArray[np.float32]:
    """What a metric measures between rows and a question; a vector of zeros is far from all."""
    match metric:
        case "dot":
            return rows @ question
        case "euclidean":
            return np.linalg.norm(rows - question, axis=1)
        case "cosine":
            lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows)) * np.linalg.norm(question)
            products = rows @ question
            cosines = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
            return np.clip(cosines, -1, 1)


class TopPassages:
    """The most similar of passages that come piece by piece."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._numbers = np.zeros(0, np.int64)
        self._values = np.zeros(0, np.float32)

    def look_at(self, numbers: NDArray[np.int64], values: NDArray[np.float32]) -> None:
        """Consider further passages."""
        self._numbers = np.concatenate([self._numbers, numbers])
        self._values = np.concatenate([self._values, values])
        if len(self._values) > self._limit:
            top = np.argpartition(-self._values, self._limit - 1)
            # all that are equal to the last one stay, since their numbers decide
            mask = self._values >= self._values[top[self._limit - 1]]
            self._numbers, self._values = self._numbers[mask], self._values[mask]

    def found(self) -> list[PassageMatch]:
        """Best first; equal ones in order of their numbers."""
        pairs: list[tuple[int, float]] = list(
            zip(self._numbers.tolist(), self._values.tolist(), strict=True)
        )
        return in_order(pairs)[: self._limit]


def in_order(pairs: Sequence[tuple[int, float]]) -> list[PassageMatch]:
    """Passages with their similarities, best first; equal ones in order of their numbers."""
    ordered = sorted(pairs, key=lambda pair: (-pair[1], pair[0]))
    return [PassageMatch(passage_id=number, similarity=value) for number, value in ordered]
