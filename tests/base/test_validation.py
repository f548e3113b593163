"""Checks of input: options within their ranges, JSON objects that fit a model."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from toolgate.base.validation import Input, check_ranges, check_url, parse
from toolgate.errors import ArgumentError, OptionError


@dataclass(frozen=True, kw_only=True)
class Sizes:
    width: float | None = 1.0
    count: int = 1


@pytest.mark.parametrize("sizes", [Sizes(), Sizes(width=0), Sizes(width=2), Sizes(width=None)])
def test_both_ends_of_a_range_and_a_default_are_within_it(sizes: Sizes) -> None:
    check_ranges(sizes, {"width": (0, 2), "count": (1, 5_000)})


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        (Sizes(width=2.5), "Option 'width' is 2.5. Allowed: 0 to 2."),
        (Sizes(width=float("nan")), "Option 'width' is nan. Allowed: 0 to 2."),
        (Sizes(count=0), "Option 'count' is 0. Allowed: 1 to 5,000."),
    ],
    ids=["above", "no number", "below"],
)
def test_what_is_outside_is_named_with_what_is_allowed(sizes: Sizes, said: str) -> None:
    with pytest.raises(OptionError) as refused:
        check_ranges(sizes, {"width": (0, 2), "count": (1, 5_000)})

    assert str(refused.value) == said


@pytest.mark.parametrize("url", ["", "ftp://x", "example.org"])
def test_an_address_that_is_none_of_the_web_is_refused(url: str) -> None:
    with pytest.raises(OptionError) as refused:
        check_url(url)

    assert refused.value.option == "url"


class Step(Input):
    kind: Literal["call", "wait"]
    text: str = ""


class Plan(Input):
    name: str
    steps: list[Step] = Field([])
    limit: int = Field(5, ge=1, le=50)
    days: float = Field(1.0, gt=0, le=365)
    words: str | Annotated[list[str], Field(min_length=1)] = ""
    headers: dict[str, str] = Field({})
    is_open: bool = False


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "Member 'name' is missing. It is a string."),
        ({"name": None}, "Member 'name' is missing. It is a string."),
        ({"name": 5}, "Member 'name' must be a string."),
        ({"name": "x", "limit": 0}, "Member 'limit' must be a whole number from 1 to 50, not 0."),
        ({"name": "x", "limit": True}, "a whole number from 1 to 50, not True."),
        ({"name": "x", "limit": "secret"}, "must be a whole number from 1 to 50."),
        ({"name": "x", "days": 0}, "Member 'days' must be a number above 0, up to 365, not 0."),
        ({"name": "x", "is_open": 1}, "Member 'is_open' must be true or false, not 1."),
        ({"name": "x", "words": []}, "must be a string, or a list of strings, one or more."),
        ({"name": "x", "words": ["a", 1]}, "must be a string, or a list of strings, one or more."),
        ({"name": "x", "headers": {"a": 1}}, "Member 'headers' must be an object of strings."),
        ({"name": "x", "steps": [1]}, "Member 'steps[0]' must be an object."),
        ({"name": "x", "steps": [{"kind": "run"}]}, "'steps[0].kind' must be call or wait, not"),
        ({"name": "x", "steps": [{"kind": "call", "at": 1}]}, "Allowed: kind, text."),
        (
            {"limit": 0, "colour": 1},
            "Unknown member 'colour'. Allowed: days, headers, is_open, limit, name, steps, words.",
        ),
        ([], "must be an object."),
    ],
)
def test_input_that_does_not_fit_is_told_what_does(values: object, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse(Plan, values)
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
MEMBERS = st.sampled_from([*Plan.model_fields, "kind", "text"])


@given(JSON | st.dictionaries(MEMBERS, JSON | st.lists(st.dictionaries(MEMBERS, JSON))))
def test_any_json_is_read_or_refused(values: object) -> None:
    with suppress(ArgumentError):
        assert parse(Plan, values).name


def test_null_is_absence_and_members_are_those_that_came() -> None:
    plan = parse(Plan, {"name": "x", "limit": None, "days": 3})
    assert plan.members() == {"name": "x", "days": 3.0}
    assert plan.limit == 5
