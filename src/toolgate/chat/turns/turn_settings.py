"""The settings of a turn: file, project, thread and request, each overriding the one before."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from toolgate.chat.base import DOCUMENTS, KINDS, SQL, Choices
from toolgate.errors import ArgumentError
from toolgate.settings import ChatSettings
from toolgate.types import json_array

_KINDS = {
    "vector search": DOCUMENTS,
    "documents": DOCUMENTS,
    "nl2sql": SQL,
    "sql": SQL,
}
_TYPES = get_type_hints(Choices)
_MOST_TOP_K = 100
"""Passages: more than any context can hold (chosen)."""


def choices_from(
    settings: ChatSettings,
    project: Mapping[str, object],
    thread: Mapping[str, object],
    asked: Mapping[str, object],
) -> Choices:
    """Merge the settings; later arguments take precedence.

    Raises:
        ArgumentError: A requested value is invalid.
    """
    of_file = {item.name: getattr(settings, item.name) for item in fields(Choices)}
    stored = {**project, **thread}
    valid = {name: value for name, value in stored.items() if name in _TYPES}
    merged = {**of_file, **read_choices(valid), **read_choices(asked)}
    merged["collections"] = tuple(merged["collections"])
    merged["tools_enabled"] = tuple(
        kind for kind in KINDS if kind in _kinds(merged["tools_enabled"])
    )
    return Choices(**merged)


def read_choices(values: Mapping[str, object]) -> dict[str, Any]:
    """Return the valid fields of `Choices` in a mapping.

    Raises:
        ArgumentError: A field does not exist, or its value is invalid.
    """
    choices: dict[str, Any] = {}
    for name, value in values.items():
        if name not in _TYPES:
            raise ArgumentError(
                f"There is no setting {name[:60]!r} of threads.",
                allowed=f"Settings: {', '.join(_TYPES)}.",
            )
        choices[name] = _checked(name, value)
    return choices


def _checked(name: str, value: object) -> object:
    kind = _TYPES[name]
    if get_origin(kind) is Literal:
        allowed = get_args(kind)
        if value in allowed:
            return value
        raise _unfit(name, value, ", ".join(map(str, allowed)))
    if kind is bool:
        if isinstance(value, bool):
            return value
        raise _unfit(name, value, "true or false")
    if kind is int:
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST_TOP_K:
            return value
        raise _unfit(name, value, f"1 to {_MOST_TOP_K}")
    if kind is str:
        if isinstance(value, str):
            return value
        raise _unfit(name, value, "a text")
    allowed = "names of collections" if name == "collections" else ", ".join(KINDS)
    several = json_array(list(cast("Any", value)) if isinstance(value, tuple) else value)
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in several):
        raise _unfit(name, cast("object", value), f"a list of {allowed}")
    return tuple(map(str, several)) if name == "collections" else _kinds(several)


def _kinds(values: object) -> tuple[str, ...]:
    kinds: list[str] = []
    for item in json_array(list(cast("tuple[str, ...]", values))):
        kind = _KINDS.get(str(item).lower())
        if kind is None:
            raise _unfit("tools_enabled", item, ", ".join(KINDS))
        kinds.append(kind)
    return tuple(kinds)


def _unfit(name: str, value: object, allowed: str) -> ArgumentError:
    return ArgumentError(
        f"The setting {name!r} of a thread is {value!r:.60}.", allowed=f"Allowed: {allowed}."
    )
