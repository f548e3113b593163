"""Similarity of tools to a request in meaning and words: all tools, or a preselection.

Up to some thousands of tools, every vector is compared. In larger catalogs, the heads of all
vectors and the words of all tools select a few thousand, whose full vectors are compared: this
finds the same tools (how often: `docs/growth.md`) and reads less memory: 64 or 32 numbers per
tool.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolgate.search.lexical.best_hits import highest_scores
from toolgate.search.lexical.state import LexicalState
from toolgate.search.semantic.server_scores import ServerVectors, changed_servers, server_vectors
from toolgate.search.semantic.tool_vectors import ToolVectors, singles, with_heads

FIRST_LOOK_FROM = 20_000
"""Number of tools from which heads are used for a preselection; chosen."""
DECIMALS = 5
"""Significant decimals of a cosine: further ones depend on the order of a sum."""
_HIGHEST = 64
"""Number of texts, the best by heads, among which one has about the highest cosine; chosen."""
_BLOCK_NUMBERS = 1 << 19
"""Count of vector components multiplied at a time, which fit into the processor's cache; chosen."""


@dataclass(frozen=True)
class HybridState:
    """A state of the index."""

    words: LexicalState = field(default_factory=LexicalState)
    """The index of words."""
    vectors: ToolVectors | None = None
    """Vectors of the tools; None without an embedder."""
    there: NDArray[np.bool_] | None = None
    """Which slots have a vector; None if all have one."""
    missing: int = 0
    """Number of tools without a vector."""
    usual: "MeanHead | None" = None
    """Mean head of all tools."""
    in_order: bool = False
    """Whether each slot has the row with the same number."""
    servers: ServerVectors | None = None
    """Mean vectors of the servers; None if they are uninformative."""
    near: "Mapping[str, Cosines] | None" = None
    """Cosines for one request from the store, by text; None if they are computed in memory."""
    is_elsewhere: bool = False
    """Whether the vectors are only in the store and not in memory."""


def state_of(
    words: LexicalState, vectors: ToolVectors | None, last: HybridState | None = None
) -> HybridState:
    """Create a state with all precomputed values; slow for a large index.

    Args:
        words: Its words.
        vectors: Its vectors, which may be incomplete.
        last: The previous state, if only missing vectors have been added since then.
    """
    if vectors is None:
        return HybridState(words, missing=len(words.keys))
    is_elsewhere = not vectors.rows.shape[1]
    large = len(words.keys) >= FIRST_LOOK_FROM and not is_elsewhere
    # With rows in the order of slots, no search has to copy rows.
    in_order = len(vectors.rows) == len(vectors.of_tool) and bool(
        (vectors.of_tool == np.arange(len(vectors.of_tool), dtype=np.int32)).all()
    )
    if large and vectors.there.any():
        vectors = with_heads(vectors)
    filled = vectors.heads.there if vectors.heads is not None else vectors.there
    there = None if filled.all() else filled if in_order else filled[vectors.of_tool]
    missing = 0
    if there is not None:
        without = ~there if words.live is None else ~there & words.live
        missing = int(np.count_nonzero(without))
    usual = _usual(words, vectors, last) if vectors.heads is not None else None
    servers = None
    if vectors.there.any() and not is_elsewhere:
        last_servers = last.servers if last is not None else None
        changed = (
            _servers_changed(last, words, there) if last is not None and last_servers else None
        )
        servers = server_vectors(words, vectors, last_servers, changed)
    return HybridState(
        words, vectors, there, missing, usual, in_order, servers, is_elsewhere=is_elsewhere
    )


def _servers_changed(
    last: HybridState, words: LexicalState, there: NDArray[np.bool_] | None
) -> NDArray[np.int32] | None:
    """Return the numbers of the servers with other tools or new vectors; None if unknown."""
    if last.words is not words:
        return changed_servers(last.words, words)
    if last.there is None:
        return None
    is_new = ~last.there if there is None else ~last.there & there
    return np.unique(words.servers[: words.size][is_new]) if is_new.any() else None


