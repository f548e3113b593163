"""The gate on search quality: two small sets may not be answered worse than was recorded."""

from pathlib import Path

import pytest

from toolgate.cli._measure import judge, mean_of, read_labelled
from toolgate.embed.bundled import BundledEmbedder
from toolgate.search import SearchRequest, SearchStrategy
from toolgate.search import bm25 as lexical
from toolgate.search import hybrid as both

pytestmark = pytest.mark.anyio

DATA = Path(__file__).with_name("data")
ALLOWED = 0.01

RECORDED = {
    ("bm25", "mcpverse"): (0.573, 0.482),
    ("bm25", "metatool_multi"): (0.713, 0.679),
    ("hybrid", "mcpverse"): (0.679, 0.6),
    ("hybrid", "metatool_multi"): (0.847, 0.817),
}
"""R@5 and nDCG@10 by search and set."""


@pytest.mark.parametrize(("search", "name"), RECORDED, ids=str)
async def test_search_finds_no_less_than_was_recorded(search: str, name: str) -> None:
    """A change that loses more than a hundredth is a regression, whatever it was for."""
    strategy: SearchStrategy = lexical.build(lexical.Options())
    if search == "hybrid":
        options = both.Options(wait_s=20, embed_timeout_s=5)
        strategy = both.build(options, embedder=BundledEmbedder())
    labelled = read_labelled(DATA / name)
    await strategy.update(labelled.tools)

    found = [
        await strategy.search(SearchRequest(queries=(question.text,), limit=10))
        for question in labelled.questions
    ]

    scores = [
        judge([hit.key for hit in answer.hits], question.groups)
        for answer, question in zip(found, labelled.questions, strict=True)
    ]
    got = mean_of(scores)
    recall, gain = RECORDED[search, name]
    assert got["R@5"] >= recall - ALLOWED
    assert got["nDCG@10"] >= gain - ALLOWED
