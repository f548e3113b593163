"""A call that does not fit is answered so that a model repairs it in one step."""

import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolgate.errors import ArgumentError
from toolgate.gateway.execution import check_arguments, without_nulls

SIGNATURE = "create_issue(owner, title, labels?: string[])"
ISSUE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "owner": {"type": "string"},
        "title": {"type": "string", "maxLength": 20},
        "labels": {"type": "array", "items": {"type": "string"}},
        "state": {"enum": ["open", "closed"]},
        "count": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "filter": {
            "type": "object",
            "properties": {"since": {"type": "string", "format": "date"}},
            "additionalProperties": False,
        },
        "api_token": {"type": "string"},
        "page": {"type": "integer", "minimum": 1},
        "target": {
            "oneOf": [
                {"type": "object", "required": ["url"]},
                {"type": "object", "required": ["path"]},
            ]
        },
    },
    "required": ["owner", "title"],
    "additionalProperties": False,
}
FITS = {"owner": "a", "title": "b"}


def refusal(arguments: object, schema: object = ISSUE, **further: Any) -> str:
    with pytest.raises(ArgumentError) as caught:
        check_arguments(schema, arguments, signature=SIGNATURE, **further)
    return str(caught.value)


def outcome(schema: object, arguments: object) -> str:
    """What is said, nothing when they fit."""
    try:
        check_arguments(schema, arguments, signature=SIGNATURE)
    except ArgumentError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "arguments",
    [
        FITS,
        {**FITS, "labels": ["x"], "state": "open", "count": None, "page": 1},
        {**FITS, "filter": {"since": "2026-07-28"}, "target": {"url": "x"}},
    ],
)
def test_arguments_that_fit_pass(arguments: dict[str, Any]) -> None:
    before = repr(arguments)

    check_arguments(ISSUE, arguments, signature=SIGNATURE)

    assert repr(arguments) == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"owner": "a"}, "'title' is missing."),
        ({**FITS, "owner": 1}, "'owner' is 1 (integer); allowed: string."),
        ({**FITS, "page": "1"}, "'page' is \"1\" (string); allowed: integer."),
        ({**FITS, "labels": ["x", 5]}, "'labels[1]' is 5 (integer); allowed: string."),
        ({**FITS, "state": "opened"}, '\'state\' is "opened" (string); allowed: "open", "closed".'),
        ({**FITS, "count": "x"}, "'count' is \"x\" (string); allowed: integer or null."),
        ({**FITS, "page": 0}, "'page' is 0 (integer): it is less than the minimum of 1."),
        (
            {"owner": "a", "titel": "b", "title": "c"},
            "'titel' is not a parameter; did you mean 'title'?",
        ),
        ({**FITS, "zzz": 1}, "'zzz' is not a parameter; allowed: owner, title, labels, state,"),
        (
            {**FITS, "filter": {"sinse": "2026-01-01"}},
            "'filter.sinse' is not a parameter; did you mean 'filter.since'?",
        ),
        ({**FITS, "filter": []}, "'filter' is an array; allowed: object."),
        (
            {**FITS, "target": {}},
            "'target' is an object; allowed: an object with url or an object with path.",
        ),
        (
            {**FITS, "title": "t" * 300},
            "'title' is a string of 300 characters: it is longer than 20",
        ),
        ({**FITS, "page": True}, "'page' is true; allowed: integer."),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_text_names_the_field_what_came_and_what_is_allowed(
    arguments: dict[str, Any], said: str
) -> None:
    text = refusal(arguments)

    assert text.startswith("The arguments do not fit. ")
    assert said in text
    assert text.endswith(f"Expected: {SIGNATURE}")


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [('{"owner": "a"}', "a string"), (None, "null"), ([], "an array"), (5, "an integer")],
)
def test_arguments_that_are_no_object_are_refused(arguments: object, kind: str) -> None:
    """Also a string that holds JSON: values are never changed."""
    assert refusal(arguments).startswith(f"The arguments are {kind}. They must be one JSON object")


def test_up_to_five_problems_are_named_and_the_rest_counted() -> None:
    schema = {"properties": {f"p{n}": {"type": "string"} for n in range(9)}}

    text = refusal({f"p{n}": n for n in range(9)}, schema)

    assert text.count("allowed: string") == 5
    assert "And 4 more." in text


def test_values_of_secrets_and_long_values_are_not_repeated() -> None:
    """The text goes into logs and into the context of a model."""
    text = refusal({**FITS, "api_token": 12345678, "labels": "x" * 500})

    assert "12345678" not in text
    assert "'api_token' is an integer; allowed: string." in text
    assert "'labels' is a string of 500 characters; allowed: array." in text


def test_a_text_is_bounded_and_visible_whatever_names_come() -> None:
    arguments = {f"\x1b[31m{n}" * 500: n for n in range(300)}

    text = refusal(arguments)

    assert len(text) < 3_000
    assert text.isprintable()


