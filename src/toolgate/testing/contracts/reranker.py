"""The contract suite for rerankers.

Example:
    ```python
    class TestMine(RerankerContract):
        @pytest.fixture
        def make_reranker(self) -> Callable[[], Reranker]:
            return lambda: build(Options())
    ```
"""

from collections.abc import AsyncIterator, Callable
from math import isfinite

import pytest

from toolgate.models.rerankers import CandidatePassage, Reranker, reranked
from toolgate.testing.contracts.search import HOSTILE_TEXTS

QUESTION = "How many days of paid leave do I have?"
PASSAGES = (
    CandidatePassage(text="The canteen opens at eleven.", similarity=0.5, words=0.2),
    CandidatePassage(
        text="Everybody has thirty days of paid leave a year.", similarity=0.9, words=6.0
    ),
    CandidatePassage(text="Printers are on the second floor.", similarity=0.45, words=None),
)
_CLOSE_ENOUGH = 1e-4
"""Tolerance for scores (chosen: float32 rounding in batches of different sizes)."""


@pytest.mark.anyio
class RerankerContract:
    """The requirements of `toolgate.models.rerankers.Reranker`, one test each."""

    @pytest.fixture
    def make_reranker(self) -> Callable[[], Reranker]:
        """Builds a reranker with the same options each time; subclasses override it."""
        raise NotImplementedError

    @pytest.fixture
    async def reranker(self, make_reranker: Callable[[], Reranker]) -> AsyncIterator[Reranker]:
        """The reranker under test."""
        reranker = make_reranker()
        yield reranker
        close = getattr(reranker, "aclose", None)
        if close is not None:
            await close()

    async def test_it_satisfies_the_protocol(self, reranker: Reranker) -> None:
        """`plugins.make` rejects others."""
        assert isinstance(reranker, Reranker)

    async def test_each_passage_has_a_finite_score(self, reranker: Reranker) -> None:
        """NaN would break sorting."""
        for candidates in ((), PASSAGES[:1], PASSAGES):
            scores = await reranker.scores(QUESTION, candidates)
            assert len(scores) == len(candidates)
            assert all(map(isfinite, scores))

    async def test_the_passage_that_answers_comes_first(self, reranker: Reranker) -> None:
        """Higher scores are better."""
        scores = await reranked(reranker, QUESTION, PASSAGES)
        assert scores.index(max(scores)) == 1

    async def test_a_score_goes_with_its_passage(self, reranker: Reranker) -> None:
        """The position in the list does not matter."""
        forwards = await reranked(reranker, QUESTION, PASSAGES)
        backwards = await reranked(reranker, QUESTION, PASSAGES[::-1])
        assert backwards[::-1] == pytest.approx(forwards, abs=_CLOSE_ENOUGH)

    @pytest.mark.parametrize("text", [*HOSTILE_TEXTS, "", "word " * 20_000])
    async def test_any_text_is_a_question_and_a_passage(
        self, reranker: Reranker, text: str
    ) -> None:
        """Long texts are truncated."""
        assert len(await reranked(reranker, text, PASSAGES)) == len(PASSAGES)
        assert (
            len(await reranked(reranker, QUESTION, [*PASSAGES, CandidatePassage(text=text)])) == 4
        )
