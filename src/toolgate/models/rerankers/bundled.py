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
        sentences, owners = await anyio.to_thread.run_sync(_sentences_of, candidates)
        try:
            [asked] = await embedded(self._embedder, [question], "query")
            passages = await embedded(
                self._embedder, [candidate.full_text for candidate in candidates], "document"
            )
            vectors = await embedded(self._embedder, sentences, "document")
        except EmbedderError as error:
            raise RerankerError(str(error), hint=error.hint) from error
        best = np.full(len(candidates), -1.0, np.float32)
        np.maximum.at(best, owners, vectors @ asked)
        words = np.array([candidate.words or 0.0 for candidate in candidates])
        total = (
            _WORDS * _standardized(words)
            + _PASSAGE * _standardized(passages @ asked)
            + _SENTENCE * _standardized(best)
        )
        return [float(score) for score in total]


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
