"""Similarity of servers to a request: a tool is likelier if its server's other tools are near.

A server's vector is the mean of its tools' vectors. That needs no text of the server, and is
uninformative if every server has one tool. Tools without a server name have nothing in common.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from toolgate.search.lexical.state import LexicalState
from toolgate.search.semantic.tool_vectors import ToolVectors, singles

_BLOCK = 2_048
"""Number of vectors added at a time, so that temporary values fit into the processor's cache;
chosen."""
_RENEWED_MOST = 0.05
"""Largest share of servers in `instead` before all are merged into `rows`; chosen."""
_FEW = 8
"""Most tools of a server whose vectors are summed together with those of other servers; chosen."""
_LEAST = 1e-5
"""Smallest spread of cosines that distinguishes servers; chosen."""
_DECIMALS = 5
"""Significant decimals of a cosine: further ones depend on the order of a sum."""


@dataclass(frozen=True)
class ServerVectors:
    """The mean vectors of all servers."""

    rows: NDArray[np.float32]
    """Vectors of length 1, by number of the server; 0 for one without tools. Outdated ones are
    overridden in `instead`, so that a change copies no others."""

    total: NDArray[np.float64]
    """Sum of the vectors of all servers with tools."""

    present: int
    """Number of servers with tools."""

    renewed: NDArray[np.int32]
    """Numbers of the servers in `instead`, ascending."""

    instead: NDArray[np.float32]
    """Their current vectors."""

    @cached_property
    def usual(self) -> NDArray[np.float32]:
        """The mean vector of all servers with tools."""
        return (self.total / self.present).astype(np.float32)

    def cosines(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the cosine of each server."""
        cosines = self.rows @ query
        if len(self.renewed):
            longer = np.zeros(max(len(cosines), int(self.renewed[-1]) + 1), np.float32)
            longer[: len(cosines)] = cosines
            cosines = longer
            cosines[self.renewed] = self.instead @ query
        return cosines

    def vectors_of(self, numbers: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the vectors of a few servers."""
        vectors = self.rows[np.minimum(numbers, len(self.rows) - 1)]
        vectors[numbers >= len(self.rows)] = 0
        if len(self.renewed):
            at = np.minimum(self.renewed.searchsorted(numbers), len(self.renewed) - 1)
            replaced = np.flatnonzero(self.renewed[at] == numbers)
            vectors[replaced] = self.instead[at[replaced]]
        return vectors


def server_vectors(
    words: LexicalState,
    vectors: ToolVectors,
    last: ServerVectors | None = None,
    changed: NDArray[np.int32] | None = None,
) -> ServerVectors | None:
    """Return the vectors of all servers; None if there are fewer than two.

    Args:
        words: Index with the server of each tool.
        vectors: Vectors of the tools; missing ones do not count.
        last: Server vectors of the previous state.
        changed: Numbers of the servers that differ from `last`; None for all.
    """
    if last is None or changed is None:
        rows = _rows_of(words, vectors, np.arange(len(words.server_names), dtype=np.int32))
        return _whole(rows)
    renewed = np.union1d(last.renewed, changed)
    before, after = last.vectors_of(changed), _rows_of(words, vectors, changed)
    instead = np.zeros((len(renewed), last.rows.shape[1]), np.float32)
    instead[renewed.searchsorted(last.renewed)] = last.instead
    instead[renewed.searchsorted(changed)] = after
    if len(renewed) > _RENEWED_MOST * len(last.rows):
        rows = np.zeros((len(words.server_names), last.rows.shape[1]), np.float32)
        rows[: len(last.rows)] = last.rows
        rows[renewed] = instead
        return _whole(rows)
    present = last.present + int(after.any(axis=1).sum()) - int(before.any(axis=1).sum())
    total = last.total + (after.sum(axis=0, dtype=np.float64) - before.sum(axis=0))
    return ServerVectors(last.rows, total, present, renewed, instead) if present > 1 else None


def _whole(rows: NDArray[np.float32]) -> ServerVectors | None:
    present = int(np.count_nonzero(rows.any(axis=1)))
    if present < 2:
        return None
    none = np.zeros(0, np.int32)
    return ServerVectors(rows, rows.sum(axis=0, dtype=np.float64), present, none, rows[:0])


def _rows_of(
    words: LexicalState, vectors: ToolVectors, numbers: NDArray[np.int32]
) -> NDArray[np.float32]:
    """Return the vectors of some servers, whose numbers are ascending."""
    is_wanted = np.zeros(len(words.server_names), np.bool_)
    is_wanted[numbers] = True
    if (nameless := words.nameless) is not None:
        is_wanted[nameless] = False
    is_counted = is_wanted[words.servers[: words.size]]
    if words.live is not None:
        is_counted &= words.live
    slots = np.flatnonzero(is_counted)
    owners = numbers.searchsorted(words.servers[slots])
    by_server = np.argsort(owners, kind="stable")
    slots, owners = slots[by_server], owners[by_server]
    rows = np.zeros((len(numbers), vectors.rows.shape[1]), np.float32)
    for begin in range(0, len(slots), _BLOCK):
        block = slice(begin, begin + _BLOCK)
        starts = np.flatnonzero(np.diff(owners[block], prepend=-1))
        near = singles(vectors.rows[vectors.of_tool[slots[block]]])
        # Added and not assigned: a server's tools may start in the previous block.
        rows[owners[block][starts]] += _sums(near, starts)
    # The 1e-9 only prevents a division by zero: servers without vectors stay 0.
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    return rows


def _sums(rows: NDArray[np.float32], starts: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the bitwise result of `np.add.reduceat`: in an eighth of the time for short runs.

    `np.add.reduceat` adds the sum of all others to the first, and sums up to seven of them
    sequentially.
    """
    counts = np.diff(starts, append=len(rows))
    sums = rows[starts]
    small = np.flatnonzero((counts > 1) & (counts <= _FEW))
    rest = rows[starts[small] + 1]
    for at in range(2, _FEW):
        those = np.flatnonzero(counts[small] > at)
        rest[those] += rows[starts[small[those]] + at]
    sums[small] += rest
    for at in np.flatnonzero(counts > _FEW).tolist():
        server_rows = rows[starts[at] : starts[at] + counts[at]]
        sums[at] = np.add.reduceat(server_rows, [0], axis=0)[0]
    return sums


def changed_servers(before: LexicalState, after: LexicalState) -> NDArray[np.int32] | None:
    """Return the numbers of servers whose tools differ; None if the states are not comparable."""
    # After a full rebuild, numbers and slots have other meanings.
    if before.tools is not after.tools or before.server_names is not after.server_names:
        return None
    shared = min(before.size, after.size)
    lived = np.ones(shared, np.bool_) if before.live is None else before.live[:shared]
    lives = np.ones(shared, np.bool_) if after.live is None else after.live[:shared]
    gone = after.servers[:shared][lived != lives]
    return np.unique(np.concatenate([gone, after.servers[shared : after.size]]))


def nearness(
    servers: ServerVectors,
    owners: NDArray[np.int32],
    query: NDArray[np.float32],
    *,
    few: bool,
    nameless: int | None = None,
) -> NDArray[np.float32]:
    """Return the similarity of each tool's server: 1 for the nearest, 0 for average and below.

    NaN for tools without a server name.

    Args:
        servers: Vectors of the servers.
        owners: Number of each tool's server.
        query: Vector of length 1.
        few: Whether the tools are a small part of all; then the nearest server is one of theirs.
        nameless: Number of the empty server name; None if all tools have a server name.
    """
    if few:
        numbers, slots = np.unique(owners, return_inverse=True)
        cosines = servers.vectors_of(numbers) @ query
    else:
        cosines, slots = servers.cosines(query), owners
    cosines = cosines.round(_DECIMALS)
    low = (servers.usual @ query).round(_DECIMALS)
    high = np.maximum.reduce(cosines)
    if high - low < _LEAST:
        return np.zeros(len(owners), np.float32)
    # As for tools: the mean of all servers becomes 0, the nearest 1.
    scaled: NDArray[np.float32] = np.maximum(cosines - low, 0) / (high - low)
    values = scaled[slots]
    if nameless is not None:
        values[owners == nameless] = np.nan
    return values
