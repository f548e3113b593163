"""The reranker `bundled`: what the search knows of a passage, and its best sentence.

Needs no model but the embedder in the package. A passage is as good as its words (BM25), the
similarity of its vector and that of its most similar sentence together; each is brought to the
same scale by its mean and deviation over the candidates of a question.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from toolgate.errors import EmbedderError, RerankerError
from toolgate.models.embedders import Embedder, embedded
from toolgate.models.rerankers.base import CandidatePassage

__all__ = ["BundledReranker", "Options", "build"]

_SENTENCE_END = re.compile(r"(?<=[.!?:])\s+|\n\s*\n|\n(?=\s*[-*#|\d])")
_MOST_SENTENCES: Final = 60
"""Sentences of a passage that are compared; a passage of 300 tokens has about ten."""

_MOST_READ: Final = 30
"""Candidates whose sentences are compared, the best by words and vector; the others count as their
worst: reading all costs twice the time."""

_WORDS: Final = 1.0
_PASSAGE: Final = 1.0
_SENTENCE: Final = 0.7
"""Weights of the three parts: the best of a grid on two of the collections of
`benchmarks.document_questions`; the other three were not looked at."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of the reranker `bundled`: none."""


def build(options: Options, *, embedder: Embedder) -> "BundledReranker":  # noqa: ARG001 - contract
    """The reranker with the embedder in the package."""
    return BundledReranker(embedder)


class BundledReranker:
    """Scores from words, vectors and sentences."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def scores(
        self, question: str, candidates: Sequence[CandidatePassage]
    ) -> Sequence[float]:
        """A sum of three parts for each candidate.

        Raises:
            RerankerError: The bundled model does not work.
        """
        if not candidates:
            return []
        words = np.array([candidate.words or 0.0 for candidate in candidates])
        try:
            [asked] = await embedded(self._embedder, [question], "query")
            near = await self._similarities(asked, candidates)
            total = _WORDS * _standardized(words) + _PASSAGE * _standardized(near)
            order: NDArray[np.intp] = np.argsort(-total, kind="stable")[:_MOST_READ]
            best_candidates = [candidates[int(number)] for number in order]
            sentences, owners = await anyio.to_thread.run_sync(_sentences_of, best_candidates)
            vectors = await embedded(self._embedder, sentences, "document")
        except EmbedderError as error:
            raise RerankerError(str(error), hint=error.hint) from error
        best = np.full(len(order), -1.0, np.float32)
        np.maximum.at(best, owners, vectors @ asked)
        sentence = np.full(len(candidates), best.min())
        sentence[order] = best
        total += _SENTENCE * _standardized(sentence)
        return [float(score) for score in total]

    async def _similarities(
        self, asked: NDArray[np.float32], candidates: Sequence[CandidatePassage]
    ) -> NDArray[np.floating]:
        """Similarities as the search measured them; computed here where one is missing."""
        known = [
            candidate.similarity for candidate in candidates if candidate.similarity is not None
        ]
        if len(known) == len(candidates):
            return np.array(known)
        texts = [candidate.full_text for candidate in candidates]
        return await embedded(self._embedder, texts, "document") @ asked


def _sentences_of(candidates: Sequence[CandidatePassage]) -> tuple[list[str], NDArray[np.intp]]:
    """The sentences of all candidates with their last heading, and whose each is."""
    sentences: list[str] = []
    owners: list[int] = []
    for owner, candidate in enumerate(candidates):
        parts = _SENTENCE_END.split(candidate.text, maxsplit=_MOST_SENTENCES)
        texts = [candidate.heading.rpartition(" > ")[2], *parts]
        for text in texts:
            if text.strip():
                sentences.append(" ".join(text.split()))
                owners.append(owner)
    return sentences, np.array(owners, np.intp)


def _standardized(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Values with mean 0 and deviation 1; all 0 where they do not differ."""
    centred = values.astype(np.float64) - float(values.mean())
    deviation = float(centred.std())
    return centred / deviation if deviation > 1e-9 else np.zeros_like(centred)
