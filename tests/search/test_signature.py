"""The parameters of a tool in one line."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolgate.search import shape, signature

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4)
    ),
    max_leaves=30,
)
keywords = st.sampled_from(
    [
        *("type", "properties", "required", "items", "anyOf", "oneOf", "allOf", "enum", "const"),
        *("$ref", "additionalProperties", "prefixItems", "$defs", "format"),
    ]
)
words = st.sampled_from(
    ["string", "object", "array", "integer", "#", "#/$defs/a", "#/properties/a"]
)
schemas = st.recursive(
    json_values | words,
    lambda inner: (
        st.dictionaries(keywords | st.sampled_from("ab"), inner, max_size=5)
        | st.lists(inner, max_size=4)
    ),
    max_leaves=20,
)


def object_of(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


STRING = {"type": "string"}
INTEGER = {"type": "integer"}


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        (
            object_of(
                "owner",
                "repo",
                "title",
                body=STRING,
                owner=STRING,
                repo=STRING,
                title=STRING,
                labels={"type": "array", "items": STRING},
                state={"type": "string", "enum": ["open", "closed"]},
            ),
            '(owner, repo, title, body?, labels?: string[], state?: "open"|"closed")',
        ),
        (object_of(), "()"),
        ({}, "()"),
        (True, "()"),
        (None, "()"),
        (
            object_of(n=INTEGER, x={"type": "number"}, y={"type": "boolean"}),
            "(n?: int, x?: number, y?: bool)",
        ),
        (object_of(a={"type": ["string", "null"]}), "(a?)"),
        (object_of(a={"anyOf": [INTEGER, STRING, {"type": "null"}]}), "(a?: int|string)"),
        (
            object_of(a={"type": "array", "items": {"anyOf": [INTEGER, STRING]}}),
            "(a?: (int|string)[])",
        ),
        (object_of("at", at=object_of("x", x=INTEGER, y=INTEGER)), "(at: {x: int, y?: int})"),
        (object_of(many={"type": "array", "items": object_of("id", id=STRING)}), "(many?: {id}[])"),
        (object_of(map={"type": "object", "additionalProperties": INTEGER}), "(map?: {*: int})"),
        (object_of(any={}), "(any?: any)"),
        (object_of(day={"type": "string", "format": "date"}), "(day?: date)"),
        (object_of(kind={"const": "x"}), '(kind?: "x")'),
        (
            object_of(pair={"prefixItems": [INTEGER, STRING]}, z={"type": "array"}),
            "(pair?: [int, string], z?: any[])",
        ),
        (
            {"$defs": {"p": object_of("x", x=INTEGER)}, **object_of(p={"$ref": "#/$defs/p"})},
            "(p?: {x: int})",
        ),
        (
            {
                "$defs": {"t": object_of(next={"$ref": "#/$defs/t"})},
                **object_of(t={"$ref": "#/$defs/t"}),
            },
            "(t?: {next?: t})",
        ),
        ({"allOf": [object_of("a", a=STRING), object_of(b=INTEGER)]}, "(a, b?: int)"),
        (object_of("we ird", **{"we ird": STRING}), '("we ird")'),
        (object_of(x={"$ref": "https://example.org/other.json"}), "(x?: any)"),
    ],
    ids=str,
)
def test_a_schema_is_one_line(schema: Any, shown: str) -> None:
    assert signature("", schema) == shown


def test_deeper_objects_are_only_hinted_at() -> None:
    inner: Any = STRING
    for name in "fedcba":
        inner = object_of(name, **{name: inner})

    assert signature("t", inner) == "t(a: {b: {c: {…}}})"


def test_what_does_not_fit_is_counted() -> None:
    many = object_of("name", **{f"option_{n}": INTEGER for n in range(100)}, name=STRING)

    line = signature("t", many, max_chars=100)

    assert line.startswith("t(name, option_0?: int, ")
    assert line.endswith("more)")
    assert len(line) <= 130


def test_long_lists_of_values_are_counted() -> None:
    line = signature("t", object_of(code={"enum": [f"value_{n}" for n in range(200)]}))

    assert line.endswith("more)")
    assert len(line) < 150


@settings(max_examples=60, deadline=None)
@given(schema=schemas, most=st.integers(0, 400))
def test_any_json_value_gives_a_line(schema: Any, most: int) -> None:
    """Servers send what they like as a schema: wrong types, cycles, nothing."""
    line = signature("t", schema, max_chars=most)

    assert line.startswith("t(")
    assert line.endswith(")")
    assert len(line) <= most + 40
    assert len(shape(schema)) <= 160


def test_schemas_made_to_explode_end_soon() -> None:
    deep: Any = STRING
    for _ in range(5_000):
        deep = {"type": "array", "items": deep}
    double: dict[str, Any] = {"d0": INTEGER}
    for n in range(1, 60):
        double[f"d{n}"] = {"allOf": [{"$ref": f"#/$defs/d{n - 1}"}] * 9}
    wide = object_of(*(f"p{n}" for n in range(50_000)), **{f"p{n}": STRING for n in range(50_000)})

    assert signature("t", object_of(a=deep)).startswith("t(a?: ")
    assert (
        signature("t", {"$defs": double, **object_of(a={"$ref": "#/$defs/d59"})}) == "t(a?: object)"
    )
    assert len(signature("t", wide)) < 450
    assert signature("t", object_of(a={"const": 10**5000})) == "t(a?: int)"