@dataclass(frozen=True)
class MeanHead:
    """The mean head of all tools with a vector."""

    counted: NDArray[np.bool_]
    """Which slots are included."""
    total: NDArray[np.float64]
    """Sum of their heads."""

    @property
    def head(self) -> NDArray[np.float32]:
        """The mean."""
        return (self.total / max(1, np.count_nonzero(self.counted))).astype(np.float32)


def _usual(words: LexicalState, vectors: ToolVectors, last: HybridState | None) -> MeanHead:
    """Compute the mean head of a state; update the previous one if possible."""
    assert vectors.heads is not None
    heads, of_tool = vectors.heads, vectors.of_tool
    counted = np.ones(words.size, np.bool_) if words.live is None else words.live.copy()
    if not heads.there.all():
        counted &= heads.there[of_tool]
    total = np.zeros(heads.rows.shape[1], np.float64)
    is_new, went = counted, np.zeros(0, np.int64)
    # Only sums over the same basis and the same slots can be reused.
    if (
        last is not None
        and last.usual is not None
        and last.vectors is not None
        and last.vectors.heads is not None
        and last.vectors.heads.basis is heads.basis
        and last.words.tools is words.tools
        and len(last.usual.counted) <= words.size
    ):
        before = np.zeros(words.size, np.bool_)
        before[: len(last.usual.counted)] = last.usual.counted
        total = last.usual.total.copy()
        is_new, went = counted & ~before, np.flatnonzero(before & ~counted)
        total -= heads.rows[of_tool[went]].sum(axis=0, dtype=np.float64)
    slots = np.flatnonzero(is_new)
    for begin in range(0, len(slots), 1 << 14):
        rows = of_tool[slots[begin : begin + (1 << 14)]]
        total += heads.rows[rows].sum(axis=0, dtype=np.float64)
    return MeanHead(counted, total)


class Cosines(NamedTuple):
    """Similarity of a text to tools in meaning."""

    values: NDArray[np.float32]
    """In [-1, 1]; approximate in a preselection."""
    low: float
    """Their mean over all tools."""
    high: float
    """The highest cosine of all tools."""


class TextScores(NamedTuple):
    """Scores of tools for a request or one of its clauses."""

    sums: NDArray[np.float32]
    """Weighted sums, in [0, 1]."""
    dense: NDArray[np.float32] | None
    """Contribution of the cosine to the sum."""
    cosines: NDArray[np.float32] | None
    shares: NDArray[np.float32]
    """Shares of the words that the tools cover."""


def score_text(
    shares: NDArray[np.float32],
    highest_share: float,
    cosines: Cosines | None,
    weight: float,
    there: NDArray[np.bool_] | None,
    servers: NDArray[np.float32] | None = None,
    server_weight: float = 0.0,
    sharpness: float = 0.0,
) -> TextScores:
    """Combine meaning, words and servers in a weighted sum.

    Args:
        shares: Shares of the words that the tools cover.
        highest_share: The largest share of all tools.
        cosines: Cosines of the tools; None to use only words.
        weight: Weight of meaning; words have the rest.
        there: Which of the tools have a vector; None if all have one.
        servers: Similarity of the tools' servers, in [0, 1]; NaN if a tool has no server, and
            counts as its own server. None to ignore servers.
        server_weight: Weight of servers, in addition to meaning and words.
        sharpness: How strongly tools behind the nearest one are reduced, in [0, 1].
    """
    lexical = np.divide(shares, highest_share, dtype=np.float32) if highest_share > 0 else shares
    if cosines is None:
        return TextScores(lexical, None, None, shares)
    low, high = cosines.low, cosines.high
    # All cosines are equal: they do not distinguish tools, and dividing would amplify rounding
    # errors.
    if high - low < 10**-DECIMALS:
        return TextScores(lexical, None, cosines.values, shares)
    # Scaled to [0, 1] over all tools: the mean becomes 0, the highest 1. Cosines of one model lie
    # in a narrow band, whose location depends on the request.
    dense: NDArray[np.float32] = cosines.values - np.float32(low)
    np.maximum(dense, 0, out=dense)
    dense /= np.float32(high - low)
    if servers is not None:
        servers = np.where(np.isnan(servers), dense, servers)
    if sharpness:
        dense *= np.float32(1 - sharpness) + np.float32(sharpness) * dense
    dense *= np.float32(weight)
    sums = lexical * np.float32(1 - weight)
    sums += dense
    if servers is not None:
        sums += servers * np.float32(server_weight)
        sums /= np.float32(1 + server_weight)
    # A tool without a vector keeps its score by words: its meaning is unknown, not 0.
    if there is not None:
        dense[~there] = 0
        sums[~there] = lexical[~there]
    return TextScores(sums, dense, cosines.values, shares)


