"""A large index changes by segments; what it finds is what an index made anew would find."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.search.hashing import HashingEmbedder
from tests.search.patient import PATIENT
from toolgate.models.embedders import TextKind, Vectors
from toolgate.search import SearchableTool, SearchRequest
from toolgate.search.lexical import index as _lexical
from toolgate.search.lexical.index import build_state
from toolgate.search.lexical.matches import matched_words
from toolgate.search.lexical.query import coverage, parse_query
from toolgate.search.lexical.state import LexicalState
from toolgate.search.lexical.weights import WordWeights
from toolgate.search.semantic import first_stage, server_scores, tool_vectors
from toolgate.search.strategies.hybrid import HybridSearch, build


class Small(HashingEmbedder):
    """With vectors as long as those of the bundled embedder."""

    identity = "small hashing for tests"
    dim = 256

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        rows = (await super().embed(texts, kind)).reshape(len(texts), -1, self.dim).sum(axis=1)
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


WORDS = ("alpha", "beta", "gamma", "delta", "list", "read", "file", "mail", "issue", "Größe")
WEIGHTS = WordWeights()


@pytest.fixture
def always_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small indexes are changed as large ones are."""
    for name, value in {
        "SEGMENTED_FROM": 0,
        "_DELTA_MOST": 1.0,
        "_GONE_MOST": 1.0,
        "_DRIFT_MOST": 1e9,
    }.items():
        monkeypatch.setattr(_lexical, name, value)


@pytest.fixture
def always_first_look(monkeypatch: pytest.MonkeyPatch, always_segments: None) -> None:
    """Small indexes are searched as large ones are."""
    monkeypatch.setattr(first_stage, "FIRST_LOOK_FROM", 1)
    monkeypatch.setattr("toolgate.search.strategies.hybrid.FIRST_LOOK_FROM", 1)
    monkeypatch.setattr(tool_vectors, "HALF_FROM", 1)


def tool(number: int, text: str, server: str = "s") -> SearchableTool:
    name = f"tool_{number}"
    return SearchableTool(
        key=f"{server}:{name}",
        server=server,
        name=name,
        description=text,
        parameters=(("path", text[:9]),),
        digest=text,
    )


texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
catalogs = st.dictionaries(st.integers(0, 12), texts, min_size=1, max_size=10).flatmap(
    lambda found: st.permutations([tool(number, text) for number, text in found.items()])
)


def with_the_same_averages(
    state: LexicalState, tools: tuple[SearchableTool, ...], monkeypatch: pytest.MonkeyPatch
) -> LexicalState:
    """An index made anew, its lengths compared with the means that the other compares with."""
    assert state.index is not None
    usual = state.index.usual
    with monkeypatch.context() as patch:
        patch.setattr(_lexical, "mean_lengths", lambda *_: usual)
        return build_state(LexicalState(), tools, WEIGHTS)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20, deadline=None
)
@given(states=st.lists(catalogs, min_size=2, max_size=5), query=texts)
def test_an_index_changed_by_segments_scores_as_one_made_anew(
    always_segments: None,
    monkeypatch: pytest.MonkeyPatch,
    states: list[list[SearchableTool]],
    query: str,
) -> None:
    """Our decision: a change costs its own tools, and nobody can tell it from the scores."""
    state = LexicalState()
    for tools in states:
        state = build_state(state, tuple(tools), WEIGHTS)
    fresh = with_the_same_averages(state, tuple(states[-1]), monkeypatch)

    scores = coverage(state, parse_query(state, query))
    wanted = coverage(fresh, parse_query(fresh, query))

    by_position = scores if state.slots is None else scores[state.slots]
    assert state.keys == fresh.keys
    assert np.array_equal(by_position, wanted)
    assert scores.sum() == pytest.approx(wanted.sum()), "a tool that is gone scores nothing"
    slots = list(range(len(fresh.keys))) if state.slots is None else state.slots.tolist()
    assert matched_words(state, slots, parse_query(state, query)) == matched_words(
        fresh, list(range(len(fresh.keys))), parse_query(fresh, query)
    )
    for position, each in enumerate(states[-1]):
        assert (0, slots[position]) in state.slots_named(each.key)


def test_small_indexes_are_put_together_anew_at_each_change() -> None:
    """So that their means, and all scores, are those of their tools alone."""
    first = build_state(LexicalState(), (tool(1, "alpha"), tool(2, "beta gamma")), WEIGHTS)
    state = build_state(first, (tool(1, "alpha"), tool(3, "gamma delta file")), WEIGHTS)
    fresh = build_state(LexicalState(), (tool(1, "alpha"), tool(3, "gamma delta file")), WEIGHTS)

    assert state.index is not None
    assert fresh.index is not None
    assert len(state.index.segments) == 1
    assert state.index.usual == fresh.index.usual
    assert np.array_equal(
        coverage(state, parse_query(state, "gamma file")),
        coverage(fresh, parse_query(fresh, "gamma file")),
    )


def a_catalog(servers: int, each: int = 5) -> list[SearchableTool]:
    chance = np.random.default_rng(11)
    return [
        tool(n, " ".join(chance.choice(WORDS, 5)) + f" case{server * each + n}", f"server{server}")
        for server in range(servers)
        for n in range(each)
    ]


def counting(monkeypatch: pytest.MonkeyPatch, name: str) -> list[int]:
    """How many tools were read, segment by segment or text by text."""
    counted: list[int] = []
    original: Callable[..., object] = getattr(_lexical, name)

    def count(*given: object, **options: object) -> object:
        sized = [each for each in given if isinstance(each, Sequence) and not isinstance(each, str)]
        counted.append(len(sized[0]))
        return original(*given, **options)

    monkeypatch.setattr(_lexical, name, count)
    return counted


