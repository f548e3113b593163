"""Validates input from outside, with uniform error messages.

JSON objects are described by models based on `Input`. Messages take the allowed values from
their JSON Schema, so they agree with published schemas. The options of plugins are dataclasses
whose ranges `check_ranges` checks; `plugins` adds their position in the settings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import DictSchema, WithDefaultSchema

from toolgate.errors import ArgumentError, OptionError
from toolgate.types import Json

InputT = TypeVar("InputT", bound="Input")


class Input(BaseModel):
    """Base of models for JSON objects: strict types, no unknown members, null means absent."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _without_null(cls, values: object) -> object:
        """Drop members that are null: several client libraries send absent members that way."""
        if not isinstance(values, Mapping):
            return values
        members = cast("Mapping[str, object]", values)
        return {name: value for name, value in members.items() if value is not None}

    def members(self) -> Json:
        """The members that were sent, by field name."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class SchemaGenerator(GenerateJsonSchema):
    """Generates JSON Schemas without titles and defaults, which repeat what readers know."""

    def field_title_should_be_set(self, schema: object) -> bool:
        """False for every field."""
        del schema
        return False

    def default_schema(self, schema: WithDefaultSchema) -> JsonSchemaValue:
        """The schema of the value, without the default."""
        return self.generate_inner(schema["schema"])

    def dict_schema(self, schema: DictSchema) -> JsonSchemaValue:
        """The schema of a map; values of any type are not mentioned."""
        generated = super().dict_schema(schema)
        return {name: part for name, part in generated.items() if part is not True}


@dataclass(frozen=True, kw_only=True)
class InputProblem:
    """The first problem of invalid input."""

    kind: Literal["missing", "unknown", "wrong"]
    """Whether a member is missing, unknown, or has an invalid value."""

    name: str
    """The member: `limit`, or `history[0].role` if nested."""

    allowed: str
    """What is allowed: `a whole number from 1 to 50`; for an unknown member, the existing names."""

    value: object
    """The invalid value; None if it is missing."""

    is_public: bool
    """Whether a message may repeat the value: a number, or a word where one of several is
    expected. Any other value may be a misplaced secret."""


def parse(
    model: type[InputT], values: object, *, subject: str = "Member", hint: str = ""
) -> InputT:
    """Validate input against a model.

    Args:
        model: The model.
        values: The input.
        subject: What messages call a member.
        hint: What messages suggest to do.

    Raises:
        ArgumentError: The input is invalid.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problem = problem_in(error, model)
    if problem.kind == "unknown":
        word = subject.lower()
        names = f"Allowed: {problem.allowed}." if problem.allowed else f"No {word} is allowed here."
        raise ArgumentError(f"Unknown {word} {problem.name!r:.60}.", allowed=names, hint=hint)
    if problem.kind == "missing":
        raise ArgumentError(
            f"{subject} {problem.name!r} is missing.",
            allowed=f"It is {problem.allowed}.",
            hint=hint,
        )
    came = f", not {problem.value!r:.60}" if problem.is_public else ""
    raise ArgumentError(f"{subject} {problem.name!r} must be {problem.allowed}{came}.", hint=hint)


def problem_in(error: ValidationError, model: type[BaseModel]) -> InputProblem:
    """The first error of pydantic; unknown members come first."""
    details = error.errors(include_url=False)
    detail = next((item for item in details if item["type"] == "extra_forbidden"), details[0])
    root = TypeAdapter(model).json_schema(schema_generator=SchemaGenerator)
    name, parent, schema = "", root, root
    for part in detail["loc"]:
        members: Json = _resolved(schema, root).get("properties", {})
        if isinstance(part, int) and "properties" in _resolved(schema.get("items", {}), root):
            name, schema = f"{name}[{part}]", schema["items"]
        elif part in members or detail["type"] == "extra_forbidden":
            parent, schema = schema, members.get(str(part), {})
            name = f"{name}.{part}".lstrip(".")
        else:
            break  # a key of a map, or one of several types
    value = detail["input"]
    if detail["type"] == "extra_forbidden":
        names = ", ".join(sorted(_resolved(parent, root)["properties"]))
        return InputProblem(kind="unknown", name=name, allowed=names, value=value, is_public=True)
    allowed = _described(schema, root)
    if detail["type"] == "missing":
        return InputProblem(kind="missing", name=name, allowed=allowed, value=None, is_public=True)
    return InputProblem(
        kind="wrong",
        name=name,
        allowed=allowed,
        value=value,
        is_public=_is_public(value, schema, is_text=not model.model_config.get("strict")),
    )


