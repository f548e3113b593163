"""Builds a form from a tool's input schema, and arguments from the form.

A schema can be anything that a server sent. Arguments that do not fit a field are entered as
JSON, and only wrong input raises an error.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from toolgate.errors import ArgumentError
from toolgate.types import Json, json_array, json_object

Kind: TypeAlias = Literal["text", "long", "number", "switch", "choice", "lines", "json"]
"""How people enter a value."""

_MOST_FIELDS = 60
"""Fields of a form (chosen: arguments of larger schemas are entered as JSON)."""
_LONG_WORDS = ("content", "body", "text", "query", "sql", "code", "prompt", "message")


@dataclass(frozen=True, kw_only=True)
class FormField:
    """An argument in the form."""

    name: str
    """Name in the schema."""

    field: str
    """Name of the field in the form."""

    kind: Kind
    """How people enter it."""

    type: str
    """Its type in words."""

    needed: bool
    """Whether the schema requires it."""

    description: str
    """Description in the schema."""

    choices: tuple[str, ...] = ()
    """The possible values as JSON if `kind` is `choice`."""

    default: str = ""
    """Default in the schema."""


def fields_of(schema: Json) -> list[FormField]:
    """Return the fields for the top level of a schema, required ones first."""
    properties = json_object(schema.get("properties"))
    needed = {str(name) for name in json_array(schema.get("required"))}
    ordered = sorted(properties.items(), key=lambda item: item[0] not in needed)
    return [
        _field(number, name, json_object(schema_of_field), needed=name in needed)
        for number, (name, schema_of_field) in enumerate(ordered[:_MOST_FIELDS])
    ]


def arguments_of(fields: Sequence[FormField], value_of: Callable[[str], str]) -> Json:
    """Return the submitted arguments, without empty ones.

    Raises:
        ArgumentError: A value does not have the right type.
    """
    raw = value_of("raw").strip()
    if raw:
        return _read_object(raw)
    arguments: Json = {}
    for field in fields:
        text = value_of(field.field)
        if text == "" or (field.kind != "text" and field.kind != "long" and not text.strip()):
            continue
        arguments[field.name] = _value(field, text)
    return arguments


def _field(number: int, name: str, schema: Json, *, needed: bool) -> FormField:
    kind, word = _kind(name, schema)
    default = schema.get("default")
    return FormField(
        name=name,
        field=f"a{number}",
        kind=kind,
        type=word,
        needed=needed,
        description=str(schema.get("description") or ""),
        choices=tuple(json.dumps(choice, ensure_ascii=False) for choice in _choices(schema)),
        default="" if default is None else json.dumps(default, ensure_ascii=False)[:80],
    )


def _choices(schema: Json) -> list[Any]:
    if "const" in schema:
        return [schema["const"]]
    return json_array(schema.get("enum"))[:200]


def _kind(name: str, schema: Json) -> tuple[Kind, str]:
    if _choices(schema):
        return "choice", "one of these"
    match _type_of(schema):
        case "string":
            is_long = any(word in name.lower() for word in _LONG_WORDS)
            return ("long" if is_long else "text"), str(schema.get("format") or "string")
        case "integer":
            return "number", "integer"
        case "number":
            return "number", "number"
        case "boolean":
            return "switch", "boolean"
        case "array" if _type_of(json_object(schema.get("items"))) == "string":
            return "lines", "list of strings, one per line"
        case "array":
            return "json", "list, as JSON"
        case "object":
            return "json", "object, as JSON"
        case _:
            return "json", "any JSON"


def _type_of(schema: Json) -> str:
    """Return the type of a schema, ignoring null; empty if there are several or none."""
    declared = schema.get("type")
    if isinstance(declared, str):
        return declared
    types = [str(name) for name in json_array(declared) if name != "null"]
    if len(types) == 1:
        return types[0]
    either = [json_object(option) for option in json_array(schema.get("anyOf"))]
    kinds = {_type_of(option) for option in either if option.get("type") != "null"}
    return kinds.pop() if len(kinds) == 1 else ""


def _value(field: FormField, text: str) -> object:
    match field.kind:
        case "text" | "long":
            return text
        case "lines":
            value = _parsed(text)
            if isinstance(value, list):
                items = cast("list[object]", value)
                if all(isinstance(item, str) for item in items):
                    return items
            return [line for line in text.split("\n") if line.strip()]
        case "number":
            return _read(field, text.strip(), (int, float))
        case "switch":
            return _read(field, text.strip(), (bool,))
        case "choice":
            return _chosen(field, text)
        case "json":
            return _read(field, text, (object,))


def _chosen(field: FormField, text: str) -> object:
    """Return a choice: the text is its JSON, or a string without its quotes."""
    if text in field.choices:
        return json.loads(text)
    value = _parsed(text)
    for chosen in (value, text):
        if chosen is not ... and json.dumps(chosen, ensure_ascii=False) in field.choices:
            return chosen
    raise ArgumentError(
        f"{field.name[:60]} cannot be {text[:60]!r}.",
        allowed=f"Allowed: {', '.join(field.choices)[:200]}.",
        hint="Correct it; the other fields are unchanged.",
    )


def _read(field: FormField, text: str, kinds: tuple[type, ...]) -> object:
    value = _parsed(text)
    is_switch_for_number = isinstance(value, bool) and int in kinds  # to Python, True is an int
    if value is ... or is_switch_for_number or not isinstance(value, kinds):
        raise ArgumentError(
            f"{field.name[:60]} must be of type {field.type}, but is {text[:60]!r}.",
            hint='Strings in JSON are quoted: "like this".'
            if field.kind == "json"
            else "Correct it; the other fields are unchanged.",
        )
    return value


def _parsed(text: str) -> object:
    """The value of a JSON text; the ellipsis if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return ...


def _read_object(raw: str) -> Json:
    try:
        value = cast("object", json.loads(raw))
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"The arguments are not valid JSON: {error}.") from error
    arguments = json_object(value)
    if value != arguments:
        raise ArgumentError("The arguments are not a JSON object.", allowed="It must start with {.")
    return arguments
