"""How near servers are to a request: a tool is likelier the one when its server's others are near.

A server's vector is the mean of its tools'. That needs no text of the server, and says nothing
where every server has one tool. Tools without the name of a server have nothing in common.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from toolgate.search.lexical.state import LexicalState
from toolgate.search.semantic.tool_vectors import ToolVectors, singles

__all__ = ["ServerVectors", "changed_servers", "nearness", "server_vectors"]

_BLOCK = 2_048
"""Vectors that are added at a time: what is computed on the way stays in the processor's cache;
chosen."""
_RENEWED_MOST = 0.05
"""Share of the servers that stand beside the others before all are put together; chosen."""
_FEW = 8
"""Tools of a server whose vectors are added up with those of others; chosen."""
_LEAST = 1e-5
"""Smallest spread of cosines that tells servers apart; chosen."""
_DECIMALS = 5
"""Digits of a cosine that count: what is beyond depends on the order of a sum."""


@dataclass(frozen=True)
class ServerVectors:
    """The mean vectors of all servers."""

    rows: NDArray[np.float32]
    """Of length 1, by number of the server; 0 for one without tools. Those of a later state may
    be others, which stand in `instead`: a change copies no others."""

    total: NDArray[np.float64]
    """Sum of all that count."""

    present: int
    """Servers with tools."""

    renewed: NDArray[np.int32]
    """Numbers of those that are not in `rows`, ascending."""

    instead: NDArray[np.float32]
    """Their vectors."""

    @cached_property
    def usual(self) -> NDArray[np.float32]:
        """The mean of all that count."""
        return (self.total / self.present).astype(np.float32)

    def cosines(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """How near each server is."""
        cosines = self.rows @ query
        if len(self.renewed):
            longer = np.zeros(max(len(cosines), int(self.renewed[-1]) + 1), np.float32)
            longer[: len(cosines)] = cosines
            cosines = longer
            cosines[self.renewed] = self.instead @ query
        return cosines

    def vectors_of(self, numbers: NDArray[np.int32]) -> NDArray[np.float32]:
        """The vectors of a few servers."""
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
    """The vectors of all servers; None when there are fewer than two.

    Args:
        words: Which tools are whose.
        vectors: Of the tools; one that is missing does not count.
        last: Those of the state before.
        changed: Numbers of the servers that are different from `last`; None: all.
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
    """The vectors of some servers, whose numbers ascend."""
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
        # Added and not set: a server's tools may go on from the block before.
        rows[owners[block][starts]] += _sums(near, starts)
    # The 1e-9 only prevents a division by zero: servers without vectors stay 0.
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    return rows


def _sums(rows: NDArray[np.float32], starts: NDArray[np.int64]) -> NDArray[np.float32]:
    """What `np.add.reduceat` gives, to the last bit: in an eighth of the time where few are added.

    That adds to the first the sum of all others, which it adds up one after the other up to seven.
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
    """Numbers of the servers whose tools differ; None when the two are not comparable."""
    # After a full rebuild, numbers and slots mean something else.
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
    """For each tool how near its server is: 1 the nearest, 0 the usual one and all below.

    NaN for tools without the name of a server.

    Args:
        servers: Their vectors.
        owners: Number of each tool's server.
        query: Of length 1.
        few: Whether the tools are a small part of all; then the nearest server is one of theirs.
        nameless: What stands for the server of tools without one; None: all have one.
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
    # As for tools: the mean of all servers gives 0, the nearest 1.
    scaled: NDArray[np.float32] = np.maximum(cosines - low, 0) / (high - low)
    values = scaled[slots]
    if nameless is not None:
        values[owners == nameless] = np.nan
    return values
