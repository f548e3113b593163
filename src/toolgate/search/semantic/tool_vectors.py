"""Vectors of tools: one per distinct text, reused while the text is unchanged."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from toolgate.search.base import SearchableTool
from toolgate.search.tokenizer import split_identifier
from toolgate.store.vectors import KEY_BYTES

TextHashes: TypeAlias = NDArray[np.uint64]
"""Shape (texts, 2): hashes of the embedded texts; 0 if one is unknown."""

_MAKING = b"4 texts 1"
"""Version of how vectors are made from texts: part of the hash, since vectors are stored. At
most 16 bytes."""
TEXT_WEIGHTS = (1.0, 1.0, 0.3, 0.3)
"""Weight of each text of a tool in its vector. Chosen over seven labelled sets: the name and the
first sentence add 0.012 R@5 to the complete texts, and each of the complete texts adds 0.01 to
the other."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n")
_SENTENCE_CHARS = 300
"""Most characters of a first sentence; chosen."""
_DESCRIPTION_CHARS = 2_000
"""Most characters of a description that are embedded; chosen."""
_PARAMETER_CHARS = 2_000
"""Most characters of names and descriptions of parameters that are embedded; chosen."""
HALF_FROM = 20_000
"""Number of tools from which vectors have half precision; costs at most 0.0005 of a cosine;
chosen."""
_SLACK = 1.06
"""Factor by which arrays are larger than needed, so that a few new rows copy nothing; chosen."""
# Both widths are chosen; how often a preselection by heads finds the same tools: docs/growth.md.
_HEAD = 64
"""Dimensions of a vector's head."""
_HEAD_SHORT = 32
"""Dimensions of a head in an index so large that reading all heads takes most of the time."""
_SHORT_FROM = 500_000
"""Number of texts from which heads are short; chosen."""
_SAMPLE_NUMBERS = 1 << 22
"""Most vector components in the sample from which the basis is computed; chosen."""
_SPARE = 16
"""Number of extra directions in the power iteration, so that the needed ones converge; chosen."""
_ROUNDS = 4
"""Number of rounds of the power iteration; chosen."""
_BLOCK = 2_048
"""Number of vectors projected at a time, so that temporary values fit into the processor's
cache; chosen."""
_HALF_BITS = np.int32(-0x7000_2000)
"""All bits except the copies of the sign."""
_HALF_SCALE = np.float32(2.0**112)
"""2 to the power of the difference of both exponent biases (127 - 15): IEEE 754."""


def texts_of(tool: SearchableTool) -> tuple[str, ...]:
    """Return the texts of a tool to embed, by `TEXT_WEIGHTS`; names are split into words.

    `server name: description`; the same with the parameters; the name; the first sentence of the
    description.
    """
    name = " ".join(split_identifier(tool.name))
    head = f"{_in_words(tool.server)} {name}".strip()
    description, title = tool.description[:_DESCRIPTION_CHARS], tool.title
    first = _SENTENCE_END.split(description.strip(), maxsplit=1)[0][:_SENTENCE_CHARS]
    if title and title != tool.name:
        description = f"{title}. {description}"
    split = f"{head}: {description}".strip()
    parameters: list[str] = []
    left = _PARAMETER_CHARS
    for parameter, text in tool.parameters:
        if left <= 0:
            break
        parameters.append(f"{_in_words(parameter)} {text}".strip()[:left])
        left -= len(parameters[-1])
    rich = f"{split} Parameters: {'; '.join(parameters)}" if parameters else split
    return split, rich, name or split, first or name or split


@lru_cache(maxsize=50_000)
def _in_words(name: str) -> str:
    """Split a name into words; cached, since names of servers and parameters recur often."""
    return " ".join(split_identifier(name))


@dataclass(frozen=True)
class PendingText:
    """A text that has no vector yet."""

    row: int
    """Its row in the vectors."""
    tool: SearchableTool
    """A tool with this text."""
    digest: bytes
    """Hash of all its texts."""

    @property
    def size(self) -> int:
        """Characters of its longest text."""
        return max(map(len, self.texts))

    @property
    def texts(self) -> tuple[str, ...]:
        """The embedded texts, in the order of `TEXT_WEIGHTS`."""
        return texts_of(self.tool)


@dataclass(frozen=True)
class Heads:
    """Vectors projected to their most informative directions, for a fast preselection."""

    basis: NDArray[np.float32]
    """Shape (dim, numbers): projects a vector to its head."""

    rows: NDArray[np.float32]
    """Heads of the texts; later states fill more rows."""

    there: NDArray[np.bool_]
    """Which of these rows are filled."""

    rest: NDArray[np.float32]
    """Mean of what the projection cut off, from when the basis was computed."""


