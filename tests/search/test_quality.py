"""The gate on search quality: two small sets may not be answered worse than was recorded.

Of `hybrid` also how sure it is: the calibration error of its relevance, requests that are served
and get the notice that nothing fits, and everyday requests that get it.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.search.patient import PATIENT
from toolgate.evaluation.search_metrics import mean_of, read_labelled, score_ranking
from toolgate.models.embedders.bundled import BundledEmbedder
from toolgate.search import SearchAnswer, SearchRequest, SearchStrategy
from toolgate.search.strategies import bm25 as lexical
from toolgate.search.strategies import hybrid as both

DATA = Path(__file__).with_name("data")
ALLOWED = 0.01

RECORDED = {
    ("bm25", "mcpverse"): (0.542, 0.472),
    ("bm25", "metatool_multi"): (0.703, 0.669),
    ("hybrid", "mcpverse"): (0.697, 0.61),
    ("hybrid", "metatool_multi"): (0.847, 0.817),
}
"""R@5 and nDCG@10 by search and set."""

EVERYDAY = Path(__file__).parents[1] / "intents" / "data" / "clinc12.jsonl"
SERVED_HERE = {
    "mcpverse": {"book_flight", "weather"},
    "metatool_multi": {
        "book_flight",
        "play_music",
        "restaurant_reservation",
        "translate",
        "weather",
    },
}
"""Intents of everyday requests that a tool of the set serves, or nearly."""
SURE = {"mcpverse": (0.032, 0.028, 0.8), "metatool_multi": (0.071, 0.0, 0.8)}
"""Calibration error, false alarms, notice of everyday requests, by set."""


@pytest.mark.parametrize(("search", "name"), RECORDED, ids=str)
async def test_search_finds_no_less_than_was_recorded(search: str, name: str) -> None:
    """A change that loses more than a hundredth is a regression, whatever it was for."""
    strategy: SearchStrategy = lexical.build(lexical.Options())
    if search == "hybrid":
        strategy = both.build(PATIENT, embedder=BundledEmbedder())
    labelled = read_labelled(DATA / name)
    await strategy.update(labelled.tools)

    found = [
        await strategy.search(SearchRequest(queries=(question.text,), limit=10))
        for question in labelled.questions
    ]

    scores = [
        score_ranking([hit.key for hit in answer.hits], question.groups)
        for answer, question in zip(found, labelled.questions, strict=True)
    ]
    got = mean_of(scores)
    recall, gain = RECORDED[search, name]
    assert got["R@5"] >= recall - ALLOWED
    assert got["nDCG@10"] >= gain - ALLOWED
    if search == "hybrid":
        error, alarms, noticed = SURE[name]
        needed = [frozenset[str]().union(*question.groups) for question in labelled.questions]
        said = [
            (hit.relevance, hit.key in keys)
            for answer, keys in zip(found, needed, strict=True)
            for hit in answer.hits
        ]
        everyday = [
            await strategy.search(SearchRequest(queries=(text,), limit=1))
            for text in everyday_requests(SERVED_HERE[name])
        ]
        assert calibration_error(said) <= error + ALLOWED
        assert notices(found) <= alarms + ALLOWED
        assert notices(everyday) >= noticed - ALLOWED


def everyday_requests(served: set[str]) -> list[str]:
    """Requests that no tool serves; none of them was used for fitting."""
    rows = [json.loads(line) for line in EVERYDAY.read_text(encoding="utf-8").splitlines()]
    tests = [row for row in rows if row["split"] == "test" and row["intent"]]
    return [row["text"] for row in tests if row["intent"] not in served]


def notices(answers: Sequence[SearchAnswer]) -> float:
    """Share of requests with the notice that nothing fits."""
    return float(
        np.mean([not answer.hits or "weak" in answer.hits[0].fields for answer in answers])
    )


def calibration_error(said: Sequence[tuple[float, bool]]) -> float:
    """Expected calibration error over ten bins."""
    given, true = np.array(said, float).T
    bins = np.minimum((given * 10).astype(int), 9)
    return float(
        sum(
            abs(given[bins == each].mean() - true[bins == each].mean()) * (bins == each).mean()
            for each in np.unique(bins)
        )
    )
