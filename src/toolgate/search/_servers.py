"""How near servers are to a request: a tool is likelier the one when its server's others are near.

A server's vector is the mean of its tools'. That needs no text of the server, and says nothing
where every server has one tool.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolgate.search._lexical import LexicalState
from toolgate.search._vectors import ToolVectors, singles

__all__ = ["ServerVectors", "changed_servers", "nearness", "server_vectors"]

_BLOCK = 2_048
"""Vectors that are added at a time: what is computed on the way stays in the processor's cache."""
_LEAST = 1e-5
"""Smallest spread of cosines that tells servers apart."""
_DECIMALS = 5


@dataclass(frozen=True)
class ServerVectors:
    """The mean vectors of all servers."""

    rows: NDArray[np.float32]
    """Of length 1, by number of the server; 0 for one without tools."""

    usual: NDArray[np.float32]
    """Their mean."""


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
    count = len(words.server_names)
    wanted = np.ones(words.size, np.bool_) if words.live is None else words.live.copy()
    rows = np.zeros((count, vectors.rows.shape[1]), np.float32)
    if last is not None and changed is not None:
        rows[: len(last.rows)] = last.rows
        rows[changed] = 0
        is_changed = np.zeros(count, np.bool_)
        is_changed[changed] = True
        wanted &= is_changed[words.servers[: words.size]]
    places = np.flatnonzero(wanted)
    owners = words.servers[places]
    by_server = np.argsort(owners, kind="stable")
    places, owners = places[by_server], owners[by_server]
    for begin in range(0, len(places), _BLOCK):
        some = slice(begin, begin + _BLOCK)
        starts = np.flatnonzero(np.diff(owners[some], prepend=-1))
        near = singles(vectors.rows[vectors.of_tool[places[some]]])
        rows[owners[some][starts]] += np.add.reduceat(near, starts, axis=0)
    touched = np.unique(owners)
    lengths = np.linalg.norm(rows[touched], axis=1, keepdims=True)
    rows[touched] /= np.maximum(lengths, 1e-9)
    present = int(np.count_nonzero(rows.any(axis=1)))
    if present < 2:
        return None
    return ServerVectors(rows, rows.sum(axis=0) / np.float32(present))


def changed_servers(before: LexicalState, after: LexicalState) -> NDArray[np.int32] | None:
    """Numbers of the servers whose tools differ; None when the two are not comparable."""
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
) -> NDArray[np.float32]:
    """For each tool how near its server is: 1 the nearest, 0 the usual one and all below.

    Args:
        servers: Their vectors.
        owners: Number of each tool's server.
        query: Of length 1.
        few: Whether the tools are a small part of all; then the nearest server is one of theirs.
    """
    if few:
        some, places = np.unique(owners, return_inverse=True)
        rows = servers.rows[some]
    else:
        rows, places = servers.rows, owners
    cosines = np.round(rows @ query, _DECIMALS)
    low = np.round(servers.usual @ query, _DECIMALS)
    high = cosines.max()
    if high - low < _LEAST:
        return np.zeros(len(owners), np.float32)
    scaled: NDArray[np.float32] = np.maximum(cosines - low, 0) / (high - low)
    return scaled[places]
