"""Vectors of tools: one per distinct text, kept while the text stays, whatever else changes."""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolgate.search._text import split_identifier
from toolgate.search.base import SearchableTool

__all__ = [
    "HALF_FROM",
    "Heads",
    "ToolVectors",
    "Wanted",
    "aligned",
    "singles",
    "texts_of",
    "wanted_of",
    "with_heads",
]

_MAKING = b"split+rich 1"
"""How a vector is made of a text: part of its hash, since vectors are kept. At most 16 bytes."""
_DESCRIPTION_CHARS = 2_000
_PARAMETER_CHARS = 2_000
HALF_FROM = 20_000
"""Texts from which on vectors are kept with half the precision; 0.0005 of a cosine at most."""
_SLACK = 1.06
_HEAD = 64
"""Numbers of a vector's head, ..."""
_HEAD_SHORT = 32
"""... and from so many texts on, where reading all heads is what takes longest:"""
_SHORT_FROM = 500_000
_SAMPLE_NUMBERS = 1 << 22
_SPARE = 16
_ROUNDS = 4
_BLOCK = 65_536
_HALF_BITS = np.int32(-0x7000_2000)
"""All but the copies of the sign."""
_HALF_SCALE = np.float32(2.0**112)


def texts_of(tool: SearchableTool) -> tuple[str, str]:
    """What is embedded of a tool; its vector is the mean of both.

    The first is `server name: description`, the second has the parameters too; names in words. Each
    alone finds less (measured on five sets: the mean is worth 0.01 R@5).
    """
    head = f"{_in_words(tool.server)} {' '.join(split_identifier(tool.name))}".strip()
    about, title = tool.description[:_DESCRIPTION_CHARS], tool.title
    if title and title != tool.name:
        about = f"{title}. {about}"
    split = f"{head}: {about}".strip()
    parameters: list[str] = []
    left = _PARAMETER_CHARS
    for name, text in tool.parameters:
        if left <= 0:
            break
        parameters.append(f"{_in_words(name)} {text}".strip()[:left])
        left -= len(parameters[-1])
    return split, f"{split} Parameters: {'; '.join(parameters)}" if parameters else split


@lru_cache(maxsize=50_000)
def _in_words(name: str) -> str:
    """The words of a name; servers and parameters have the same ones again and again."""
    return " ".join(split_identifier(name))


@dataclass(frozen=True)
class Wanted:
    """A text that has no vector yet."""

    row: int
    """Its row."""
    tool: SearchableTool
    """A tool that has it."""
    digest: bytes
    """Its hash: of both parts."""

    @property
    def size(self) -> int:
        """Characters of its longer part."""
        return len(self.rich)

    @property
    def split(self) -> str:
        """Its first part."""
        return texts_of(self.tool)[0]

    @property
    def rich(self) -> str:
        """Its second part."""
        return texts_of(self.tool)[1]


@dataclass(frozen=True)
class Heads:
    """Vectors turned so that their first numbers tell most, and cut there: a rough first look."""

    basis: NDArray[np.float32]
    """Shape (dim, numbers): turns a vector and cuts it."""

    rows: NDArray[np.float32]
    """Those of the texts; later states fill further rows."""

    there: NDArray[np.bool_]
    """Which of them are made."""

    rest: NDArray[np.float32]
    """Mean of what was cut off, when the basis was made."""


@dataclass(frozen=True)
class ToolVectors:
    """Vectors of the tools of one state of the index."""

    rows: NDArray[Any]
    """Shape (distinct texts, dim), float32 or float16; rows that `there` lacks are filled later."""

    there: NDArray[np.bool_]
    """Which rows are filled."""

    of_tool: NDArray[np.int32]
    """Row of the tool at each place."""

    tools: Sequence[SearchableTool] = ()
    """The tools by place; later states may share and lengthen it."""

    digests: NDArray[np.uint64] = field(default_factory=lambda: np.zeros((0, 2), np.uint64))
    """Hash of each row's text."""

    row_of: dict[bytes, int] = field(default_factory=dict[bytes, int])
    """Row of each text, by its hash; later states share it and add to it."""

    heads: Heads | None = None
    """For a large index."""