def cosines_of(state: HybridState, queries: Sequence[NDArray[np.float32]]) -> list[Cosines | None]:
    """Return the cosines of all slots, approximate if there are heads; None without vectors."""
    vectors = state.vectors
    if vectors is None or not queries:
        return [None for _ in queries]
    heads = vectors.heads
    if heads is None:
        products = _products(vectors.rows, queries)
        products.round(DECIMALS, out=products)
    else:
        products = _products(heads.rows, [query @ heads.basis for query in queries])
    cosines: list[Cosines | None] = []
    for query, row in zip(queries, products, strict=True):
        values = row if state.in_order else row[vectors.of_tool]
        if heads is not None and state.usual is not None:
            # The heads give the mean within the basis; `rest` adds the mean of what the basis cuts
            # off.
            low = float(state.usual.head @ (query @ heads.basis) + heads.rest @ query)
            high = _high(state, row, query)
            cosines.append(None if high is None else Cosines(values, low, high))
            continue
        seen = values if state.there is None else values[state.there]
        if not len(seen):
            cosines.append(None)
            continue
        low = float(np.add.reduce(seen, dtype=np.float64)) / len(seen)
        cosines.append(Cosines(values, low, float(np.maximum.reduce(seen))))
    return cosines


def _high(
    state: HybridState, rough: NDArray[np.float32], query: NDArray[np.float32]
) -> float | None:
    """Return the highest cosine of all texts; None if no text has a vector."""
    vectors = state.vectors
    assert vectors is not None
    assert vectors.heads is not None
    best = highest_scores(rough, _HIGHEST)
    best = best[vectors.heads.there[best]]
    if not len(best):
        return None
    return float(np.round(singles(vectors.rows[best]) @ query, DECIMALS).max())


def exact_at(
    state: HybridState, slots: NDArray[np.int64], queries: Sequence[NDArray[np.float32]]
) -> list[NDArray[np.float32]]:
    """Return the exact cosines of some slots."""
    near = vectors_at(state, slots)
    return [np.round(near @ query, DECIMALS) for query in queries]


def vectors_at(state: HybridState, slots: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the vectors of some slots; zeros where one is missing."""
    assert state.vectors is not None
    rows = slots if state.in_order else state.vectors.of_tool[slots]
    return singles(state.vectors.rows[rows])


def _products(
    rows: NDArray[np.float32], queries: Sequence[NDArray[np.float32]]
) -> NDArray[np.float32]:
    """Return products of shape (queries, rows); reads the rows once for all queries."""
    products = np.empty((len(queries), len(rows)), np.float32)
    # A single query reads every row once anyway; blocks help only if several queries share them.
    step = len(rows) if len(queries) == 1 else max(1, _BLOCK_NUMBERS // rows.shape[1])
    for begin in range(0, len(rows), step or 1):
        block = rows[begin : begin + step]
        for at, query in enumerate(queries):
            np.dot(block, query, out=products[at, begin : begin + step])
    return products
