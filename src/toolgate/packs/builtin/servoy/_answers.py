"""Builds the results of tools: a sentence first, then details."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Annotated, Any, ParamSpec, TypeAlias, cast

from pydantic import BeforeValidator

from toolgate.packs.builtin.servoy._errors import ToolRefusedError
from toolgate.packs.builtin.servoy.files.notation import Fields, Items, Value

Answer: TypeAlias = dict[str, Any]
"""The complete result of a tool call."""

_P = ParamSpec("_P")


def _text(value: object) -> object:
    """Convert what models pass as text: null becomes empty, a number its digits."""
    if value is None:
        return ""
    return str(value) if type(value) in {int, float} else value


def _texts(value: object) -> object:
    if value is None or value == "":
        return []
    return [value] if isinstance(value, str) else value


def _properties(value: object) -> object:
    return {} if value is None else value


def _entries(value: object) -> object:
    if value is None:
        return []
    return [cast("object", value)] if isinstance(value, dict) else value


Text = Annotated[str, BeforeValidator(_text)]
"""A text; null counts as missing."""

Texts = Annotated[list[Text], BeforeValidator(_texts)]
"""Texts; a single text becomes a list."""

Columns = Annotated[str | list[str], BeforeValidator(_text)]
"""One or several names; null counts as missing."""

Keys = Annotated[list[dict[str, Any]], BeforeValidator(_entries)]
"""Objects; null counts as missing, and a single object becomes a list."""

Properties = Annotated[dict[str, Any], BeforeValidator(_properties)]
"""Settings by name; null counts as missing."""


def answer(
    text: str,
    *more: str,
    structured: Mapping[str, Any] | None = None,
    is_error: bool = False,
) -> Answer:
    """Create the result of a tool call.

    Args:
        text: The first sentence; programs compare it.
        more: Further texts; empty ones are left out.
        structured: The same for programs.
        is_error: Whether the tool did not do what was requested.
    """
    blocks = [{"type": "text", "text": block} for block in (text, *more) if block]
    result: Answer = {"content": blocks, "isError": is_error}
    if structured is not None:
        result["structuredContent"] = dict(structured)
    return result


def refusals_as_answers(function: Callable[_P, object]) -> Callable[_P, object]:
    """Wrap a function so that it returns refusals as results."""

    @wraps(function)
    def answered(*args: _P.args, **kwargs: _P.kwargs) -> object:
        try:
            return function(*args, **kwargs)
        except ToolRefusedError as refused:
            return answer(refused.text, refused.more, is_error=True)

    return answered


def require_text(text: str, *arguments: str) -> None:
    """Refuse with a text if one of the arguments is blank.

    Raises:
        ToolRefusedError: An argument is blank.
    """
    if not all(argument.strip() for argument in arguments):
        raise ToolRefusedError(text)


def as_json(value: Value) -> Any:
    """Convert a value of a file to plain JSON."""
    match value:
        case Fields():
            return {str(key): as_json(member) for key, member in value.items()}
        case Items():
            return [as_json(item) for item in value]
        case str():
            return str(value)
        case _:
            return value
