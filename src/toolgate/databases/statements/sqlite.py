"""Runs one read-only statement on a SQLite file, in a worker process.

An SQLite function runs within one step, where neither a timer nor an interrupt can stop it, so
the process must be killable.
"""

import json
import re
import sqlite3
import time
from collections.abc import Generator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final, Never
from urllib.parse import quote

from toolgate.databases.statements.errors import SQLITE_VALUE_MB
from toolgate.databases.statements.result import QueryLimits, QueryResult, result_of

_HEAP_MB: Final = 256
"""MiB that SQLite may use for a statement (chosen: sorts of a million short rows fit)."""

_LARGEST: Final = SQLITE_VALUE_MB * 2**20
"""Largest value in bytes that SQLite may create; 20 characters of SQL can ask for 1 GB."""

_STEPS: Final = 10_000
"""Steps of SQLite between two checks of the time (chosen)."""

_READ_PRAGMAS: Final = frozenset(
    {
        *("table_info", "table_xinfo", "index_list", "index_info", "index_xinfo"),
        *("foreign_key_list", "data_version"),
    }
)
_PROBE: Final = "toolgate result"
"""Name of a temporary view, which no statement can mean by accident."""

_JSON: Final = re.compile(r"\s*jsonb?\b", re.IGNORECASE)
"""A declared type of JSON. SQLite has no such type, but keeps what the table declares."""

_NO_FUNCTIONS: Final = frozenset(
    {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "fsdir", "lsdir"}
)


def run_sqlite(path: str, statement: str, limits: QueryLimits) -> QueryResult:
    """Run a statement.

    Args:
        path: The file.
        statement: One statement.
        limits: Limits of the result; `timeout_s` must be a number.

    Raises:
        MemoryError: It needs too much memory.
        sqlite3.Error: SQLite rejected it.
        sqlite3.Warning: The same, raised by Python.
    """
    assert limits.timeout_s is not None
    with closing(open_sqlite(path, limits.timeout_s)) as opened:
        opened.execute("BEGIN")
        return result_of(_ask(opened, statement), limits)


def open_sqlite(path: str, seconds: float) -> sqlite3.Connection:
    """Open a file read-only, with a time limit for statements.

    Raises:
        sqlite3.OperationalError: The file does not exist.
    """
    if not Path(path).is_file():
        raise sqlite3.OperationalError("unable to open database file")
    opened = sqlite3.connect(
        f"file:{quote(path)}?mode=ro",
        uri=True,
        timeout=seconds,
        isolation_level=None,
        check_same_thread=False,
    )
    deadline = time.monotonic() + seconds
    opened.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
    return opened


def _ask(driver: sqlite3.Connection, statement: str) -> Generator[Any]:
    # A limit of the whole process; a statement must not change it.
    driver.execute(f"PRAGMA hard_heap_limit = {_HEAP_MB * 2**20}").close()
    driver.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST)
    driver.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    # Text that is not UTF-8 is decoded as far as possible instead of failing the whole result.
    driver.text_factory = _text
    _connect_virtual_tables(driver, statement)
    declared = _declared_types(driver, statement)
    driver.set_authorizer(_allowed)
    with closing(driver.execute(statement)) as cursor:
        names = [column[0] for column in cursor.description or ()]
        if len(declared) != len(names):
            declared = [""] * len(names)
        is_json = [_JSON.match(type_) is not None for type_ in declared]
        yield [(name, "json" if json_ else "") for name, json_ in zip(names, is_json, strict=True)]
        if not any(is_json):
            yield from cursor
            return
        for row in cursor:
            yield tuple(
                _json_value(driver, value) if json_ else value
                for value, json_ in zip(row, is_json, strict=True)
            )


def _declared_types(driver: sqlite3.Connection, statement: str) -> list[str]:
    """The types that tables declare for the columns of a result; empty if it is no query.

    Python's library does not tell them, but SQLite does for a view. The view is in the temporary
    database of the connection, so that the file stays as it is, and nothing is run.
    """
    try:
        driver.execute(f'CREATE TEMP VIEW "{_PROBE}" AS {statement}').close()
        try:
            rows = driver.execute(f'PRAGMA temp.table_info("{_PROBE}")').fetchall()
        finally:
            driver.execute(f'DROP VIEW temp."{_PROBE}"').close()
    except (sqlite3.Error, sqlite3.Warning):
        return []  # if the statement is wrong, running it says how
    return [str(row[2]) for row in rows]


def _json_value(driver: sqlite3.Connection, value: object) -> object:
    """The value of a JSON column; what is not JSON stays as it is."""
    if isinstance(value, bytes):
        # The binary form, from SQLite 3.45 on: https://sqlite.org/jsonb.html
        try:
            (text,) = driver.execute("SELECT json(?)", (value,)).fetchone()
        except sqlite3.Error:
            return value
    elif isinstance(value, str):
        text = value
    else:
        return value  # such a column stores numbers as numbers
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return value


def _no_constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _connect_virtual_tables(driver: sqlite3.Connection, statement: str) -> None:
    """Let virtual tables initialise, which may need more rights than reading."""
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
    """Whether SQLite may perform an action: reading, and calling functions that only compute."""
    match action:
        case sqlite3.SQLITE_SELECT | sqlite3.SQLITE_READ | sqlite3.SQLITE_RECURSIVE:
            return sqlite3.SQLITE_OK
        case sqlite3.SQLITE_FUNCTION if (second or "").lower() not in _NO_FUNCTIONS:
            return sqlite3.SQLITE_OK
        case sqlite3.SQLITE_PRAGMA if (first or "").lower() in _READ_PRAGMAS:
            return sqlite3.SQLITE_OK
        case sqlite3.SQLITE_UPDATE if first == "sqlite_master":
            # Virtual tables declare their columns this way; a statement cannot without
            # writable_schema.
            return sqlite3.SQLITE_OK
        case _:
            return sqlite3.SQLITE_DENY
