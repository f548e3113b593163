"""Runs one read-only statement, enforced by the database itself.

The transaction is read-only already; here come what the engine itself refuses, how many rows and
bytes are taken, whose session it is, and how a statement is ended that nobody waits for any more.
"""

import sqlite3
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from importlib import import_module
from itertools import chain
from typing import Any, Final, cast

import orjson
import sqlalchemy as sa

from toolgate.databases.connections.errors import SQLITE_VALUE_MB
from toolgate.databases.connections.values import plain

__all__ = [
    "QueryLimits",
    "QueryResult",
    "ResultColumn",
    "RunningQuery",
    "forget_session",
    "run_query",
]

_LONGEST_VALUE: Final = 32_000
_SQLITE_LARGEST: Final = SQLITE_VALUE_MB * 2**20
"""Bytes of a value that SQLite may make; a statement asks for 1 GB with 20 characters.

A function that makes a value runs inside one step, where no look at the clock can stop it.
"""

_STEPS: Final = 10_000
"""Steps of SQLite between two looks at the clock."""

_AT_A_TIME: Final = 100
_LONGEST_TAG: Final = 63
"""Bytes of a name of a program that PostgreSQL keeps."""

_READ_PRAGMAS: Final = frozenset(
    {
        *("table_info", "table_xinfo", "index_list", "index_info", "index_xinfo"),
        *("foreign_key_list", "data_version"),
    }
)
_NO_FUNCTIONS: Final = frozenset(
    {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "fsdir", "lsdir"}
)


@dataclass(frozen=True, kw_only=True)
class QueryLimits:
    """How much of an answer is taken."""

    rows: int = 200
    """Rows."""

    size_bytes: int = 200_000
    """Bytes of the rows as JSON."""

    timeout_s: float | None = None
    """Seconds; None: `timeout_s` of the connection. Never more than that."""


@dataclass(frozen=True, kw_only=True)
class ResultColumn:
    """A column of an answer."""

    name: str
    """Its name; one that came before gets a number: `id_2`."""

    type: str
    """As the database calls it; empty where it does not say."""


@dataclass(frozen=True, kw_only=True)
class QueryResult:
    """What a statement gave."""

    columns: tuple[ResultColumn, ...]
    """In their order."""

    rows: tuple[tuple[Any, ...], ...]
    """Values as JSON, in the order of the columns."""

    truncated: bool
    """Whether there were more rows, or values were cut."""

    elapsed_ms: float
    """Milliseconds in the database."""


@dataclass
class RunningQuery:
    """A statement that may have to be ended from another thread."""

    interrupt: Callable[[], object] | None = field(default=None)
    """Ends it in the database; None: nothing runs."""


def run_query(
    opened: sa.Connection, statement: str, *, limits: QueryLimits, tag: str, running: RunningQuery
) -> QueryResult:
    """Run one statement in the transaction that is open.

    Args:
        opened: A connection in a transaction.
        statement: The statement.
        limits: How much is taken.
        tag: Who asks, for whoever watches the sessions of the database.
        running: Gets what ends it.
    """
    driver: Any = opened.connection.driver_connection
    begun = time.perf_counter()
    match opened.dialect.name:
        case "sqlite":
            answer = _ask_sqlite(driver, statement, limits, running)
        case "postgresql":
            answer = _ask_postgres(driver, statement, limits, tag, running)
        case _:
            answer = _ask_other(driver, statement, limits, tag, running)
    try:
        with closing(answer):
            described: Sequence[tuple[str, str]] = next(answer)
            kinds: list[set[type]] = [set() for _ in described]
            taken, truncated = _taken(answer, limits, kinds)
    finally:
        running.interrupt = None
    return QueryResult(
        columns=tuple(_columns(described, kinds)),
        rows=tuple(taken),
        truncated=truncated,
        elapsed_ms=round((time.perf_counter() - begun) * 1000, 2),
    )


def forget_session(opened: sa.Connection) -> None:
    """Leave nothing of a statement in a session that others will use."""
    if opened.dialect.name != "postgresql" or opened.invalidated or opened.closed:
        return
    driver: Any = opened.connection.driver_connection
    try:
        driver.rollback()
        driver.autocommit = True
        driver.execute("DISCARD ALL")
        driver.autocommit = False
    except Exception:  # whatever is wrong with it, nobody else gets it  # noqa: BLE001
        opened.invalidate()


