"""The arguments of the meta-tools: any JSON is either understood or answered with what fits."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgate.errors import ArgumentError
from toolgate.gateway.meta_tools import (
    DEFINITIONS,
    DiscoverRequest,
    read_describe,
    read_discover,
    read_execute,
    read_result_read,
)

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
NAMES = st.sampled_from(
    [
        "query",
        "context",
        "maxResults",
        "server",
        "threshold",
        "group",
        "toolKey",
        "toolKeys",
        "offset",
    ]
)
ARGUMENTS = JSON | st.dictionaries(NAMES, JSON)


@given(ARGUMENTS)
def test_anything_is_understood_or_refused(arguments: Any) -> None:
    for read in (read_discover, read_describe, read_execute, read_result_read):
        with suppress(ArgumentError):
            read(arguments)


def test_the_least_and_the_most_of_a_discovery() -> None:
    assert read_discover({"query": "x"}) == DiscoverRequest(queries=("x",))
    assert read_discover(
        {
            "query": ["x", "y"],
            "context": "c",
            "maxResults": 3,
            "server": ["a", "b"],
            "threshold": 0.5,
            "group": "g",
        }
    ) == DiscoverRequest(
        queries=("x", "y"),
        context="c",
        max_results=3,
        servers=("a", "b"),
        threshold=0.5,
        group="g",
    )


@pytest.mark.parametrize("value", [0, 51, -1, 1.5, "3", True, [1]])
def test_a_number_of_results_that_cannot_be_is_named(value: Any) -> None:
    with pytest.raises(ArgumentError, match=r"'maxResults' does not fit.*1 to 50"):
        read_discover({"query": "x", "maxResults": value})


@pytest.mark.parametrize("name", ["query", "server"])
def test_an_empty_array_is_told_what_is_missing(name: str) -> None:
    with pytest.raises(ArgumentError, match=r"\[\] came.*a list of strings, one or more"):
        read_discover({"query": "x", name: []})


def test_an_unknown_argument_is_named() -> None:
    """A misspelt filter must not be ignored in silence."""
    with pytest.raises(ArgumentError, match="no argument 'servers'"):
        read_discover({"query": "x", "servers": "a"})


def test_definitions_are_small() -> None:
    """Every conversation pays for them; for those of rules and programs where there are any."""
    sizes = {name: len(repr(one)) / 4 for name, one in DEFINITIONS.items()}
    rules = sizes.pop("processPrompt") + sizes.pop("getKnowledge")

    assert sizes.pop("tool_program") < 200
    assert sizes.pop("tool_read") < 125
    assert sum(sizes.values()) < 600
    assert rules < 400
