"""Compares passages with a question piece by piece, using the rows of a vector table.

One vector for a whole passage says what it is about; whether it answers a question often depends
on two of its sentences or on a few rare words.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from toolgate.models.embedders._vector_table import VectorTable

_SHORTEST: Final = 1e-6
"""Sums shorter than this count as zero, since their direction is noise (chosen)."""


def compare_passages(
    table: VectorTable, question: str, passages: Sequence[Sequence[str]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return how similar the sentences and subwords of passages are to a question.

    Args:
        table: The vectors.
        question: The user's question.
        passages: For each passage its heading, which may be empty, followed by its sentences.

    Returns:
        For each passage the cosine of its two adjacent sentences, with the heading, that are
        most similar to the question; and the mean over the subwords of the question of the
        cosine of the most similar subword of the passage (MaxSim,
        https://arxiv.org/abs/2004.12832), with more weight for rare subwords. Both are in [-1,
        1].
    """
    nearest = np.zeros(len(passages))
    covered = np.zeros(len(passages))
    asked_rows = np.array(table.rows(question), np.intp)
    rows_of = [[np.array(table.rows(text), np.intp) for text in passage] for passage in passages]
    everything = [asked_rows, *(rows for passage in rows_of for rows in passage)]
    distinct, places = np.unique(np.concatenate(everything), return_inverse=True)
    vectors = table.decoded(distinct)
    lengths = np.linalg.norm(vectors, axis=1)
    known = (lengths > _SHORTEST) & table.is_piece(distinct)
    asked = _unit(vectors[places[: len(asked_rows)]].sum(axis=0))
    words = np.unique(places[: len(asked_rows)])
    words = words[known[words]]
    if not len(words):
        return nearest, covered
    weights = lengths[words].astype(np.float64) ** 2  # the table makes rare subwords long
    weights /= weights.sum()
    unit = vectors / np.maximum(lengths, _SHORTEST)[:, None]
    cosines = unit[words] @ unit.T
    start = len(asked_rows)
    for number, passage in enumerate(rows_of):
        ends = np.cumsum([0, *map(len, passage)]) + start
        sums = np.array([vectors[places[begin:end]].sum(axis=0) for begin, end in pairwise(ends)])
        own = np.unique(places[start : ends[-1]])
        own = own[known[own]]
        start = ends[-1]
        if len(own):
            covered[number] = weights @ cosines[:, own].max(axis=1)
        heading, sentences = sums[0], sums[1:]
        following = np.concatenate((sentences[1:], np.zeros_like(sentences[:1])))
        windows = heading + sentences + following if len(sentences) else sums[:1]
        nearest[number] = (_unit(windows) @ asked).max()
    return nearest, covered


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: NDArray[np.float32] = vectors / np.maximum(lengths, np.float32(_SHORTEST))
    return unit