@dataclass(frozen=True)
class ToolVectors:
    """Vectors of the tools of a state of the index."""

    rows: NDArray[Any]
    """Shape (distinct texts, dim), float32 or float16; rows not marked in `there` are filled
    later."""

    there: NDArray[np.bool_]
    """Which rows are filled."""

    of_tool: NDArray[np.int32]
    """Row of the tool at each slot."""

    tools: Sequence[SearchableTool] = ()
    """The tools by slot; later states may share and extend this list."""

    digests: TextHashes = field(default_factory=lambda: np.zeros((0, 2), np.uint64))
    """Hash of each row's text."""

    heads: Heads | None = None
    """Heads of the vectors in a large index."""


def align_vectors(
    last: ToolVectors | None,
    tools: Sequence[SearchableTool],
    size: int,
    dim: int,
    texts: TextHashes | None = None,
) -> ToolVectors:
    """Arrange vectors for these tools: reuse those in `last`; the other rows are empty.

    Args:
        last: The vectors of the previous state.
        tools: The tools by slot.
        size: How many of the tools count.
        dim: Dimensions of a vector.
        texts: Known hashes of their texts.
    """
    if last is not None and last.rows.shape[1] == dim and last.tools is tools:
        return _lengthened(last, tools, size)
    if last is not None and last.rows.shape[1] != dim:
        last = None
    return _renewed(last, tools, size, dim, _hashes(last, tools, size, texts))


def _hashes(
    last: ToolVectors | None,
    tools: Sequence[SearchableTool],
    size: int,
    texts: TextHashes | None,
) -> TextHashes:
    """Return the hashes of the tools' texts; compute unknown ones."""
    hashes = np.zeros((size, 2), np.uint64) if texts is None else texts[:size].copy()
    if last is not None:
        before = zip(last.tools[: len(last.of_tool)], last.of_tool.tolist(), strict=True)
        # By identity: unchanged tools are the same objects, and comparing texts is slow.
        row_of = {id(tool): row for tool, row in before}
        slot_rows = [(at, row_of[id(tools[at])]) for at in range(size) if id(tools[at]) in row_of]
        if slot_rows:
            slots, rows = np.array(slot_rows, np.int64).T
            hashes[slots] = last.digests[rows]
    for at in np.flatnonzero(~hashes.any(axis=1)).tolist():
        hashes[at] = np.frombuffer(_digest(tools[at]), np.uint64)
    return hashes


def split_hashes(hashes: TextHashes) -> list[bytes]:
    """Split an array of hashes into bytes."""
    raw = hashes.tobytes()
    return [raw[at : at + KEY_BYTES] for at in range(0, len(raw), KEY_BYTES)]


def _renewed(
    last: ToolVectors | None,
    tools: Sequence[SearchableTool],
    size: int,
    dim: int,
    hashes: TextHashes,
) -> ToolVectors:
    """Create vectors without texts that no tool has any more."""
    every = split_hashes(hashes)
    row_of = {text: row for row, text in enumerate(dict.fromkeys(every))}
    of_tool = np.fromiter(map(row_of.__getitem__, every), np.int32, size)
    digests = np.frombuffer(b"".join(row_of), np.uint64).reshape(-1, 2)
    count = len(digests)
    kind = np.float32 if size < HALF_FROM else np.float16
    rows = np.zeros((int(count * _SLACK) + 64 if size >= HALF_FROM else count, dim), kind)[:count]
    there = np.zeros(count, np.bool_)
    if last is not None:
        old = rows_of(last.digests, digests)
        known = np.flatnonzero(old >= 0)  # -1 is no row, not the last of them
        new = known[last.there[old[known]]]
        rows[new] = last.rows[old[new]]
        there[new] = True
    return ToolVectors(rows, there, of_tool, tools, digests)


def _lengthened(last: ToolVectors, tools: Sequence[SearchableTool], size: int) -> ToolVectors:
    """Extend vectors by those of new tools at the end; existing ones are not checked."""
    count, before = len(last.digests), len(last.of_tool)
    every = [_digest(tools[slot]) for slot in range(before, size)]
    texts = list(dict.fromkeys(every))
    hashes = np.frombuffer(b"".join(texts), np.uint64).reshape(-1, 2)
    rows = rows_of(last.digests, hashes)
    fresh = np.flatnonzero(rows < 0)
    rows[fresh] = np.arange(count, count + len(fresh))
    row_of = dict(zip(texts, rows.tolist(), strict=True))
    of_tool = np.concatenate([last.of_tool, np.array([row_of[text] for text in every], np.int32)])
    total = count + len(fresh)
    heads = last.heads
    if heads is not None:
        heads = replace(heads, rows=_longer(heads.rows, total), there=_flags(heads.there, total))
    return ToolVectors(
        _longer(last.rows, total),
        _flags(last.there, total),
        of_tool,
        tools,
        np.concatenate([last.digests, hashes[fresh]]),
        heads,
    )


def rows_of(digests: TextHashes, hashes: TextHashes) -> NDArray[np.int64]:
    """Return the row of each hash, -1 if there is none.

    A dictionary would need more memory than everything else stored about a text.
    """
    order = np.argsort(hashes[:, 0], kind="stable")
    ordered = hashes[order]
    rows = np.full(len(hashes), -1, np.int64)
    if len(hashes):
        at = np.minimum(ordered[:, 0].searchsorted(digests[:, 0]), len(hashes) - 1)
        same = np.flatnonzero(ordered[at, 0] == digests[:, 0])
        # Two hashes may share their first half, so the second half decides.
        same = same[ordered[at[same], 1] == digests[same, 1]]
        rows[order[at[same]]] = same
    return rows