def aligned(
    last: ToolVectors | None, tools: Sequence[SearchableTool], size: int, dim: int
) -> tuple[ToolVectors, list[Wanted]]:
    """The vectors of these tools as far as `last` has them, and the texts that lack one.

    Args:
        last: The vectors of the state before.
        tools: The tools by place.
        size: How many of these count.
        dim: Numbers of a vector.
    """
    if last is not None and last.rows.shape[1] == dim and last.tools is tools:
        return _lengthened(last, tools, size)
    return _renewed(last if last is None or last.rows.shape[1] == dim else None, tools, size, dim)


def _renewed(
    last: ToolVectors | None, tools: Sequence[SearchableTool], size: int, dim: int
) -> tuple[ToolVectors, list[Wanted]]:
    """Vectors without the texts that no tool has any more."""
    known: dict[int, int] = {}
    if last is not None:
        known = {
            id(tool): row
            for tool, row in zip(
                last.tools[: len(last.of_tool)], last.of_tool.tolist(), strict=True
            )
        }
    digest_of = last.digests if last is not None else None
    row_of: dict[bytes, int] = {}
    of_tool = np.zeros(size, np.int32)
    first: list[SearchableTool] = []
    for place in range(size):
        tool = tools[place]
        old = known.get(id(tool))
        digest = _digest(tool) if old is None or digest_of is None else digest_of[old].tobytes()
        row = of_tool[place] = row_of.setdefault(digest, len(row_of))
        if row == len(first):
            first.append(tool)
    count = len(row_of)
    kind = np.float32 if size < HALF_FROM else np.float16
    rows = np.zeros((int(count * _SLACK) + 64 if size >= HALF_FROM else count, dim), kind)[:count]
    there = np.zeros(count, np.bool_)
    digests = np.frombuffer(b"".join(row_of), np.uint64).reshape(-1, 2)
    if last is not None:
        kept = [
            (row, old)
            for digest, row in row_of.items()
            if (old := _row(last, digest)) is not None and last.there[old]
        ]
        if kept:
            new, old = np.array(kept, np.int64).T
            rows[new] = last.rows[old]
            there[new] = True
    missing = [
        _wanted(int(row), first[row], digests[row].tobytes()) for row in np.flatnonzero(~there)
    ]
    return ToolVectors(rows, there, of_tool, tools, digests, row_of), missing


def _lengthened(
    last: ToolVectors, tools: Sequence[SearchableTool], size: int
) -> tuple[ToolVectors, list[Wanted]]:
    """The same vectors, and those of the tools at the end; what was before is not looked at."""
    count = len(last.rows)
    of_tool = np.zeros(size, np.int32)
    of_tool[: len(last.of_tool)] = last.of_tool
    digests: list[bytes] = []
    firsts: list[SearchableTool] = []
    fresh: dict[bytes, int] = {}
    for place in range(len(last.of_tool), size):
        digest = _digest(tools[place])
        row = _row(last, digest)
        if row is None:
            row = fresh.get(digest)
        if row is None:
            row = fresh[digest] = count + len(digests)
            digests.append(digest)
            firsts.append(tools[place])
        of_tool[place] = row
    total = count + len(digests)
    last.row_of.update(fresh)
    new = np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2)
    heads = last.heads
    if heads is not None:
        heads = replace(heads, rows=_longer(heads.rows, total), there=_flags(heads.there, total))
    vectors = ToolVectors(
        _longer(last.rows, total),
        _flags(last.there, total),
        of_tool,
        tools,
        np.concatenate([last.digests, new]),
        last.row_of,
        heads,
    )
    wanted = [_wanted(count + at, tool, digests[at]) for at, tool in enumerate(firsts)]
    # Rows that an update before this one wanted and did not get.
    waiting = np.flatnonzero(~last.there)
    if len(waiting):
        rows = set(waiting.tolist())
        for place, row in enumerate(last.of_tool.tolist()):
            if row in rows:
                rows.discard(row)
                wanted.append(_wanted(row, tools[place], last.digests[row].tobytes()))
    return vectors, wanted


def _flags(flags: NDArray[np.bool_], total: int) -> NDArray[np.bool_]:
    found = np.zeros(total, np.bool_)
    found[: len(flags)] = flags
    return found


