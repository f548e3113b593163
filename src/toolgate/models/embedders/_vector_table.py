"""A table of vectors, one per subword and one per frequent pair of adjacent subwords.

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

import math
import mmap
import struct
import weakref
import zipfile
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from toolgate.errors import EmbedderError
from toolgate.models.embedders._subwords import WordPieces

__all__ = ["PAIR_STEP", "TableRows", "VectorTable", "read_table"]

PAIR_STEP = 32_768
"""More than there are pieces, so that a pair is one number."""

_CHECKED_BYTES = 2**18
"""How much is looked at a time when the checksum is compared; chosen."""

_NAME_SIZES_AT = 26
"""Where the header of a file in an archive says how long its name and its extra field are."""

_SHORTEST = 1e-6
"""A sum shorter than this has no direction worth naming; chosen."""

_FEW = 32
"""Texts that are computed from remembered rows; more of them read the table from one end;
chosen."""

_REMEMBERED = 4_096
"""Rows that are remembered before all are forgotten: less than two megabytes."""


class TableRows(Protocol):
    """The codes of a table, wherever they are."""

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows, and bytes of a row."""
        ...

    def whole(self) -> NDArray[np.uint8]:
        """All of them, for as long as the array is held."""
        ...


class VectorTable:
    """Vectors of texts, computed from the rows of a table."""

    def __init__(
        self,
        *,
        name: str,
        vocabulary: Sequence[str],
        codes: TableRows,
        scale: NDArray[np.float16],
        pairs: NDArray[np.int32],
    ) -> None:
        """Take the parts as they are in the file; see above."""
        self.name = name
        n_rows, n_bytes = codes.shape
        self.dim = 2 * n_bytes
        self._pieces = WordPieces(vocabulary)
        self._codes = codes
        self._scale = scale.astype(np.float32)
        firsts, seconds = np.divmod(pairs, PAIR_STEP)
        begins = np.searchsorted(firsts, np.arange(len(vocabulary) + 1))
        self._begins = begins.astype(np.int32).data
        self._seconds = seconds.astype(np.int16).data
        self._first_pair = len(vocabulary)
        self._cached_rows: dict[int, bytes] = {}
        if n_rows != len(vocabulary) + len(pairs) or len(scale) != n_rows:
            raise ValueError("the parts do not fit together")

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Shape `(len(texts), dim)`: rows of length 1, or of zeros where nothing is known."""
        whole = self._codes.whole() if len(texts) > _FEW else None
        vectors = np.empty((len(texts), self.dim), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            rows = self._rows(self._pieces(text))
            codes = self._few(rows) if whole is None else _halves(whole[rows])
            self._sum(row, self._scale[rows], codes)
        return vectors

    def vector(self, text: str) -> NDArray[np.float32]:
        """The one row of `vectors` for a text."""
        return self.vectors([text])[0]

    def rows(self, text: str) -> list[int]:
        """The rows whose sum is the vector of a text, before it gets length 1."""
        return self._rows(self._pieces(text))

    def is_piece(self, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which rows are those of subwords; the others are those of pairs."""
        return rows < self._first_pair

    def decoded(self, rows: NDArray[np.intp]) -> NDArray[np.float32]:
        """Shape `(len(rows), dim)`: the rows as they are added up; rare subwords are longer."""
        codes = _halves(self._codes.whole()[rows]).astype(np.float32)
        return (codes - 8) * self._scale[rows][:, None]

    def _sum(
        self,
        summed: NDArray[np.float32],
        scale: NDArray[np.float32],
        codes: NDArray[np.uint8],
    ) -> None:
        """Fill in the vector of a text from the scales and the codes of its rows."""
        np.matmul(scale, codes.astype(np.float32), out=summed)
        summed -= 8 * np.add.reduce(scale)
        length = math.sqrt(summed @ summed)
        if length < _SHORTEST:
            summed[:] = 0
        else:
            summed /= np.float32(length)

    def _rows(self, pieces: Sequence[int]) -> list[int]:
        """The rows of pieces, and of those neighbours that the table has as pairs."""
        rows, begins, seconds = list(pieces), self._begins, self._seconds
        for first, second in pairwise(pieces):
            begin, end = begins[first], begins[first + 1]
            if begin < end:
                at = bisect_left(seconds, second, begin, end)
                if at < end and seconds[at] == second:
                    rows.append(self._first_pair + at)
        return rows

    def _few(self, rows: list[int]) -> NDArray[np.uint8]:
        """The codes of some rows; requests have the same few words again and again."""
        cached = self._cached_rows
        try:
            parts = [cached[row] for row in rows]
        except KeyError:
            codes = self._codes.whole()
            parts = [cached.get(row) or _halves(codes[row]).tobytes() for row in rows]
            if len(cached) > _REMEMBERED:
                cached.clear()
            cached.update(zip(rows, parts, strict=True))
        return np.frombuffer(b"".join(parts), np.uint8).reshape(len(rows), self.dim)


def _halves(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The codes one by one, in the order of the vector."""
    halves: NDArray[np.uint8] = np.concatenate((codes & 15, codes >> 4), axis=-1, dtype=np.uint8)
    return halves


def read_table(path: Path) -> VectorTable:
    """The table in a file.

    Raises:
        EmbedderError: The file is missing, cut off, damaged or of another kind.
    """
    try:
        with np.load(path, allow_pickle=False) as parts:
            table = VectorTable(
                name=parts["name"].tobytes().decode(),
                vocabulary=parts["vocabulary"].tobytes().decode().split("\n"),
                codes=_FileRows(path, "codes.npy"),
                scale=parts["scale"],
                pairs=parts["pairs"],
            )
    except Exception as error:  # damage can lead to any error
        raise EmbedderError(
            f"The embedding model {path.name!r} cannot be read: {_reason(error)}.",
            allowed="Search goes on with words alone.",
            hint="Install Toolgate again; this restores the file.",
        ) from error
    return table


class _FileRows:
    """Rows that stay in their file, and are in memory only while somebody computes with them.

    They are most of what a process would hold of the table (11 MB), and a text needs few of them.
    """

    def __init__(self, path: Path, name: str) -> None:
        """Find an uncompressed array of bytes in a `.npz`, and compare its checksum.

        Raises:
            ValueError: It is another kind of array.
            zipfile.BadZipFile: It is damaged.
        """
        with zipfile.ZipFile(path) as parts:
            member = parts.getinfo(name)
            with parts.open(member) as part:
                while part.read(_CHECKED_BYTES):
                    pass
        self._file = path.open("rb")
        weakref.finalize(self, self._file.close)
        self._file.seek(member.header_offset + _NAME_SIZES_AT)
        self._file.seek(sum(struct.unpack("<HH", self._file.read(4))), 1)
        np.lib.format.read_magic(self._file)
        shape, is_fortran, kind = np.lib.format.read_array_header_1_0(self._file)
        if member.compress_type != zipfile.ZIP_STORED or is_fortran or kind != np.uint8:
            raise ValueError("the rows are not stored as they are used")
        n_rows, n_bytes = shape
        self.shape = (int(n_rows), int(n_bytes))
        self._offset = self._file.tell()

    def whole(self) -> NDArray[np.uint8]:
        """All rows, read from the file as they are touched, and forgotten with the array."""
        mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        n_rows, n_bytes = self.shape
        flat = np.frombuffer(mapped, np.uint8, count=n_rows * n_bytes, offset=self._offset)
        return flat.reshape(n_rows, n_bytes)


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "it is missing"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    if isinstance(error, zipfile.BadZipFile | EOFError | KeyError | ValueError):
        return "it is cut off or damaged"
    return f"{type(error).__name__}"
