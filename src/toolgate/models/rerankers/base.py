"""The contract of rerankers. Knows nothing of collections or turns."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Protocol, runtime_checkable

__all__ = ["CandidatePassage", "Reranker", "reranked"]


@dataclass(frozen=True, kw_only=True)
class CandidatePassage:
    """A passage that a search found."""

    text: str
    """The passage."""

    heading: str = ""
    """The headings above it: `Setup > Sign in`."""

    similarity: float | None = None
    """Similarity of its vector, if the search compared the vectors of all passages in one way."""

    words: float | None = None
    """BM25 score of its words, as far as the search looked at words."""

    @property
    def full_text(self) -> str:
        """The passage below its headings."""
        return f"{self.heading}\n{self.text}" if self.heading else self.text


@runtime_checkable
class Reranker(Protocol):
    """Says how well passages answer a question.

    Duties, checked by `toolgate.testing.contracts.reranker`:

    * One finite number for each candidate, in their order; higher is better. Numbers of different
      questions are not compared.
    * A number belongs to its candidate, wherever that stands in the list.
    * Any string is a question or a passage, of any length and script; what is too long is cut.
    * Computing never holds up the event loop: it goes to a thread.
    * What it keeps open, such as connections, ends with `aclose()`, which it need not have.
    """

    async def scores(
        self, question: str, candidates: Sequence[CandidatePassage]
    ) -> Sequence[float]:
        """How well each candidate answers the question.

        Raises:
            RerankerError: The model cannot be read, or the service behind it failed. The order of
                the search stays.
        """
        ...


async def reranked(
    reranker: Reranker, question: str, candidates: Sequence[CandidatePassage]
) -> list[float]:
    """Scores of candidates, checked: a reranker may be anybody's.

    Raises:
        RerankerError: As `Reranker.scores`.
        ValueError: They are not what was promised.
    """
    if not candidates:
        return []
    scores = [float(score) for score in await reranker.scores(question, candidates)]
    if len(scores) != len(candidates):
        raise ValueError(f"the reranker gave {len(scores)} scores for {len(candidates)} passages")
    if not all(map(isfinite, scores)):
        raise ValueError("the reranker gave scores that are not finite")
    return scores
