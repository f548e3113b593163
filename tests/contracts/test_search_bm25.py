"""The search `bm25` keeps the contract, and what it promises beyond it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolgate.errors import OptionError
from toolgate.search import SearchableTool, SearchRequest, SearchStrategy
from toolgate.search.strategies.bm25 import Options, build
from toolgate.testing.contracts.search import SearchContract, sample_tools


class TestBm25(SearchContract):
    """All duties of a search strategy."""

    @pytest.fixture
    def make_strategy(self) -> Callable[[], SearchStrategy]:
        return lambda: build(Options())


async def explain(query: str, key: str) -> str:
    strategy = build(Options())
    await strategy.update(sample_tools())
    answer = await strategy.search(SearchRequest(queries=(query,), limit=100))
    return next(hit.explanation for hit in answer.hits if hit.key == key)


@pytest.mark.parametrize(
    ("query", "key", "said"),
    [
        ("make an issue", "github:create_issue", 'matches name "issue"'),
        (
            "open issues in a repo",
            "github:create_issue",
            'matches name "issue", description "open", parameter "repo"',
        ),
        ("github merge", "github:merge_pull_request", 'matches name "merge", server "github"'),
        ("create_issue", "github:create_issue", "has exactly this name"),
        ('"new issue" please', "gitlab:create_issue", "has the quoted text, matches name"),
    ],
)
async def test_a_hit_says_which_words_matched_where(query: str, key: str, said: str) -> None:
    """Each word is named once, by the weightiest field that has it."""
    assert (await explain(query, key)).startswith(said)


async def test_the_name_weighs_more_than_the_description() -> None:
    """Measured: weighting the name up is worth 0.02 R@5 and more."""
    strategy = build(Options())
    await strategy.update(
        [
            SearchableTool(key="a:x", server="a", name="x", description="About invoices."),
            SearchableTool(key="b:invoice", server="b", name="invoice", description="About x."),
        ]
    )

    answer = await strategy.search(SearchRequest(queries=("an invoice",)))

    assert [hit.key for hit in answer.hits] == ["b:invoice", "a:x"]


async def test_tools_with_a_quoted_string_come_before_better_words() -> None:
    strategy = build(Options())
    tools = [
        SearchableTool(
            key="a:rate_limit", server="a", name="rate_limit", description="Limit rate."
        ),
        SearchableTool(key="b:other", server="b", name="other", description="Says rate limit now."),
        SearchableTool(key="c:limit", server="c", name="limit", description="The limit of a rate."),
    ]
    await strategy.update(tools)

    answer = await strategy.search(SearchRequest(queries=('find "says rate" limit',)))

    assert answer.hits[0].key == "b:other"
    assert answer.hits[0].relevance >= answer.hits[1].relevance

    answer = await strategy.search(SearchRequest(queries=('rate limit "now"',)))

    assert answer.hits[0].key == "b:other"


async def test_a_weak_match_of_a_short_request_is_said() -> None:
    """One common word of three is found: better said than left to a number."""
    strategy = build(Options())
    await strategy.update(sample_tools())

    weak = await strategy.search(SearchRequest(queries=("issue a passport zeppelin visa",)))
    good = await strategy.search(SearchRequest(queries=("weather forecast for Tokyo",)))

    assert weak.notices == ("Weak match: no tool here mentions 'passport', 'zeppelin', 'visa'.",)
    assert all(hit.fields["weak"] for hit in weak.hits)
    assert weak.hits
    assert good.notices == ()


async def test_a_weak_match_does_not_tell_what_hidden_tools_have() -> None:
    strategy = build(Options())
    request = SearchRequest(queries=("issue a passport zeppelin visa",))
    passport = SearchableTool(key="x:passport", server="x", name="passport")
    await strategy.update(sample_tools())
    without = await strategy.search(request)
    await strategy.update([*sample_tools(), passport])
    mask = np.array([key != passport.key for key in strategy.keys])

    hidden = await strategy.search(replace(request, mask=mask))

    assert all(word in hidden.notices[0] for word in ("passport", "zeppelin", "visa"))
    assert len(hidden.notices[0]) == len(without.notices[0])


async def test_priors_add_a_tool_that_no_word_matches() -> None:
    """An intent knows what its words do not say."""
    strategy = build(Options())
    await strategy.update(sample_tools())

    request = SearchRequest(queries=("weather",), priors={"mail:sendMail": 0.9})
    answer = await strategy.search(request)

    assert answer.hits[0].key == "mail:sendMail"


async def test_words_of_tools_that_are_gone_do_not_pile_up() -> None:
    """A server that invents new names at every start must not fill the memory."""
    strategy = build(Options())
    for round_ in range(5):
        tools = [
            SearchableTool(key=f"s:{n}", server="s", name=f"n{round_}x{n}", description="Same.")
            for n in range(6_000)
        ]
        await strategy.update(tools[:1] if round_ in {1, 3} else tools)

    found = await strategy.search(SearchRequest(queries=("n4x0",)))

    assert [hit.key for hit in found.hits] == ["s:0"]
    assert len(strategy._state.vocabulary) < 20_000


async def test_an_update_without_changes_keeps_the_index() -> None:
    """Refreshes come every few minutes and mostly bring the same."""
    strategy = build(Options())
    await strategy.update(sample_tools())
    before = strategy._state

    await strategy.update(sample_tools())
    same = strategy._state is before
    await strategy.update([*sample_tools()[:-1], replace(sample_tools()[-1], digest="2")])

    assert same
    assert strategy._state.vocabulary is before.vocabulary


tools_of_any_kind = st.lists(
    st.builds(
        SearchableTool,
        key=st.text(max_size=20),
        server=st.text(max_size=8),
        name=st.text(max_size=12),
        title=st.text(max_size=12),
        description=st.text(max_size=60),
        parameters=st.lists(st.tuples(st.text(max_size=8), st.text(max_size=20)), max_size=3).map(
            tuple
        ),
    ),
    max_size=8,
    unique_by=lambda tool: tool.key,
)


@settings(max_examples=60, deadline=None)
@given(
    tools=tools_of_any_kind,
    queries=st.lists(st.text(max_size=80), min_size=1, max_size=4),
    limit=st.integers(1, 10),
)
async def test_any_request_over_any_tools_is_answered(
    tools: list[SearchableTool], queries: list[str], limit: int
) -> None:
    strategy = build(Options())
    await strategy.update(tools)

    answer = await strategy.search(SearchRequest(queries=tuple(queries), limit=limit))

    assert len(answer.hits) <= limit
    assert answer.hits or answer.notices
    assert {hit.key for hit in answer.hits} <= {tool.key for tool in tools}
    assert all(0 < hit.relevance <= 1 for hit in answer.hits)


@settings(max_examples=60, deadline=None)
@given(word=st.text(st.characters(categories=["Lo"]), min_size=2, max_size=12))
async def test_a_text_in_any_script_finds_itself(word: str) -> None:
    """A request in the words of the description is never answered with nothing."""
    strategy = build(Options())
    tool = SearchableTool(key="s:t", server="s", name="t", description=f"{word} {word[:1]}.")
    await strategy.update([*sample_tools(), tool])

    answer = await strategy.search(SearchRequest(queries=(word,), limit=100))

    assert "s:t" in [hit.key for hit in answer.hits]


@pytest.mark.parametrize(
    "values", [{"k1": -1.0}, {"b": 1.1}, {"name_weight": -0.1}, {"context_weight": 101.0}], ids=str
)
def test_options_out_of_range_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(OptionError, match="Allowed: 0 to "):
        Options(**values)