def input_schema(model: type[Input]) -> Json:
    """The JSON Schema of a model, as published for tools."""
    schema = model.model_json_schema(schema_generator=SchemaGenerator)
    return {
        name: part
        for name, part in schema.items()
        if name not in {"additionalProperties", "description", "title"}
    }


def _is_public(value: object, schema: Json, *, is_text: bool) -> bool:
    is_choice = bool(_choices(schema))
    options = (schema, *schema.get("anyOf", ()))
    is_number = any(_kind(option) in {"boolean", "integer", "number"} for option in options)
    if isinstance(value, str):
        return is_choice or (is_number and is_text)
    return isinstance(value, bool | int | float) and (is_choice or is_number)


def _resolved(schema: Json, root: Json) -> Json:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    return root["$defs"][name] if name else schema


_KINDS = {
    "string": ("a string", "strings"),
    "integer": ("a whole number", "whole numbers"),
    "number": ("a number", "numbers"),
    "boolean": ("true or false", "booleans"),
    "object": ("an object", "objects"),
    "array": ("a list", "lists"),
}
"""Names of JSON Schema types in messages: singular and plural."""


def _described(schema: Json, root: Json) -> str:
    """Describe in a few words what a schema allows."""
    schema = _resolved(schema, root)
    if choices := _choices(schema):
        return _either(choices)
    if options := schema.get("anyOf"):
        described = [_described(option, root) for option in options if option != {"type": "null"}]
        return ", or ".join(described)
    kind = _kind(schema)
    inner = schema.get("items" if kind == "array" else "additionalProperties")
    several = _several(_resolved(inner, root)) if inner else ""
    return f"{_KINDS[kind][0]}{f' of {several}' if several else ''}{_limits(schema)}"


def _several(schema: Json) -> str:
    """Describe in the plural what a schema allows."""
    choices = _choices(schema)
    return _either(choices) if choices else _KINDS.get(_kind(schema), ("", ""))[1]


def _either(choices: Sequence[str]) -> str:
    *first, last = choices
    return f"{', '.join(first)} or {last}" if first else last


def _choices(schema: Json) -> list[str]:
    """The allowed words of a schema; empty if it does not restrict words."""
    options = [option for option in schema.get("anyOf", (schema,)) if option != {"type": "null"}]
    words = [
        option.get("enum", [option["const"]] if "const" in option else []) for option in options
    ]
    return [str(word) for choices in words for word in choices] if all(words) else []


def _kind(schema: Json) -> str:
    kind: Any = schema.get("type", "")
    return kind if isinstance(kind, str) else str(kind[0])


def _limits(schema: Json) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if "exclusiveMinimum" in schema:
        return f" above {_plain(schema['exclusiveMinimum'])}, up to {_plain(schema['maximum'])}"
    if low is not None and high is not None:
        return f" from {_plain(low)} to {_plain(high)}"
    if low is not None:
        return f" from {_plain(low)} on"
    if "maxItems" in schema:
        return f", {schema.get('minItems', 0)} to {schema['maxItems']} of them"
    if schema.get("minLength"):
        return " that is not empty"
    return ", one or more" if schema.get("minItems") == 1 else ""


def check_ranges(options: object, ranges: Mapping[str, tuple[float, float]]) -> None:
    """Check that numbers are within their ranges, bounds included.

    Args:
        options: An object with these attributes; None stands for a default.
        ranges: Smallest and largest value by name.

    Raises:
        OptionError: A value is out of range or not a number.
    """
    for name, (low, high) in ranges.items():
        value = getattr(options, name)
        if value is not None and not low <= value <= high:
            raise unfit(name, value, f"{_plain(low)} to {_plain(high)}")


def check_url(url: str) -> None:
    """Check that the option `url` is an HTTP address.

    Raises:
        OptionError: It is not.
    """
    if not url.startswith(("http://", "https://")):
        raise unfit("url", url, "addresses with http:// or https://")


def unfit(option: str, value: object, allowed: str, *, hint: str = "") -> OptionError:
    """The error for an invalid option.

    Args:
        option: Its name in its table.
        value: The invalid value, which must not be a secret.
        allowed: What is allowed, without the word "allowed".
        hint: What to do; by default, the table to correct.
    """
    error = OptionError(
        f"Option {option!r} is {value!r}.", allowed=f"Allowed: {allowed}.", hint=hint
    )
    error.option = option
    error.problem = repr(value)
    return error


def _plain(number: float) -> str:
    # 15 digits, the precision of a double: with fewer, a million is 1e+06.
    return f"{number:,}" if isinstance(number, int) else f"{number:,.15g}"