def _longer(rows: NDArray[Any], total: int) -> NDArray[Any]:
    """The rows and further ones behind them, in the same memory where it is large enough.

    What stands there is of no state any more: a state looks at its own rows only.
    """
    owner = rows if rows.base is None else rows.base
    if len(owner) < total:
        owner = np.zeros((int(total * _SLACK) + 64, rows.shape[1]), rows.dtype)
        owner[: len(rows)] = rows
    return owner[:total]


def _row(vectors: ToolVectors, digest: bytes) -> int | None:
    row = vectors.row_of.get(digest)
    if row is None or row >= len(vectors.rows) or vectors.digests[row].tobytes() != digest:
        return None  # of a later state
    return row


def wanted_of(vectors: ToolVectors, rows: Collection[int]) -> list[Wanted]:
    """The texts of some rows, to be embedded."""
    left = set(rows)
    wanted: list[Wanted] = []
    for place, row in enumerate(vectors.of_tool.tolist()):
        if row in left:
            left.discard(row)
            wanted.append(_wanted(row, vectors.tools[place], vectors.digests[row].tobytes()))
    return wanted


def _wanted(row: int, tool: SearchableTool, digest: bytes) -> Wanted:
    return Wanted(row, tool, digest)


def _digest(tool: SearchableTool) -> bytes:
    text = "\0".join(texts_of(tool))
    data = text.encode(errors="surrogatepass")
    return hashlib.blake2b(data, digest_size=16, person=_MAKING).digest()


def singles(rows: NDArray[Any]) -> NDArray[np.float32]:
    """The same numbers with single precision, in half the time that numpy takes for halves.

    A half has its bits where a single has them, 13 further down, and 112 less in the exponent.
    """
    if rows.dtype != np.float16:
        return rows.astype(np.float32, copy=False)
    bits = rows.view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= _HALF_BITS
    found = bits.view(np.float32)
    found *= _HALF_SCALE
    return found


def with_heads(vectors: ToolVectors) -> ToolVectors:
    """The same vectors with heads for all rows that are there."""
    rows, there, heads = vectors.rows, vectors.there, vectors.heads
    count = int(np.count_nonzero(there))
    if heads is None or 2 * np.count_nonzero(heads.there) < count:
        step = max(1, count * rows.shape[1] // _SAMPLE_NUMBERS)
        width = _HEAD if len(rows) < _SHORT_FROM else _HEAD_SHORT
        basis = _basis(rows[np.flatnonzero(there)[::step]], width)
        shape = (int(len(rows) * _SLACK) + 64, basis.shape[1])
        mean = _mean(rows, there)
        rest = (mean - basis @ (mean @ basis)).astype(np.float32)
        heads = Heads(basis, np.zeros(shape, np.float32)[: len(rows)], np.zeros_like(there), rest)
    made = heads.there.copy()
    missing = np.flatnonzero(there & ~made)
    for begin in range(0, len(missing), _BLOCK):
        at = missing[begin : begin + _BLOCK]
        heads.rows[at] = singles(rows[at]) @ heads.basis
    made[missing] = True
    return replace(vectors, heads=replace(heads, there=made))


def _mean(rows: NDArray[Any], there: NDArray[np.bool_]) -> NDArray[np.float32]:
    total = np.zeros(rows.shape[1], np.float64)
    for begin in range(0, len(rows), _BLOCK):
        part = slice(begin, begin + _BLOCK)
        total += there[part].astype(np.float32) @ singles(rows[part])
    return (total / max(1, np.count_nonzero(there))).astype(np.float32)


def _basis(sample: NDArray[Any], width: int) -> NDArray[np.float32]:
    """The directions in which vectors differ most, best first; a few rounds of power iteration."""
    exact = singles(sample)
    width = min(width, exact.shape[1])
    turned = np.random.default_rng(1).standard_normal((exact.shape[1], width + _SPARE))
    for _ in range(_ROUNDS):
        turned, _ = np.linalg.qr(exact.T @ (exact @ turned.astype(np.float32)))
    small = exact @ turned
    _, best = np.linalg.eigh(small.T @ small)
    return np.ascontiguousarray((turned @ best)[:, ::-1][:, :width], np.float32)