async def test_one_changed_server_of_a_large_catalog_costs_that_server_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_lexical, "SEGMENTED_FROM", 0)
    embedder = Small()
    strategy = build(PATIENT, embedder=embedder)
    tools = a_catalog(60)
    await strategy.update(tools)
    before = strategy._state.words
    embedder.documents.clear()
    read = counting(monkeypatch, "_read")

    tools[40:45] = [replace(old, description="a zeppelin", digest="2") for old in tools[40:45]]
    await strategy.update(tools)

    state = strategy._state.words
    assert before.index is not None
    assert state.index is not None
    assert state.index.segments[0] is before.index.segments[0]
    assert state.index.segments[1].lengths.shape[1] == 5
    assert len(embedder.documents) == 5 * 3 + 1, "the first sentence is the same of all five"
    assert len(read) == 2, "the tools that went, for how rare their words are, and the new ones"
    found = await strategy.search(SearchRequest(queries=("zeppelin",)))
    assert {hit.key for hit in found.hits} == {each.key for each in tools[40:45]}
    await strategy.aclose()


async def test_many_changes_are_put_together_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lexical, "SEGMENTED_FROM", 0)
    strategy = build(PATIENT, embedder=Small())
    tools = a_catalog(20)
    await strategy.update(tools)
    segments: list[int] = []

    for at in range(0, 100, 5):
        tools[at : at + 5] = [replace(old, digest=f"{at}") for old in tools[at : at + 5]]
        await strategy.update(tools)
        assert strategy._state.words.index is not None
        segments.append(len(strategy._state.words.index.segments))

    assert set(segments) == {1, 2}
    assert strategy._state.words.size <= 110
    await strategy.aclose()


async def searched(
    tools: Sequence[SearchableTool], changes: Sequence[Sequence[SearchableTool]], query: str
) -> tuple[HybridSearch, list[tuple[str, float]]]:
    strategy = build(PATIENT, embedder=Small())
    for each in (tools, *changes):
        await strategy.update(each)
        await strategy.ready()
    answer = await strategy.search(SearchRequest(queries=(query,), limit=10))
    return strategy, [(hit.key, hit.relevance) for hit in answer.hits]


async def test_a_first_look_finds_what_a_look_at_all_finds(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """All tools are among the first 2,000 here, so nothing may be different but rounding."""
    tools = a_catalog(40)
    last = [*tools[:100], *tools[120:], tool(7, "read the mail of a zeppelin", "late")]
    whole, exact = await searched(tools, [last], "read mail about case17. List the file delta")
    request.getfixturevalue("always_first_look")

    quick, found = await searched(tools, [last], "read mail about case17. List the file delta")

    assert whole._state.vectors is not None
    assert whole._state.vectors.heads is None
    assert quick._state.vectors is not None
    assert quick._state.vectors.heads is not None
    assert quick.keys == whole.keys
    assert [key for key, _ in found[:5]] == [key for key, _ in exact[:5]]
    assert [value for _, value in found] == pytest.approx([v for _, v in exact], abs=0.02)
    await whole.aclose()
    await quick.aclose()


@pytest.mark.usefixtures("always_first_look")
async def test_a_mask_keeps_its_order_when_places_are_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mask is in the order of the keys, whatever was changed in the middle."""
    strategy = build(PATIENT, embedder=Small())
    tools = a_catalog(40)
    await strategy.update(tools)
    tools[10:12] = [tool(1, "zeppelin", "new"), tool(2, "zeppelin", "new")]
    del tools[50:60]
    await strategy.update(tools)
    await strategy.ready()

    assert strategy._state.words.slots is not None
    assert strategy.keys == tuple(each.key for each in tools)
    for hidden in ("new:tool_1", "new:tool_2", tools[70].key):
        mask = np.array([key != hidden for key in strategy.keys])
        request = SearchRequest(queries=("zeppelin", hidden), mask=mask, limit=10)
        answer = await strategy.search(request)
        assert hidden not in {hit.key for hit in answer.hits}
        assert answer.searched == len(tools) - 1
    assert (await strategy.search(SearchRequest(queries=("new:tool_2",)))).hits[0].source == "exact"
    await strategy.aclose()


@pytest.mark.usefixtures("always_first_look")
async def test_means_that_follow_changes_are_those_of_all_tools(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of heads and of servers: a change adds and takes away its own part."""
    monkeypatch.setattr(server_scores, "_RENEWED_MOST", 0.3)
    strategy = build(PATIENT, embedder=Small())
    tools = a_catalog(30)
    renewed: set[int] = set()
    for change in range(14):
        await strategy.update(tools)
        await strategy.ready()
        state = strategy._state
        assert state.vectors is not None
        assert state.servers is not None
        assert state.usual is not None
        whole = first_stage.state_of(state.words, state.vectors)
        assert whole.servers is not None
        assert whole.usual is not None
        numbers = np.arange(len(state.words.server_names), dtype=np.int32)
        assert np.allclose(
            state.servers.vectors_of(numbers), whole.servers.vectors_of(numbers), atol=1e-5
        )
        query = np.asarray(whole.servers.usual, np.float32)
        assert np.allclose(state.servers.cosines(query), whole.servers.cosines(query), atol=1e-5)
        assert np.allclose(state.servers.usual, whole.servers.usual, atol=1e-5)
        assert np.allclose(state.usual.head, whole.usual.head, atol=1e-5)
        renewed.add(len(state.servers.renewed))
        tools[change * 5 : change * 5 + 3] = [tool(change, "new mail", f"fresh{change}")]
    assert len(renewed) > 2, "some stand beside the others, until all are put together"
    await strategy.aclose()
