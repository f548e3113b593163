"""A table of vectors, one per subword and one per frequent pair of adjacent subwords.

A text's vector is the sum of the vectors of its subwords and of the pairs that the table has,
scaled to length 1. See `docs/model.md` for how the table is made and how good it is.

The file is an uncompressed `.npz`:

`codes`      uint8 (rows, dim / 2): two 4-bit numbers per byte, where 8 means zero. The low half of
             a byte belongs to the first half of the vector.
`scale`      float16 (rows): a number is (code - 8) x scale of its row.
`pairs`      int32, sorted: first subword x 32,768 + second. Pair i is row i after the subwords.
`vocabulary` uint8: the subwords as UTF-8, one per line. Subword 0 is "unknown", a row of zeros.
`name`       uint8: the identity, which changes whenever the vectors change.
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

PAIR_STEP = 32_768
"""Larger than the number of subwords, so that a pair is one number."""

_CHECKED_BYTES = 2**18
"""Bytes that are read at a time to compute the checksum (chosen)."""

_NAME_SIZES_AT = 26
"""Offset in the local header of a ZIP entry of the lengths of its name and its extra field."""

_SHORTEST = 1e-6
"""Sums shorter than this count as zero, since their direction is noise (chosen)."""

_FEW = 32
"""Most texts that are computed from cached rows; for more, the whole table is read (chosen)."""

_REMEMBERED = 4_096
"""Cached rows after which the cache is emptied: less than 2 MB."""


class TableRows(Protocol):
    """The codes of a table, in memory or in a file."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and bytes per row."""
        ...

    def whole(self) -> NDArray[np.uint8]:
        """Return all rows; they stay in memory as long as the array is referenced."""
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
        """Use the parts of a file; see the module's docstring."""
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
        """Return shape `(len(texts), dim)`: rows of length 1, or zeros if nothing is known."""
        whole = self._codes.whole() if len(texts) > _FEW else None
        vectors = np.empty((len(texts), self.dim), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            rows = self._rows(self._pieces(text))
            codes = self._few(rows) if whole is None else _halves(whole[rows])
            self._sum(row, self._scale[rows], codes)
        return vectors

    def vector(self, text: str) -> NDArray[np.float32]:
        """Return the vector of one text, as `vectors` does."""
        return self.vectors([text])[0]

    def rows(self, text: str) -> list[int]:
        """Return the rows whose sum, scaled to length 1, is the vector of a text."""
        return self._rows(self._pieces(text))

    def is_piece(self, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which rows belong to subwords; the others belong to pairs."""
        return rows < self._first_pair

    def decoded(self, rows: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return shape `(len(rows), dim)`: the rows to add up; rare subwords are longer."""
        codes = _halves(self._codes.whole()[rows]).astype(np.float32)
        return (codes - 8) * self._scale[rows][:, None]

    def _sum(
        self,
        summed: NDArray[np.float32],
        scale: NDArray[np.float32],
        codes: NDArray[np.uint8],
    ) -> None:
        """Write the vector of a text, computed from the scales and codes of its rows."""
        np.matmul(scale, codes.astype(np.float32), out=summed)
        summed -= 8 * np.add.reduce(scale)
        length = math.sqrt(summed @ summed)
        if length < _SHORTEST:
            summed[:] = 0
        else:
            summed /= np.float32(length)

    def _rows(self, pieces: Sequence[int]) -> list[int]:
        """Return the rows of subwords, and of the adjacent pairs that the table has."""
        rows, begins, seconds = list(pieces), self._begins, self._seconds
        for first, second in pairwise(pieces):
            begin, end = begins[first], begins[first + 1]
            if begin < end:
                at = bisect_left(seconds, second, begin, end)
                if at < end and seconds[at] == second:
                    rows.append(self._first_pair + at)
        return rows

    def _few(self, rows: list[int]) -> NDArray[np.uint8]:
        """Return the codes of a few rows, cached: requests repeat the same few words."""
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
    """Return the unpacked codes, in the order of the vector."""
    halves: NDArray[np.uint8] = np.concatenate((codes & 15, codes >> 4), axis=-1, dtype=np.uint8)
    return halves


def read_table(path: Path) -> VectorTable:
    """Return the table in a file.

    Raises:
        EmbedderError: The file is missing, truncated, damaged or of another kind.
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
    except Exception as error:  # damage can cause any error
        raise EmbedderError(
            f"The embedding model {path.name!r} cannot be read: {_reason(error)}.",
            allowed="Search goes on with words alone.",
            hint="Install Toolgate again; this restores the file.",
        ) from error
    return table


class _FileRows:
    """Rows that stay in their file and are in memory only while they are used.

    They are most of the table's memory (11 MB), and a text needs few of them.
    """

    def __init__(self, path: Path, name: str) -> None:
        """Find an uncompressed array of bytes in a `.npz`, and verify its checksum.

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
        """Return all rows, which are read on access and freed with the array."""
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
