"""Finds near-duplicates in the background: tools on several servers that do nearly the same.

They are shown together as alternatives and never removed from a ranking. A near-duplicate is on
another server, has a similar name, and is close in meaning. Comparing names excludes tools that
are close in meaning because they are opposites (`add_label`, `remove_label`).
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from toolgate.search.base import SearchableTool
from toolgate.search.tokenizer import fold, split_identifier, terms, words

_SAME_NAME = 0.7
"""Lowest cosine of two tools with the same words in their names; chosen."""

_LIKE_NAME = 0.85
"""Lowest cosine of two tools whose names share most of their words; chosen."""

_SHARED_NAME = 0.6
"""Share of the words of two names that must be common for that; chosen."""

_SHARED_TEXT = 0.5
"""Share of the words of two descriptions that must be common without vectors; chosen."""

_BLOCK_MOST = 100
"""Most tools with a word in their names for which that word gives pairs: a more common one is
uninformative; chosen."""

_PAIRS_MOST = 500_000
"""Most pairs that are compared; further pairs of a catalog are not found; chosen."""

_MOST = 8
"""Most alternatives per tool; chosen."""


def find_near_duplicates(
    tools: Sequence[SearchableTool], rows: NDArray[np.float32] | None = None
) -> Mapping[str, tuple[str, ...]]:
    """Return the keys of the alternatives of each tool that has some, the nearest first.

    Args:
        tools: The catalog.
        rows: Vectors of length 1 in the same order, 0 if one is missing; None if there are none.
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
    neighbours: dict[int, dict[int, float]] = {}
    texts: dict[int, frozenset[str]] = {}

    def nearness(first: int, other: int) -> float:
        if rows is not None and lengths is not None and lengths[first] and lengths[other]:
            return round(float(rows[first] @ rows[other] / (lengths[first] * lengths[other])), 4)
        for at in (first, other):
            if at not in texts:
                texts[at] = _text_of(tools[at])
        # 0.7 to 0.8: enough for equal names, never for names that are only similar.
        share = _overlap(texts[first], texts[other])
        return _SAME_NAME + share / 10 if share >= _SHARED_TEXT else 0.0

    pairs: set[tuple[int, int]] = set()
    for positions in (
        *same.values(),
        *(members for members in blocks.values() if len(members) <= _BLOCK_MOST),
    ):
        if len(pairs) >= _PAIRS_MOST:
            break
        # A name that hundreds of tools share would otherwise give a quadratic number of pairs.
        for number, first in enumerate(positions):
            for other in positions[number + 1 : number + _BLOCK_MOST]:
                if tools[first].server != tools[other].server:
                    pairs.add((first, other))
    for first, other in sorted(pairs):
        shared = max(_overlap(names[first], names[other]), _overlap(bare[first], bare[other]))
        # 2 is above any cosine: tools with different names never match, however close in meaning.
        least = _SAME_NAME if shared == 1 else _LIKE_NAME if shared >= _SHARED_NAME else 2.0
        if least <= 1 and (near := nearness(first, other)) >= least:
            neighbours.setdefault(first, {})[other] = near
            neighbours.setdefault(other, {})[first] = near
    return {
        tools[at].key: tuple(
            tools[other].key
            for other in sorted(near, key=lambda other: (-near[other], tools[other].key))[:_MOST]
        )
        for at, near in sorted(neighbours.items())
    }


def _name_of(tool: SearchableTool) -> frozenset[str]:
    name_terms = {term for part in split_identifier(tool.name) for term in terms(part)}
    return frozenset(name_terms) or frozenset({fold(tool.name)})


def _without_server(name: frozenset[str], tool: SearchableTool) -> frozenset[str]:
    """Return the words of a name without those of its server, which many names repeat."""
    server = {term for part in split_identifier(tool.server) for term in terms(part)}
    return name - server or name


def _text_of(tool: SearchableTool) -> frozenset[str]:
    return frozenset(term for word in words(tool.description[:1_000]) for term in terms(word))


def _overlap(first: frozenset[str], other: frozenset[str]) -> float:
    # The Jaccard index.
    every = len(first | other)
    return len(first & other) / every if every else 0.0
