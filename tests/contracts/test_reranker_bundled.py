"""The reranker `bundled` keeps the contract."""

from collections.abc import Callable

import pytest

from toolgate.base import plugins
from toolgate.models.embedders import Embedder
from toolgate.models.rerankers import CandidatePassage, Reranker, reranked
from toolgate.testing.contracts.reranker import RerankerContract
from toolgate.types import PluginSpec

pytestmark = pytest.mark.anyio


def make() -> Reranker:
    spec = PluginSpec(name="bundled", options={}, setting="")
    embedder = plugins.make("embedder", Embedder, spec, {})
    return plugins.make("reranker", Reranker, spec, {"embedder": embedder})


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