def _taken(
    rows: Iterator[Any], limits: QueryLimits, kinds: Sequence[set[type]]
) -> tuple[list[tuple[Any, ...]], bool]:
    """Rows until one limit is met, and whether there was more; `kinds` gets types of values."""
    taken: list[tuple[Any, ...]] = []
    left = limits.size_bytes
    truncated = False
    longest = min(_LONGEST_VALUE, max(64, limits.size_bytes // (2 * max(1, len(kinds)))))
    for row in rows:
        if len(taken) == limits.rows:
            return taken, True
        values = tuple(plain(value, max_chars=longest) for value in row)
        left -= len(orjson.dumps(values, default=str))
        if left < 0 and taken:
            return taken, True
        taken.append(values)
        for value, seen in zip(cast("Sequence[object]", row), kinds, strict=True):
            seen.add(type(value))
            if isinstance(value, str | bytes) and len(value) > longest:
                truncated = True
    return taken, truncated


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
    """What the values of a column are, where the database does not say."""
    value_types = types - {type(None)}
    if value_types == {int, float}:
        return "real"
    return _KINDS.get(next(iter(value_types)), "") if len(value_types) == 1 else ""


def _ask_sqlite(
    driver: sqlite3.Connection, statement: str, limits: QueryLimits, running: RunningQuery
) -> Generator[Any]:
    running.interrupt = driver.interrupt
    deadline = time.monotonic() + (limits.timeout_s or 3600)
    driver.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
    driver.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _SQLITE_LARGEST)
    driver.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    # Text that is not UTF-8 is shown as far as it can be instead of failing the whole answer.
    driver.text_factory = _text
    _connect_virtual_tables(driver, statement)
    driver.set_authorizer(_allowed)
    try:
        with closing(driver.execute(statement)) as cursor:
            yield [(column[0], "") for column in cursor.description or ()]
            yield from cursor
    finally:
        driver.set_authorizer(None)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _connect_virtual_tables(driver: sqlite3.Connection, statement: str) -> None:
    """Let virtual tables prepare what they need, which may be more than a reader gets."""
    lowered = statement.lower()
    names = driver.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL%'"
    ).fetchall()
    for (name,) in names:
        if name.lower() in lowered:
            quoted = name.replace('"', '""')
            with suppress(sqlite3.Error):  # its module may be missing: the statement will say so
                driver.execute(f'SELECT 1 FROM "{quoted}" LIMIT 0').close()  # noqa: S608


def _allowed(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    """What SQLite may do in a statement: read, and call functions that only compute."""
    match action:
        case sqlite3.SQLITE_SELECT | sqlite3.SQLITE_READ | sqlite3.SQLITE_RECURSIVE:
            return sqlite3.SQLITE_OK
        case sqlite3.SQLITE_FUNCTION if (second or "").lower() not in _NO_FUNCTIONS:
            return sqlite3.SQLITE_OK
        case sqlite3.SQLITE_PRAGMA if (first or "").lower() in _READ_PRAGMAS:
            return sqlite3.SQLITE_OK
        case sqlite3.SQLITE_UPDATE if first == "sqlite_master":
            # A virtual table declares its columns so; a statement cannot, without writable_schema.
            return sqlite3.SQLITE_OK
        case _:
            return sqlite3.SQLITE_DENY


def _ask_postgres(
    driver: Any, statement: str, limits: QueryLimits, tag: str, running: RunningQuery
) -> Generator[Any]:
    running.interrupt = driver.cancel
    name = f"toolgate {tag}".encode("ascii", "replace")[:_LONGEST_TAG].decode()
    limit = str(max(1, round((limits.timeout_s or 3600) * 1000)))
    with closing(driver.cursor()) as cursor:
        # A query has run now, so no statement can make the transaction one that writes.
        cursor.execute(
            "SELECT set_config('application_name', %s, true), "
            "set_config('statement_timeout', %s, true)",
            (name, limit),
        )
    import_module("toolgate.databases.connections.postgres_values").forgive(driver)
    # `stream` speaks the extended protocol, in which a text is one statement or an error.
    with closing(driver.cursor()) as cursor, closing(cursor.stream(statement)) as rows:
        first = next(rows, None)
        yield [(column.name, column.type_display) for column in cursor.description or ()]
        yield from chain(() if first is None else (first,), rows)


def _ask_other(
    driver: Any, statement: str, limits: QueryLimits, tag: str, running: RunningQuery
) -> Generator[Any]:
    """Any other database, as far as its driver follows DB-API. Not tested."""
    for name in ("cancel", "interrupt"):
        ends: Any = getattr(driver, name, None)
        if callable(ends):
            running.interrupt = ends
            break
    if hasattr(driver, "call_timeout"):  # Oracle
        driver.call_timeout = round((limits.timeout_s or 60) * 1000)
        driver.module, driver.action = "toolgate", tag[:64]
    with closing(driver.cursor()) as cursor:
        cursor.arraysize = _AT_A_TIME
        cursor.execute(statement)
        yield [(str(column[0]), _type_name(column[1])) for column in cursor.description or ()]
        while cursor.description and (rows := cursor.fetchmany(_AT_A_TIME)):
            yield from rows


def _type_name(code: object) -> str:
    name: object = getattr(code, "name", code)
    return name.removeprefix("DB_TYPE_").lower() if isinstance(name, str) else ""
