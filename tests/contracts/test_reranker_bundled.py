"""The reranker `bundled` keeps the contract."""

from collections.abc import Callable

import pytest

from toolgate.base import plugins
from toolgate.models.rerankers import CandidatePassage, Reranker, reranked
from toolgate.testing.contracts.reranker import RerankerContract
from toolgate.types import PluginSpec


def make() -> Reranker:
    spec = PluginSpec(name="bundled", options={}, setting="")
    return plugins.make("reranker", Reranker, spec, {})


class TestBundled(RerankerContract):
    """All duties of a reranker."""

    @pytest.fixture
    def make_reranker(self) -> Callable[[], Reranker]:
        return make


async def test_one_good_sentence_counts_although_the_passage_is_about_more() -> None:
    filler = "The car park is behind the building. Visitors sign in at the desk. " * 4
    candidates = [
        CandidatePassage(text=f"{filler}Ask your manager before a day off. {filler}"),
        CandidatePassage(text=f"{filler}The coffee machine takes cards. {filler}"),
        CandidatePassage(text=filler),
    ]
    scores = await reranked(make(), "Who approves holidays?", candidates)
    assert scores.index(max(scores)) == 0


async def test_a_rare_word_counts_although_no_sentence_is_like_the_question() -> None:
    candidates = [
        CandidatePassage(text="Ask at the desk how to enter the house. The house has a desk."),
        CandidatePassage(text="Bring a passport. The guard looks at everything."),
        CandidatePassage(text="Bring an umbrella. The weather changes all the time."),
    ]
    scores = await reranked(make(), "Do I need my passport to enter?", candidates)
    assert scores.index(max(scores)) == 1
