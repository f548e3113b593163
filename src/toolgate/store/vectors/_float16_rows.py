"""Converts float16 vectors to stored bytes and back, and finds the nearest rows."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toolgate.store.vectors.base import HASH_BYTES, HalfRows, TextMatch

__all__ = ["TopTexts", "packed", "unpacked"]

_NORM_MOST = 1.02
"""Square of the length of a row at most; a longer one was damaged. Rows of embedders have length 1,
means of them less, and float16 rounds."""


def packed(rows: HalfRows) -> list[bytes]:
    """Each row as bytes, little-endian."""
    whole = np.ascontiguousarray(rows, "<f2")
    raw, size = whole.tobytes(), 2 * whole.shape[1]
    return [raw[at : at + size] for at in range(0, len(raw), size)]


def unpacked(blobs: Sequence[bytes], dim: int) -> tuple[NDArray[np.int64], HalfRows]:
    """Rows of those blobs that are sound, with their positions."""
    size = 2 * dim
    places = np.arange(len(blobs), dtype=np.int64)
    if any(len(blob) != size for blob in blobs):
        places = places[[len(blob) == size for blob in blobs]]
        blobs = [blob for blob in blobs if len(blob) == size]
    return _sound(places, np.frombuffer(b"".join(blobs), "<f2").reshape(-1, dim))


def _sound(places: NDArray[np.int64], rows: HalfRows) -> tuple[NDArray[np.int64], HalfRows]:
    """Without the rows that no embedder can have made."""
    wide = rows.astype(np.float32)
    with np.errstate(all="ignore"):
        squares = np.einsum("ij,ij->i", wide, wide)
    good = squares <= _NORM_MOST  # false for what is not a number
    if good.all():
        return places, rows
    return places[good], rows[good]


class TopTexts:
    """The nearest of rows that come piece by piece."""

    def __init__(self, query: NDArray[np.float32], limit: int) -> None:
        length = float(np.linalg.norm(query))
        self._query = np.asarray(query / length if length else query, np.float32)
        self._limit = limit
        self._cosines = np.zeros(0, np.float32)
        self._hashes = np.zeros(0, f"V{HASH_BYTES}")

    def look_at(self, hashes: Sequence[bytes], rows: HalfRows) -> None:
        """Consider further rows."""
        wide = rows.astype(np.float32)
        lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))
        products = wide @ self._query
        cosines = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
        self._cosines = np.concatenate([self._cosines, cosines])
        self._hashes = np.concatenate([self._hashes, np.array(hashes, f"V{HASH_BYTES}")])
        if len(self._cosines) > self._limit:
            top = np.argpartition(-self._cosines, self._limit - 1)
            lowest = self._cosines[top[self._limit - 1]]
            # all that are equal to the last one stay, since their hashes decide
            mask = self._cosines >= lowest
            self._cosines, self._hashes = self._cosines[mask], self._hashes[mask]

    def found(self) -> list[TextMatch]:
        """Best first; equal ones in order of their hash."""
        pairs = zip(self._cosines.tolist(), self._hashes.tolist(), strict=True)
        ordered = sorted(pairs, key=lambda pair: (-pair[0], pair[1]))[: self._limit]
        return [TextMatch(text_hash=bytes(text), cosine=cosine) for cosine, text in ordered]
