"""What the authors of a pack expect: the messages in its `tests.jsonl`, with their results."""

import json
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final, cast

from toolgate.errors import PackError
from toolgate.intents import NONE, Detection
from toolgate.types import Json, json_object

TESTS: Final = "tests.jsonl"
"""Name of the test file, next to `pack.toml`."""

_KEYS: Final = frozenset({"message", "intent", "intents", "tool", "arguments", "today", "note"})
_HINT: Final = (
    'A line is: {"message": "refund order 12", "intent": "refunds", "arguments": {"order": 12}}'
)


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """A message and its expected result."""

    message: str
    """The message, as a person writes it."""

    expected: Json
    """`intent` (null for none), `intents`, `tool`, `arguments`; only given fields are compared."""

    today: date | None = None
    """Reference date for words such as "yesterday"."""

    line: int = 0
    """Line number in the file, from 1."""

    def mistakes(self, detection: Detection) -> list[str]:
        """List the differences from the expected result, one sentence each."""
        intent = None if detection.intent == NONE else detection.intent
        actual: Json = {
            "intent": intent,
            "intents": list(detection.intents) or ([intent] if intent else []),
            "tool": detection.tool,
            "arguments": dict(detection.arguments),
        }
        return [
            f"{key} is {_shown(actual[key])}, expected {_shown(value)}"
            for key, value in self.expected.items()
            if not _is_same(key, actual[key], value)
        ]


def read_expectations(folder: Path) -> list[Expectation]:
    """Read the tests of a pack; empty if it has no test file.

    Raises:
        PackError: A line is invalid; the message names it.
    """
    path = folder / TESTS
    if not path.is_file():
        return []
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise PackError(f"{path} cannot be read: {error}.", hint="Save it as UTF-8.") from error
    return [
        _expectation(path, number, line)
        for number, line in enumerate(text.split("\n"), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]


def _expectation(path: Path, number: int, line: str) -> Expectation:
    try:
        row: Any = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    fields = json_object(row)
    message = fields.get("message")
    if not isinstance(message, str) or not fields.keys() - {"message", "today", "note"}:
        raise PackError(f"{path}:{number} is not a test.", hint=_HINT)
    if unknown := fields.keys() - _KEYS:
        raise PackError(
            f"{path}:{number} has an unknown key: {min(unknown)!r}.",
            allowed=f"Allowed: {', '.join(sorted(_KEYS))}.",
            hint=_HINT,
        )
    day = fields.get("today")
    try:
        today = None if day is None else date.fromisoformat(str(day))
    except ValueError as error:
        raise PackError(
            f"{path}:{number}: today is {day!r}, which is not a date.",
            hint="Write it as YYYY-MM-DD.",
        ) from error
    expected = {
        key: value for key, value in fields.items() if key not in {"message", "today", "note"}
    }
    return Expectation(message=message, expected=expected, today=today, line=number)


def _is_same(key: str, actual: object, expected: object) -> bool:
    if key in {"intent", "tool"} and isinstance(actual, str) and isinstance(expected, str):
        return actual.casefold() == expected.casefold()
    if key == "intents" and isinstance(expected, list):
        return {str(name).casefold() for name in _items(actual)} == {
            str(name).casefold() for name in _items(cast("object", expected))
        }
    return actual == expected


def _items(value: object) -> list[object]:
    return list(cast("list[object]", value)) if isinstance(value, list) else []


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