def _flags(flags: NDArray[np.bool_], total: int) -> NDArray[np.bool_]:
    longer = np.zeros(total, np.bool_)
    longer[: len(flags)] = flags
    return longer


def _longer(rows: NDArray[Any], total: int) -> NDArray[Any]:
    """Extend rows, in the same memory if it is large enough.

    Other contents of that memory belong to no current state: a state reads only its own rows.
    """
    owner = rows if rows.base is None else rows.base
    if len(owner) < total:
        owner = np.zeros((int(total * _SLACK) + 64, rows.shape[1]), rows.dtype)
        owner[: len(rows)] = rows
    return owner[:total]


def empty_rows(vectors: ToolVectors) -> NDArray[np.int64]:
    """Return the rows that are not filled."""
    return np.flatnonzero(~vectors.there)


def pending_texts(vectors: ToolVectors, rows: NDArray[np.int64]) -> list[PendingText]:
    """Return the texts of some rows to embed, except rows whose tools were removed."""
    is_wanted = np.zeros(len(vectors.digests), np.bool_)
    is_wanted[rows] = True
    pending: dict[int, PendingText] = {}
    for slot in np.flatnonzero(is_wanted[vectors.of_tool]).tolist():
        row, tool = int(vectors.of_tool[slot]), vectors.tools[slot]
        if row not in pending and tool.key:
            pending[row] = PendingText(row, tool, vectors.digests[row].tobytes())
    return list(pending.values())


def _digest(tool: SearchableTool) -> bytes:
    text = "\0".join(texts_of(tool))
    data = text.encode(errors="surrogatepass")
    return hashlib.blake2b(data, digest_size=KEY_BYTES, person=_MAKING).digest()


def singles(rows: NDArray[Any]) -> NDArray[np.float32]:
    """Convert to single precision, in half the time that numpy takes for half precision.

    The bits of a half-precision number, shifted by 13, are those of a single-precision number
    whose exponent is 112 too low.
    """
    if rows.dtype != np.float16:
        return rows.astype(np.float32, copy=False)
    bits = rows.view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= _HALF_BITS
    floats = bits.view(np.float32)
    floats *= _HALF_SCALE
    return floats


def with_heads(vectors: ToolVectors) -> ToolVectors:
    """Add heads for all filled rows."""
    rows, there, heads = vectors.rows, vectors.there, vectors.heads
    count = int(np.count_nonzero(there))
    # A new basis once most of the rows were added after the old one was computed.
    if heads is None or 2 * np.count_nonzero(heads.there) < count:
        step = max(1, count * rows.shape[1] // _SAMPLE_NUMBERS)
        width = _HEAD if len(rows) < _SHORT_FROM else _HEAD_SHORT
        basis = _basis(rows[np.flatnonzero(there)[::step]], width)
        shape = (int(len(rows) * _SLACK) + 64, basis.shape[1])
        mean = _mean(rows, there)
        rest = (mean - basis @ (mean @ basis)).astype(np.float32)
        heads = Heads(basis, np.zeros(shape, np.float32)[: len(rows)], np.zeros_like(there), rest)
    filled = heads.there.copy()
    missing = np.flatnonzero(there & ~filled)
    for begin in range(0, len(missing), _BLOCK):
        at = missing[begin : begin + _BLOCK]
        heads.rows[at] = singles(rows[at]) @ heads.basis
    filled[missing] = True
    return replace(vectors, heads=replace(heads, there=filled))


def _mean(rows: NDArray[Any], there: NDArray[np.bool_]) -> NDArray[np.float32]:
    total = np.zeros(rows.shape[1], np.float64)
    for begin in range(0, len(rows), _BLOCK):
        part = slice(begin, begin + _BLOCK)
        total += there[part].astype(np.float32) @ singles(rows[part])
    return (total / max(1, np.count_nonzero(there))).astype(np.float32)


def _basis(sample: NDArray[Any], width: int) -> NDArray[np.float32]:
    """Return the directions of largest variation, best first, by power iteration."""
    # Randomized range finder with power iteration: Halko, Martinsson, Tropp 2011,
    # https://arxiv.org/abs/0909.4061. The seed is fixed, so equal vectors give equal rankings.
    exact = singles(sample)
    width = min(width, exact.shape[1])
    turned = np.random.default_rng(1).standard_normal((exact.shape[1], width + _SPARE))
    for _ in range(_ROUNDS):
        turned, _ = np.linalg.qr(exact.T @ (exact @ turned.astype(np.float32)))
    small = exact @ turned
    _, best = np.linalg.eigh(small.T @ small)
    return np.ascontiguousarray((turned @ best)[:, ::-1][:, :width], np.float32)