@pytest.mark.parametrize(
    ("dialect", "fits"),
    [
        ("http://json-schema.org/draft-07/schema#", {"pair": [1, "x"]}),
        ("https://json-schema.org/draft/2020-12/schema", {"pair": ["any", 2]}),
        (None, {"pair": ["any", 2]}),
        ("https://example.org/own-dialect", {"pair": ["any", 2]}),
    ],
)
def test_the_dialect_of_the_schema_is_kept(dialect: str | None, fits: dict[str, Any]) -> None:
    """`items` with a list means positions in draft 7; in 2020-12 `prefixItems` does."""
    seventh = {"items": [{"type": "integer"}, {"type": "string"}]}
    latest = {"prefixItems": [{"type": "string"}, {"type": "integer"}]}
    pair = seventh if dialect and "draft-07" in dialect else latest
    schema = {"properties": {"pair": pair}} | ({"$schema": dialect} if dialect else {})

    check_arguments(schema, fits)
    refusal({"pair": list(reversed(fits["pair"]))}, schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "objekt"},
        {"pattern": "("},
        {"$ref": "#/nowhere"},
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"properties": {"a": {"$ref": "file:///etc/passwd"}}},
        {"properties": []},
        {"required": "title"},
    ],
    ids=str,
)
def test_a_schema_that_cannot_be_used_is_said_once_and_passes(
    schema: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """The server checks its own arguments; and nothing is fetched for it."""
    with caplog.at_level(logging.WARNING, logger="toolgate.gateway.execution"):
        for _ in range(3):
            check_arguments({**schema, "title": "unique to this test"}, {"a": 1}, tool="s:t")

    assert [(record.message, vars(record)["tool"]) for record in caplog.records] == [
        ("input schema cannot be checked, its calls pass unchecked", "s:t")
    ]


@pytest.mark.parametrize("schema", [None, {}, True, [], "x"], ids=str)
def test_no_schema_fits_everything(schema: object) -> None:
    check_arguments(schema, {"a": 1})


def test_deep_arguments_are_refused_before_they_end_the_process() -> None:
    """jsonschema-rs 0.60 overflows the stack at some tens of thousands of levels."""
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    tree = {"$defs": {"t": {"additionalProperties": {"$ref": "#/$defs/t"}}}, "$ref": "#/$defs/t"}

    assert "deeper than 100 levels" in refusal(deep, tree)


def deep_schema() -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(5_000):
        schema = {"properties": {"a": schema}}
    return schema


def doubling_schema() -> dict[str, Any]:
    levels: dict[str, Any] = {"d0": {"type": "object"}}
    for n in range(1, 40):
        levels[f"d{n}"] = {"allOf": [{"$ref": f"#/$defs/d{n - 1}"}] * 2}
    return {"$defs": levels, "$ref": "#/$defs/d39"}


def branching_schema() -> dict[str, Any]:
    node = {"type": "array", "items": {"$ref": "#/$defs/n"}}
    several = [{**node, "contains": {"const": n}} for n in range(4)]
    children = {"type": "object", "properties": {"c": {"anyOf": several}}}
    return {"$defs": {"n": children}, "$ref": "#/$defs/n"}


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"c": [value]}
    return value


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        (deep_schema(), {"a": {}}),
        (doubling_schema(), {"a": 1}),
        (branching_schema(), nested(4)),
        (branching_schema(), nested(40)),
        ({"properties": {"a": {"pattern": "^(a+)+$"}}}, {"a": "a" * 50_000 + "b"}),
        ({"properties": {"a": {"pattern": r"^(?=(a+)+$)(a|aa)+\b$"}}}, {"a": "a" * 40 + "b"}),
        ({"properties": {"a": {"pattern": "((a{900}){900}){900}"}}}, {"a": "b"}),
        ({"properties": {"a": {"items": {"type": "string"}}}}, {"a": list(range(100_000))}),
        ({"properties": {"a": {"uniqueItems": True}}}, {"a": [{"n": n} for n in range(20_000)]}),
    ],
    ids=[
        "deep",
        "doubling",
        "branching",
        "branching deep",
        "regex",
        "look",
        "big",
        "errors",
        "unique",
    ],
)
def test_checking_takes_bounded_time(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    """A schema comes from a server, arguments from a model: neither may hold the gateway up.

    Unbounded, the branching case takes minutes and the doubling one years: the limit of the test
    run would end them.
    """
    assert len(outcome(schema, arguments)) < 3_000


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=5,
)
keywords = st.sampled_from(
    [
        "type",
        "properties",
        "required",
        "items",
        "anyOf",
        "enum",
        "$ref",
        "pattern",
        "$defs",
        "minimum",
    ]
)
schemas = st.recursive(
    json_values | st.sampled_from(["object", "string", "#", "#/$defs/a"]),
    lambda inner: st.dictionaries(keywords | st.sampled_from("ab"), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(schema=schemas, arguments=json_values)
def test_any_schema_and_arguments_pass_or_are_refused(schema: Any, arguments: Any) -> None:
    text = outcome(schema, arguments)

    assert not text or text.endswith(f"Expected: {SIGNATURE}")


def test_a_digest_names_the_schema_in_the_cache() -> None:
    check_arguments({"required": ["a"]}, {"a": 1}, digest="digest of this test")

    # The schema is not looked at again: the digest stands for it.
    refusal({"b": 1}, {"required": ["b"]}, digest="digest of this test")


def test_nulls_of_optional_arguments_are_absent() -> None:
    """Seen with crewai, which sends every absent optional argument as null."""
    sent = {"query": None, "context": None, "maxResults": 0, "server": ""}

    assert without_nulls(sent, required=("query",)) == {
        "query": None,
        "maxResults": 0,
        "server": "",
    }
