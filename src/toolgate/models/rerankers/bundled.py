"""The reranker `bundled`: words, meaning, the best two sentences and the most similar subwords.

Needs no model but the embedder in the package. A score is the weighted sum of four parts, each
standardized by its mean and deviation over the candidates of a question: words (BM25), the
similarity of the passage's vector, that of its most similar two sentences, and how well its
subwords cover those of the question.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from toolgate.errors import EmbedderError, RerankerError
from toolgate.models.embedders import embedded
from toolgate.models.embedders.bundled import BundledEmbedder
from toolgate.models.rerankers.base import CandidatePassage

_SENTENCE_END = re.compile(r"(?<=[.!?:])\s+|\n\s*\n|\n(?=\s*[-*#|\d])")
_MOST_SENTENCES: Final = 60
"""Sentences of a passage that are compared; a passage of 300 tokens has about ten."""

_MOST_READ: Final = 30
"""Candidates whose sentences are compared: the best by words and vector; the others get the
lowest of their values, since comparing all takes twice as long."""

_WORDS: Final = 0.3
"""Weight of shared words."""
_PASSAGE: Final = 0.4
"""Weight of the similarity of the whole passage."""
_SENTENCES: Final = 1.1
"""Weight of the best sentences."""
_SUBWORDS: Final = 0.8
"""Weight of the most similar subwords. All four are the median of the best values in a random
search on two of the collections of `benchmarks.document_questions`; the other three were held
out."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of the reranker `bundled`: none."""


def build(options: Options) -> "BundledReranker":  # noqa: ARG001 - every reranker is built like this
    """Create the reranker with the embedder in the package."""
    return BundledReranker()


class BundledReranker:
    """Scores from words, vectors, sentences and subwords."""

    def __init__(self) -> None:
        self._embedder = BundledEmbedder()

    async def scores(
        self, question: str, candidates: Sequence[CandidatePassage]
    ) -> Sequence[float]:
        """Return the weighted sum of four parts for each candidate.

        Raises:
            RerankerError: The bundled model does not work.
        """
        if not candidates:
            return []
        words = _standardized(np.array([candidate.words or 0.0 for candidate in candidates]))
        try:
            near = _standardized(await self._similarities(question, candidates))
            order: NDArray[np.intp] = np.argsort(-(words + near), kind="stable")[:_MOST_READ]
            parts = [_parts_of(candidates[int(number)]) for number in order]
            nearest, covered = await self._embedder.compare(question, parts)
        except EmbedderError as error:
            raise RerankerError(str(error), hint=error.hint) from error
        total = _WORDS * words + _PASSAGE * near
        for weight, values in ((_SENTENCES, nearest), (_SUBWORDS, covered)):
            everybody = np.full(len(candidates), values.min())
            everybody[order] = values
            total += weight * _standardized(everybody)
        return [float(score) for score in total]

    async def _similarities(
        self, question: str, candidates: Sequence[CandidatePassage]
    ) -> NDArray[np.floating]:
        """Return the similarities that the search computed; computes them if one is missing."""
        known = [
            candidate.similarity for candidate in candidates if candidate.similarity is not None
        ]
        if len(known) == len(candidates):
            return np.array(known)
        texts = [candidate.full_text for candidate in candidates]
        [asked] = await embedded(self._embedder, [question], "query")
        return await embedded(self._embedder, texts, "document") @ asked


def _parts_of(candidate: CandidatePassage) -> list[str]:
    """Return the last heading of a candidate and its sentences."""
    sentences = _SENTENCE_END.split(candidate.text, maxsplit=_MOST_SENTENCES)
    heading = candidate.heading.rpartition(" > ")[2]
    return [heading, *(" ".join(text.split()) for text in sentences if text.strip())]


def _standardized(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the values with mean 0 and deviation 1; all 0 if they are equal."""
    centred = values.astype(np.float64) - float(values.mean())
    deviation = float(centred.std())
    return centred / deviation if deviation > 1e-9 else np.zeros_like(centred)
