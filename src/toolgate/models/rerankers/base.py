"""The contract of rerankers. Knows nothing of collections or turns."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, kw_only=True)
class CandidatePassage:
    """A passage that a search found."""

    text: str
    """The passage."""

    heading: str = ""
    """The headings above it: `Setup > Sign in`."""

    similarity: float | None = None
    """Cosine to the question; None unless the search computed it the same way for all passages."""

    words: float | None = None
    """BM25 score; None if the search did not use words."""

    @property
    def full_text(self) -> str:
        """The passage below its headings."""
        return f"{self.heading}\n{self.text}" if self.heading else self.text


@runtime_checkable
class Reranker(Protocol):
    """Scores how well passages answer a question.

    Duties, checked by `toolgate.testing.contracts.reranker`:

    * One finite score for each candidate, in their order; higher is better. Scores for different
        questions are not compared.
    * A score depends on its candidate, not on its position in the list.
    * Any string is a valid question or passage, of any length and script; texts that are too
        long are cut.
    * Computing never blocks the event loop: it runs in a thread.
    * The optional method `aclose()` closes resources such as connections.
    """

    async def scores(
        self, question: str, candidates: Sequence[CandidatePassage]
    ) -> Sequence[float]:
        """Return how well each candidate answers the question.

        Raises:
            RerankerError: The model cannot be read, or its service failed. The order of the
                search is used.
        """
        ...


async def reranked(
    reranker: Reranker, question: str, candidates: Sequence[CandidatePassage]
) -> list[float]:
    """Return validated scores, since a reranker may be a third-party plugin.

    Raises:
        RerankerError: See `Reranker.scores`.
        ValueError: The scores violate the contract.
    """
    if not candidates:
        return []
    scores = [float(score) for score in await reranker.scores(question, candidates)]
    if len(scores) != len(candidates):
        raise ValueError(f"the reranker gave {len(scores)} scores for {len(candidates)} passages")
    if not all(map(isfinite, scores)):
        raise ValueError("the reranker gave scores that are not finite")
    return scores
