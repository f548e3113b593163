"""Tools that do nearly the same on several servers, found in the background.

They are shown together as alternatives and never taken out of a ranking. Nearly the same means: on
another server, alike in name, and close in meaning. Alike in name guards against tools that are
close because they are opposites (`add_label`, `remove_label`).
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from toolgate.search.base import SearchableTool
from toolgate.search.tokenizer import fold, split_identifier, terms, words

__all__ = ["find_near_duplicates"]

_SAME_NAME = 0.7
"""Least cosine of two tools with the same words in their names."""

_LIKE_NAME = 0.85
"""Least cosine of two tools whose names share most of their words."""

_SHARED_NAME = 0.6
"""Share of the words of two names that must be common for that."""

_SHARED_TEXT = 0.5
"""Share of the words of two descriptions that must be common where there are no vectors."""

_BLOCK_MOST = 100
"""Tools with one word in their names beyond which that word finds no pairs: it says too little."""

_PAIRS_MOST = 500_000
"""Pairs that are compared at all; what a catalog has beyond is not found."""

_MOST = 8
"""Alternatives of one tool."""


def find_near_duplicates(
    tools: Sequence[SearchableTool], rows: NDArray[np.float32] | None = None
) -> Mapping[str, tuple[str, ...]]:
    """Alternatives of each tool that has some, by key, the nearest first.

    Args:
        tools: The catalog.
        rows: Vectors of length 1 in the same order, 0 where one is missing; None: there are none.
    """
    names = [_name_of(tool) for tool in tools]
    bare = [_without_server(name, tool) for name, tool in zip(names, tools, strict=True)]
    lengths = None if rows is None else np.linalg.norm(rows, axis=1)
    blocks: dict[str, list[int]] = {}
    for at, name in enumerate(names):
        for term in name:
            blocks.setdefault(term, []).append(at)
    same: dict[frozenset[str], list[int]] = {}
    for at in range(len(tools)):
        for name in {names[at], bare[at]}:
            same.setdefault(name, []).append(at)
    found: dict[int, dict[int, float]] = {}
    texts: dict[int, frozenset[str]] = {}

    def nearness(one: int, other: int) -> float:
        if rows is not None and lengths is not None and lengths[one] and lengths[other]:
            return round(float(rows[one] @ rows[other] / (lengths[one] * lengths[other])), 4)
        for at in (one, other):
            if at not in texts:
                texts[at] = _text_of(tools[at])
        share = _overlap(texts[one], texts[other])
        return _SAME_NAME + share / 10 if share >= _SHARED_TEXT else 0.0

    pairs: set[tuple[int, int]] = set()
    for places in (*same.values(), *(each for each in blocks.values() if len(each) <= _BLOCK_MOST)):
        if len(pairs) >= _PAIRS_MOST:
            break
        for first, one in enumerate(places):
            for other in places[first + 1 : first + _BLOCK_MOST]:
                if tools[one].server != tools[other].server:
                    pairs.add((one, other))
    for one, other in sorted(pairs):
        shared = max(_overlap(names[one], names[other]), _overlap(bare[one], bare[other]))
        least = _SAME_NAME if shared == 1 else _LIKE_NAME if shared >= _SHARED_NAME else 2.0
        if least <= 1 and (near := nearness(one, other)) >= least:
            found.setdefault(one, {})[other] = near
            found.setdefault(other, {})[one] = near
    return {
        tools[at].key: tuple(
            tools[other].key
            for other in sorted(near, key=lambda other: (-near[other], tools[other].key))[:_MOST]
        )
        for at, near in sorted(found.items())
    }


def _name_of(tool: SearchableTool) -> frozenset[str]:
    own = {term for part in split_identifier(tool.name) for term in terms(part)}
    return frozenset(own) or frozenset({fold(tool.name)})


def _without_server(name: frozenset[str], tool: SearchableTool) -> frozenset[str]:
    """The words of a name without those of its server, which many names repeat."""
    server = {term for part in split_identifier(tool.server) for term in terms(part)}
    return name - server or name


def _text_of(tool: SearchableTool) -> frozenset[str]:
    return frozenset(term for word in words(tool.description[:1_000]) for term in terms(word))


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    every = len(one | other)
    return len(one & other) / every if every else 0.0
