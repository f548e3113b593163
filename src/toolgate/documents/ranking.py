"""Merges lists of passages: by rank, by diversity, without duplicates."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from toolgate.documents.base import FoundPassage

_K = 60
"""Constant of reciprocal rank fusion. https://doi.org/10.1145/1571941.1572114"""


def without_duplicates(passages: Sequence[FoundPassage]) -> list[FoundPassage]:
    """Of passages with the same text, return only the one with the highest similarity."""
    best: dict[str, FoundPassage] = {}
    for passage in passages:
        better = best.get(passage.text)
        if better is None or _worth(passage) > _worth(better):
            best[passage.text] = passage
    return [passage for passage in passages if best[passage.text] is passage]


def above_threshold(passages: Sequence[FoundPassage], threshold: float) -> list[FoundPassage]:
    """Return passages with at least this similarity; 0 or less: all."""
    if threshold <= 0:
        return list(passages)
    return [
        passage
        for passage in passages
        if passage.similarity is None or round(passage.similarity, 3) >= threshold
    ]


def fuse_rankings(
    lists: Sequence[Sequence[FoundPassage]], *, is_comparable: bool, by_words: bool = False
) -> list[FoundPassage]:
    """Merge lists of several collections, best first, without duplicate texts.

    Args:
        lists: One for each collection, best first.
        is_comparable: Whether all similarities have the same model and metric. If not, ranks
            decide, since numbers on different scales are never compared.
        by_words: Whether they were found by meaning and by words, both of which count.
    """
    filled = [ranking for ranking in lists if ranking]
    if by_words:
        if is_comparable:
            return _by_both([passage for ranking in filled for passage in ranking])
        filled = [_ranked(_by_both(ranking)) for ranking in filled]
    if len(filled) <= 1:
        return without_duplicates(filled[0]) if filled else []
    everything = [passage for ranking in filled for passage in ranking]
    if is_comparable and all(passage.similarity is not None for passage in everything):
        return without_duplicates(sorted(everything, key=_by_similarity))
    # Equal texts in several collections add to each other's score.
    scores: dict[str, float] = {}
    for ranking in filled:
        for passage in without_duplicates(ranking):
            scores[passage.text] = scores.get(passage.text, 0.0) + 1 / (_K + passage.rank)
    return _by_score(everything, scores)


def _by_both(passages: Sequence[FoundPassage]) -> list[FoundPassage]:
    """Sort by meaning and by words, fused by rank."""
    near = sorted(
        (passage for passage in passages if passage.similarity is not None), key=_by_similarity
    )
    worded = sorted(
        (passage for passage in passages if passage.words is not None),
        key=lambda passage: (-(passage.words or 0.0), passage.passage_id),
    )
    scores: dict[str, float] = {}
    for ordered in (near, worded):
        for rank, text in enumerate(dict.fromkeys(passage.text for passage in ordered), 1):
            scores[text] = scores.get(text, 0.0) + 1 / (_K + rank)
    return _by_score(passages, scores)


def _by_score(passages: Sequence[FoundPassage], scores: Mapping[str, float]) -> list[FoundPassage]:
    ordered = sorted(
        without_duplicates(passages),
        key=lambda passage: (-scores.get(passage.text, 0.0), *_by_similarity(passage)),
    )
    return [replace(passage, fused=scores.get(passage.text)) for passage in ordered]


def _ranked(passages: Sequence[FoundPassage]) -> list[FoundPassage]:
    return [replace(passage, rank=rank) for rank, passage in enumerate(passages, 1)]


def _by_similarity(passage: FoundPassage) -> tuple[float, int, int]:
    return -_worth(passage), passage.rank, passage.passage_id


def diversify(
    question: NDArray[np.float32],
    vectors: Mapping[int, NDArray[np.float32]],
    numbers: Sequence[int],
    *,
    limit: int,
    lambda_mult: float,
) -> list[int]:
    """Choose by maximal marginal relevance: near to the question, far from previous choices.

    Args:
        question: Its vector.
        vectors: Vectors by number; a number without one is left out.
        numbers: Candidates, nearest first.
        limit: Largest number of results.
        lambda_mult: 1: only similarity counts; 0: only diversity.
    """
    there = [number for number in numbers if number in vectors]
    if not there:
        return []
    rows = np.stack([vectors[number] for number in there])
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    direction = question / max(float(np.linalg.norm(question)), 1e-12)
    near = rows @ direction
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
