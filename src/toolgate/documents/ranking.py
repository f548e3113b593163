"""Putting lists of passages in one order: by rank, by variety, without repetitions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from toolgate.documents.base import FoundPassage

__all__ = ["above_threshold", "diversify", "fuse_rankings", "without_duplicates"]

_K = 60
"""Of reciprocal rank fusion. https://doi.org/10.1145/1571941.1572114"""


def without_duplicates(passages: Sequence[FoundPassage]) -> list[FoundPassage]:
    """Of passages with exactly the same text the one with the best similarity, in its place."""
    best: dict[str, FoundPassage] = {}
    for each in passages:
        known = best.get(each.text)
        if known is None or _worth(each) > _worth(known):
            best[each.text] = each
    return [each for each in passages if best[each.text] is each]


def above_threshold(passages: Sequence[FoundPassage], threshold: float) -> list[FoundPassage]:
    """Those that are similar enough; one that is equal to the threshold is, and 0 asks nothing."""
    if threshold <= 0:
        return list(passages)
    return [
        each
        for each in passages
        if each.similarity is None or round(each.similarity, 3) >= threshold
    ]


def fuse_rankings(
    lists: Sequence[Sequence[FoundPassage]], *, is_comparable: bool, by_words: bool = False
) -> list[FoundPassage]:
    """Lists of several collections as one, best first, each text once.

    Args:
        lists: One for each collection, best first.
        is_comparable: Whether one model and one metric measured all similarities. If not, numbers
            of different scales are never compared: ranks decide.
        by_words: Whether they were found by meaning and by words, which both have a say.
    """
    filled = [found for found in lists if found]
    if by_words:
        if is_comparable:
            return _by_both([each for found in filled for each in found])
        filled = [_ranked(_by_both(found)) for found in filled]
    if len(filled) <= 1:
        return without_duplicates(filled[0]) if filled else []
    everything = [each for found in filled for each in found]
    if is_comparable and all(each.similarity is not None for each in everything):
        return without_duplicates(sorted(everything, key=_by_similarity))
    # Equal texts of several collections speak for each other.
    scores: dict[str, float] = {}
    for found in filled:
        for each in without_duplicates(found):
            scores[each.text] = scores.get(each.text, 0.0) + 1 / (_K + each.rank)
    return _by_score(everything, scores)


def _by_both(found: Sequence[FoundPassage]) -> list[FoundPassage]:
    """By meaning and by words, fused by rank."""
    near = sorted((each for each in found if each.similarity is not None), key=_by_similarity)
    worded = sorted(
        (each for each in found if each.words is not None),
        key=lambda each: (-(each.words or 0.0), each.passage_id),
    )
    scores: dict[str, float] = {}
    for ordered in (near, worded):
        for rank, text in enumerate(dict.fromkeys(each.text for each in ordered), 1):
            scores[text] = scores.get(text, 0.0) + 1 / (_K + rank)
    return _by_score(found, scores)


def _by_score(found: Sequence[FoundPassage], scores: Mapping[str, float]) -> list[FoundPassage]:
    ordered = sorted(
        without_duplicates(found),
        key=lambda each: (-scores.get(each.text, 0.0), *_by_similarity(each)),
    )
    return [replace(each, fused=scores.get(each.text)) for each in ordered]


def _ranked(found: Sequence[FoundPassage]) -> list[FoundPassage]:
    return [replace(each, rank=rank) for rank, each in enumerate(found, 1)]


def _by_similarity(each: FoundPassage) -> tuple[float, int, int]:
    return -_worth(each), each.rank, each.passage_id


def diversify(
    question: NDArray[np.float32],
    vectors: Mapping[int, NDArray[np.float32]],
    numbers: Sequence[int],
    *,
    limit: int,
    lambda_mult: float,
) -> list[int]:
    """Numbers by maximal marginal relevance: near to the question, far from those before them.

    Args:
        question: Its vector.
        vectors: Vectors by number; a number without one is left out.
        numbers: What is chosen from, nearest first.
        limit: How many are chosen.
        lambda_mult: 1: nearness alone; 0: variety alone.
    """
    there = [number for number in numbers if number in vectors]
    if not there:
        return []
    rows = np.stack([vectors[number] for number in there])
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    wanted = question / max(float(np.linalg.norm(question)), 1e-12)
    near = rows @ wanted
    chosen: list[int] = []
    closest = np.full(len(there), -np.inf, np.float32)
    left = np.ones(len(there), np.bool_)
    while len(chosen) < min(limit, len(there)):
        penalty = closest if chosen else np.zeros(len(there), np.float32)
        values = lambda_mult * near - (1 - lambda_mult) * penalty
        values = np.where(left, values, -np.inf)
        at = int(np.argmax(values))
        chosen.append(at)
        left[at] = False
        closest = np.maximum(closest, rows @ rows[at])
    return [there[at] for at in chosen]


def _worth(passage: FoundPassage) -> float:
    return -np.inf if passage.similarity is None else passage.similarity
