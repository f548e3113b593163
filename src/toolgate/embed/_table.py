"""A table of vectors, one per piece of a word and one per frequent pair of neighbouring pieces.

A text's vector is the sum of the vectors of its pieces and of those pairs that the table has, at
length 1. How the table is made and what it is worth: `docs/model.md`.

The file is an uncompressed `.npz`:

`codes`      uint8 (rows, dim / 2): two 4-bit numbers a byte, 8 is zero. The low half of a byte
             belongs to the first half of the vector.
`scale`      float16 (rows): a number is (code - 8) x scale of its row.
`pairs`      int32, sorted: first piece x 32,768 + second. Pair i has row i after the pieces.
`vocabulary` uint8: the pieces as UTF-8, one a line. Piece 0 is the unknown one, a row of zeros.
`name`       uint8: the identity, which says what changes the vectors.
"""

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toolgate.embed._pieces import Pieces
from toolgate.errors import EmbedderError

__all__ = ["PAIR_STEP", "Table", "pair_keys", "read_table"]

PAIR_STEP = 32_768
"""More than there are pieces, so that a pair is one number."""

_SHORTEST = 1e-6
"""A sum shorter than this has no direction worth naming."""


def pair_keys(pieces: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each two neighbours as one number."""
    return pieces[:-1] * PAIR_STEP + pieces[1:]


class Table:
    """Vectors of texts, computed from the rows of a table."""

    def __init__(
        self,
        *,
        name: str,
        vocabulary: Sequence[str],
        codes: NDArray[np.uint8],
        scale: NDArray[np.float16],
        pairs: NDArray[np.int32],
    ) -> None:
        """Take the parts as they are in the file; see above."""
        self.name = name
        self.dim: int = 2 * codes.shape[1]
        self._pieces = Pieces(vocabulary)
        self._codes = codes
        self._scale = scale.astype(np.float32)
        self._pairs = pairs.astype(np.int64)
        self._first_pair = len(vocabulary)
        if len(codes) != len(vocabulary) + len(pairs) or len(scale) != len(codes):
            raise ValueError("the parts do not fit together")

    def vector(self, text: str) -> NDArray[np.float32]:
        """Shape `(dim,)`, of length 1, or zeros where nothing of the text is known."""
        rows = self._rows(np.asarray(self._pieces(text), np.int64))
        codes, scale = self._codes[rows], self._scale[rows]
        summed = np.empty(self.dim, np.float32)
        summed[: self.dim // 2] = scale @ (codes & 15).astype(np.float32)
        summed[self.dim // 2 :] = scale @ (codes >> 4).astype(np.float32)
        summed -= 8 * scale.sum()
        length = float(np.linalg.norm(summed))
        if length < _SHORTEST:
            return np.zeros(self.dim, np.float32)
        summed /= length
        return summed

    def _rows(self, pieces: NDArray[np.int64]) -> NDArray[np.int64]:
        if len(pieces) < 2 or not len(self._pairs):
            return pieces
        keys = pair_keys(pieces)
        places = np.minimum(np.searchsorted(self._pairs, keys), len(self._pairs) - 1)
        return np.concatenate([pieces, self._first_pair + places[self._pairs[places] == keys]])


def read_table(path: Path) -> Table:
    """The table in a file.

    Raises:
        EmbedderError: The file is missing, cut off, damaged or of another kind.
    """
    try:
        with np.load(path, allow_pickle=False) as parts:
            table = Table(
                name=parts["name"].tobytes().decode(),
                vocabulary=parts["vocabulary"].tobytes().decode().split("\n"),
                codes=parts["codes"],
                scale=parts["scale"],
                pairs=parts["pairs"],
            )
    except Exception as error:  # damage can lead to any error
        raise EmbedderError(
            f"The embedding model {path.name!r} cannot be read: {_reason(error)}.",
            allowed="Search goes on with words alone.",
            hint="Install Toolgate again, which brings the file back.",
        ) from error
    return table


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "it is missing"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    if isinstance(error, zipfile.BadZipFile | EOFError | KeyError | ValueError):
        return "it is cut off or damaged"
    return f"{type(error).__name__}"
