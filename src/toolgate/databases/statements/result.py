"""The result of a statement: columns and rows as JSON, within limits."""

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, cast

import orjson

from toolgate.databases.statements.values import plain, shortened

_LONGEST_VALUE: Final = 32_000
"""Characters of a value (chosen: longer text should be read separately, not in a table)."""


@dataclass(frozen=True, kw_only=True)
class QueryLimits:
    """Limits of a result."""

    rows: int = 200
    """Number of rows."""

    size_bytes: int = 200_000
    """Size of the rows as JSON in bytes."""

    timeout_s: float | None = None
    """Time limit in seconds; None: `timeout_s` of the connection, which also bounds larger
    values."""


@dataclass(frozen=True, kw_only=True)
class ResultColumn:
    """A column of a result."""

    name: str
    """Its name; repeated names get a number: `id_2`."""

    type: str
    """Its type in the database; empty if unknown."""


@dataclass(frozen=True, kw_only=True)
class QueryResult:
    """The result of a statement."""

    columns: tuple[ResultColumn, ...]
    """The columns, in order."""

    rows: tuple[tuple[Any, ...], ...]
    """Values as JSON, in the order of the columns."""

    truncated: bool
    """Whether rows are missing or values were cut."""

    elapsed_ms: float
    """Milliseconds in the database."""


def result_of(answer: Generator[Any], limits: QueryLimits) -> QueryResult:
    """Collect a result within the limits.

    Args:
        answer: Yields names and types of the columns, then rows; it is closed at the end.
        limits: Limits of the result.
    """
    begun = time.perf_counter()
    with closing(answer):
        described: Sequence[tuple[str, str]] = next(answer)
        kinds: list[set[type]] = [set() for _ in described]
        taken, truncated = _taken(answer, limits, kinds)
    return QueryResult(
        columns=tuple(_columns(described, kinds)),
        rows=tuple(taken),
        truncated=truncated,
        elapsed_ms=round((time.perf_counter() - begun) * 1000, 2),
    )


def _taken(
    rows: Iterator[Any], limits: QueryLimits, kinds: Sequence[set[type]]
) -> tuple[list[tuple[Any, ...]], bool]:
    """Rows up to the limits, and whether there are more; `kinds` collects the types of values."""
    taken: list[tuple[Any, ...]] = []
    left = limits.size_bytes
    truncated = False
    share = limits.size_bytes // max(1, len(kinds))
    longest = min(_LONGEST_VALUE, max(64, share // 2))
    for row in rows:
        if len(taken) == limits.rows:
            return taken, True
        whole = [plain(value, max_chars=longest) for value in row]
        values = tuple(_within(value, max(64, share)) for value in whole)
        truncated = truncated or any(
            after is not before for after, before in zip(values, whole, strict=True)
        )
        left -= len(orjson.dumps(values, default=str))
        if left < 0 and taken:
            return taken, True
        taken.append(values)
        for value, seen in zip(cast("Sequence[object]", row), kinds, strict=True):
            seen.add(type(value))
            if isinstance(value, str | bytes) and len(value) > longest:
                truncated = True
    return taken, truncated


def _within(value: object, max_chars: int) -> object:
    """JSON of more than `max_chars` as the beginning of its text."""
    if isinstance(value, dict | list):
        text = orjson.dumps(value, default=str).decode()
        if len(text) > max_chars:
            return shortened(text, max_chars)
    return cast("object", value)


def _columns(
    described: Sequence[tuple[str, str]], kinds: Sequence[set[type]]
) -> Iterator[ResultColumn]:
    seen: set[str] = set()
    for (name, type_), kind in zip(described, kinds, strict=True):
        unique, number = name, 2
        while unique in seen:
            unique, number = f"{name}_{number}", number + 1
        seen.add(unique)
        yield ResultColumn(name=unique, type=type_ or _kind(kind))


_KINDS: Final[Mapping[type, str]] = {
    int: "integer",
    float: "real",
    str: "text",
    bytes: "blob",
    bool: "boolean",
    Decimal: "numeric",
    date: "date",
    datetime: "timestamp",
}


def _kind(types: set[type]) -> str:
    """The type of a column's values, if the database does not name it."""
    value_types = types - {type(None)}
    if value_types == {int, float}:
        return "real"
    return _KINDS.get(next(iter(value_types)), "") if len(value_types) == 1 else ""
