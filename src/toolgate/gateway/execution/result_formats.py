"""Writes a value as JSON, CSV, a table or plain text."""

import csv
import io
import json
from typing import Any, Final, Literal, TypeAlias, cast

Format: TypeAlias = Literal["json", "csv", "table", "text"]
"""The format of a result."""

_PIPE: Final = str.maketrans({"|": "\\|", "\n": " ", "\r": " "})
"""Characters that would end a table cell."""


class FormatError(ValueError):
    """A value cannot be written as rows; the message says what to select."""


def render(value: object, form: Format) -> str:
    """Format a value as text.

    Raises:
        FormatError: `csv` and `table` need a list or an object.
    """
    match form:
        case "json":
            return _compact(value)
        case "text":
            return _plain(value)
        case "csv":
            columns, rows = _rows(value)
            out = io.StringIO()
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(rows)
            return out.getvalue()
        case "table":
            columns, rows = _rows(value)
            lines = [columns, ["---"] * len(columns), *rows]
            return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _rows(value: object) -> tuple[list[str], list[list[str]]]:
    """The column names, in order of first appearance, and the rows."""
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        lists = [name for name, member in members.items() if isinstance(member, list)]
        if len(members) == 1 and lists:  # as servers wrap a list, which is no object
            return _rows(members[lists[0]])
        if lists:
            select = f".{lists[0]}" if lists[0].isidentifier() else f".[{json.dumps(lists[0])}]"
            raise FormatError(f"an object with lists in it has no rows; select {select!r}, say")
        value = [members]
    if not isinstance(value, list):
        raise FormatError("a single value has no rows; select a list")
    items = cast("list[object]", value)
    is_empty = not any(items)  # objects or lists without members have no columns
    if not is_empty and all(isinstance(item, dict) for item in items):
        objects = cast("list[dict[str, object]]", items)
        columns = list(dict.fromkeys(name for item in objects for name in item))
        return columns, [[_plain_cell(item.get(name)) for name in columns] for item in objects]
    if not is_empty and all(isinstance(item, list) for item in items):
        lines = cast("list[list[object]]", items)
        width = max(map(len, lines))
        columns = [str(number) for number in range(1, width + 1)]
        return columns, [[*map(_plain_cell, row), *[""] * (width - len(row))] for row in lines]
    return ["value"], [[_plain_cell(item)] for item in items]


def _cell(text: str) -> str:
    return text.translate(_PIPE)


def _plain_cell(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else _compact(value)


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(map(_plain_cell, cast("list[object]", value)))
    if isinstance(value, dict):
        members = cast("dict[str, object]", value).items()
        return "\n".join(f"{name}: {_plain_cell(member)}" for name, member in members)
    return _compact(value)


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
