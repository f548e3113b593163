"""A request that was just answered is not searched again, and never answered for somebody else."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from tests.search.hashing import HashingEmbedder
from tests.search.patient import PATIENT
from toolgate.search import SearchAnswer, SearchRequest
from toolgate.search.answer.answer_cache import AnswerCache
from toolgate.search.strategies.hybrid import HybridSearch, Options, build
from toolgate.testing.contracts.search import sample_tools

WEATHER = SearchRequest(queries=("weather forecast for a place",))


@dataclass
class Learned:
    """What was learned, as a version."""

    version: object


async def made(options: Options = PATIENT) -> HybridSearch:
    strategy = build(options, embedder=HashingEmbedder())
    await strategy.update(sample_tools())
    return strategy


def same(one: SearchAnswer, other: SearchAnswer) -> bool:
    """Whether one of them is the other, kept: what a search finds is made anew each time."""
    return bool(one.hits) and one.hits[0] is other.hits[0]


async def test_the_same_request_gets_the_same_answer_without_a_search() -> None:
    strategy = await made()

    first = await strategy.search(WEATHER)
    again = await strategy.search(replace(WEATHER, queries=(f"  {WEATHER.queries[0]}\n",)))

    assert same(first, again)
    assert again == replace(first, duration_ms=again.duration_ms)


async def test_steps_on_lines_of_their_own_are_not_answered_as_one_sentence() -> None:
    strategy = await made()
    lines = "read a file from disk\nforecast the weather for a place"

    one = await strategy.search(SearchRequest(queries=(lines.replace("\n", " "),)))
    steps = await strategy.search(SearchRequest(queries=(lines,)))
    spaced = await strategy.search(SearchRequest(queries=(lines.replace("\n", " \r\n\n  "),)))

    assert not same(one, steps)
    assert same(steps, spaced)


@pytest.mark.parametrize(
    "change",
    [
        lambda keys: {"queries": ("Weather forecast for a place",)},
        lambda keys: {"queries": (*WEATHER.queries, "mail")},
        lambda keys: {"queries": ("weather forecast\nfor a place",)},
        lambda keys: {"context": "holidays"},
        lambda keys: {"limit": 4},
        lambda keys: {"servers": ("weather",)},
        lambda keys: {"threshold": 0.001},
        lambda keys: {"project_id": "another"},
        lambda keys: {"recent": ("mail:sendMail",)},
        lambda keys: {"priors": {"mail:sendMail": 0.1}},
        lambda keys: {"mask": np.ones(len(keys), np.bool_)},
        lambda keys: {"learned": Learned(1)},
        lambda keys: {"learned": Learned(None)},
    ],
    ids=lambda change: next(iter(change(("k",)))),
)
async def test_any_other_request_is_searched(change: Callable[[Any], dict[str, Any]]) -> None:
    strategy = await made(replace(PATIENT, usage=replace(PATIENT.usage, weight=0)))
    key = AnswerCache(max_entries=1, ttl_s=1).key_of
    other = replace(WEATHER, **change(strategy.keys))

    assert key(WEATHER) is not None
    assert key(other) != key(WEATHER)


async def test_no_mask_gets_the_answer_of_another_mask() -> None:
    """Callers with other rights ask the same words."""
    strategy = await made()
    size = len(strategy.keys)
    for hidden in range(size):
        mask = np.ones(size, np.bool_)
        mask[hidden] = False
        for _ in range(2):
            found = await strategy.search(replace(WEATHER, mask=mask, limit=100))
            assert strategy.keys[hidden] not in {hit.key for hit in found.hits}


async def test_an_answer_is_gone_when_the_tools_change() -> None:
    strategy = await made()
    first = await strategy.search(WEATHER)
    tools = sample_tools()
    await strategy.update(tools[1:])
    await strategy.update(tools)

    assert not same(first, await strategy.search(WEATHER))


async def test_an_answer_by_words_alone_is_not_kept() -> None:
    class Failing(HashingEmbedder):
        async def embed(self, texts: Any, kind: Any) -> Any:
            if kind == "query" and not self.queries:
                self.queries.append("")
                raise ValueError("not yet")
            return await super().embed(texts, kind)

    strategy = build(PATIENT, embedder=Failing())
    await strategy.update(sample_tools())

    first = await strategy.search(WEATHER)
    again = await strategy.search(WEATHER)

    assert "words alone" in first.notices[0]
    assert again.notices == ()


def test_answers_are_kept_for_their_time_and_the_last_ones_only() -> None:
    now = [0.0]
    kept = AnswerCache(max_entries=2, ttl_s=300, clock=lambda: now[0])
    state, answer = object(), SearchAnswer(hits=())
    for key in ("a", "b", "c"):
        kept.put(state, key, answer)

    assert [kept.get(state, key) is not None for key in ("a", "b", "c")] == [False, True, True]
    assert kept.get(object(), "c") is None
    now[0] = 300.0
    assert kept.get(state, "c") is None


def test_none_is_kept_when_none_is_wanted() -> None:
    assert AnswerCache(max_entries=0, ttl_s=300).key_of(WEATHER) is None
