"""Selects the best scores, restricts a search to allowed tools, and merges lists of hits."""

from collections.abc import Sequence
from dataclasses import replace
from heapq import nsmallest

import numpy as np
from numpy.typing import NDArray

from toolgate.search.base import Hit, SearchRequest
from toolgate.search.lexical.state import LexicalState
from toolgate.search.tokenizer import (
    fold,
)

_LANES = 16
"""Number of rows into which scores are folded to find the highest; chosen."""
_TINY = float(np.finfo(np.float32).tiny)
"""The smallest score above 0 that counts."""
_FAR_BEHIND = 0.08
"""Share of the best relevance below which a hit is left out of answers."""
_ALWAYS_SHOWN = 2
"""Number of best hits that are always in answers. With both values, one of 191 short requests of
the held-out half of `benchmarks/data/phrases.jsonl` loses the tool that serves it, and answers name
4.3 tools instead of 5; with a share of .15 five lose it."""


def allowed_by(
    state: LexicalState, request: SearchRequest
) -> tuple[NDArray[np.bool_] | None, int, list[str]]:
    """Return which slots may be found (None for all), how many these are, and notices."""
    mask = request.mask
    if mask is not None and len(mask) != len(state.tools_in_order):
        # A mask for another state of the index does not apply to this one.
        nobody = np.zeros(state.size, np.bool_)
        return nobody, 0, ["The tools changed during the search. Search again."]
    if mask is None:
        allowed, count = state.live, len(state.tools_in_order)
    else:
        allowed = np.asarray(mask, np.bool_)
        count = int(np.count_nonzero(allowed))
        if state.slots is not None:
            by_place = np.zeros(state.size, np.bool_)
            by_place[state.slots] = allowed
            allowed = by_place
    if not request.servers:
        return allowed, count, []
    numbers = {name: state.server_names.get(fold(name), -1) for name in request.servers}
    notices: list[str] = []
    within = np.zeros(state.size, np.bool_)
    for name, number in numbers.items():
        of_server = state.servers == number
        if allowed is not None:
            of_server &= allowed
        if not of_server.any():
            notices.append(f"Server {name[:64]!r} has no tool here.")
        within |= of_server
    return within, int(np.count_nonzero(within)), notices


def best_positions(
    state: LexicalState,
    scores: NDArray[np.float32],
    limit: int,
    slots: NDArray[np.int64] | None = None,
) -> list[int]:
    """Return the positions of the best scores above 0; equal scores are sorted by key.

    `slots` are the slots of the scores; None if there is one score for each slot.
    """
    if limit <= 0:
        return []
    highest = highest_scores(scores, limit)
    # Negated, so that a stable ascending sort puts the best first.
    lost = -scores[highest]
    order = lost.argsort(kind="stable")
    ranked: list[int] = highest[order].tolist()
    reached: list[float] = lost[order].tolist()
    # Keys are looked up only if scores tie, since that is slower than the sort.
    if len(set(reached)) < len(reached):
        where: list[int] = ranked if slots is None else slots[ranked].tolist()
        keys = [state.tools[slot].key for slot in where]
        every = zip(reached, keys, ranked, strict=True)
        return [at for _, _, at in nsmallest(limit, every)]
    return ranked[:limit]


def highest_scores(scores: NDArray[np.float32], limit: int) -> NDArray[np.int64]:
    """Return the positions of the highest scores above 0, including ties with the last one."""
    rows = len(scores) // _LANES
    if rows > 4 * limit:
        # The `limit`-th highest maximum of a lane is no more than the `limit`-th highest of all
        # scores.
        lanes = np.maximum.reduce(scores[: rows * _LANES].reshape(_LANES, rows), axis=0)
        lanes.partition(-limit)
        (positions,) = (scores >= max(float(lanes[-limit]), _TINY)).nonzero()
        if len(positions) > limit:
            reached = scores[positions]
            positions = positions[reached >= _least_of(reached, limit)]
    else:
        least = _least_of(scores, limit) if len(scores) > limit else 0.0
        (positions,) = (scores >= max(least, _TINY)).nonzero()
    return positions


def _least_of(scores: NDArray[np.float32], limit: int) -> float:
    """Return the `limit`-th highest score."""
    cut = scores.copy()
    cut.partition(-limit)
    return float(cut[-limit])


def interleave_hits(
    lists: Sequence[Sequence[Hit]], limit: int, *, then: Sequence[Sequence[Hit]] = ()
) -> list[Hit]:
    """Interleave the hits of several requests, each tool once with its best relevance.

    The lists in `then` follow after all other lists.
    """
    if len(lists) + len(then) == 1:
        return list((lists or then)[0][:limit])
    best: dict[str, Hit] = {}
    for hit in (hit for hits in (*lists, *then) for hit in hits):
        if hit.key not in best or hit.relevance > best[hit.key].relevance:
            best[hit.key] = hit
    merged: dict[str, Hit] = {}
    for group in (lists, then):
        for turn in range(max((len(hits) for hits in group), default=0)):
            for hits in group:
                if turn < len(hits) and len(merged) < limit:
                    merged.setdefault(hits[turn].key, best[hits[turn].key])
    return list(merged.values())


def mark_far_behind(hits: Sequence[Hit]) -> list[Hit]:
    """Mark the hits of one query that are much worse than the best; the best come first."""
    least = _FAR_BEHIND * max((hit.relevance for hit in hits), default=0.0)
    return [
        replace(hit, is_far_behind=position >= _ALWAYS_SHOWN and hit.relevance < least)
        for position, hit in enumerate(hits)
    ]
