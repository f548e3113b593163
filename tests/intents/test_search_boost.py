"""What the intent of a request does to the hits of a search."""

from hypothesis import given
from hypothesis import strategies as st

from toolgate.intents.service import IntentBoost
from toolgate.search import Hit, SearchAnswer

SHARES = st.floats(0, 1).map(lambda share: round(share, 4))


def answer_of(*hits: Hit, **more: object) -> SearchAnswer:
    ranked = sorted(hits, key=lambda hit: -hit.relevance)
    return SearchAnswer(hits=tuple(ranked), **more)  # pyright: ignore[reportArgumentType]


def boost(*keys: str, weight: float = 0.6, from_query: bool = True) -> IntentBoost:
    return IntentBoost(intent="NOTES", weight=weight, from_query=from_query, keys=keys)


def hit(key: str, relevance: float, literal: float, **fields: object) -> Hit:
    return Hit(key=key, relevance=relevance, explanation="", literal=literal, fields=fields)


def test_a_tool_that_the_words_name_better_stays_first() -> None:
    """A pack must not hide the tool that a request names in so many words."""
    found = answer_of(hit("diary:append", 0.55, 1.0), hit("ide:write", 0.4, 0.3))

    raised = boost("ide:write").apply_to(found, may_add=lambda key: True)

    assert [tool.key for tool in raised.hits] == ["diary:append", "ide:write"]
    assert 0.4 < raised.hits[1].relevance < 0.55


def test_a_tool_of_the_intent_comes_before_one_that_only_means_the_same() -> None:
    found = answer_of(hit("diary:append", 0.55, 0.2), hit("ide:write", 0.4, 0.3))

    raised = boost("ide:write").apply_to(found, may_add=lambda key: True)

    assert [tool.key for tool in raised.hits] == ["ide:write", "diary:append"]


def test_a_weak_match_does_not_hold_a_tool_back_and_the_answer_fits() -> None:
    found = answer_of(
        hit("diary:append", 0.1, 0.5, weak=True),
        hit("ide:write", 0.05, 0.0, weak=True),
        fit="none",
        notices=("Nothing fits well.",),
    )

    raised = boost("ide:write").apply_to(found, may_add=lambda key: True)

    assert raised.hits[0].key == "ide:write"
    assert (raised.fit, raised.notices) == ("good", ())


@given(
    st.lists(st.tuples(SHARES, SHARES), min_size=1, max_size=8),
    st.sets(st.integers(0, 7)),
    st.floats(0, 1),
    st.booleans(),
)
def test_no_intent_changes_the_order_of_better_literal_matches(
    tools: list[tuple[float, float]], of_intent: set[int], weight: float, from_query: bool
) -> None:
    found = answer_of(*[hit(f"s:{at}", *shares) for at, shares in enumerate(tools)])
    keys = tuple(f"s:{at}" for at in sorted(of_intent))

    raised = boost(*keys, weight=weight, from_query=from_query).apply_to(
        found, may_add=lambda key: False
    )

    before = {tool.key: tool for tool in found.hits}
    rank = {tool.key: at for at, tool in enumerate(raised.hits)}
    assert rank.keys() == before.keys()
    for tool in raised.hits:
        assert tool.relevance >= before[tool.key].relevance
    for key in set(keys) & rank.keys():
        for other in before.keys() - set(keys):
            is_better = before[other].literal > before[key].literal
            if is_better and before[other].relevance > before[key].relevance + 0.001:
                assert rank[other] < rank[key]
