"""Runs one read-only statement on a SQLite file, in a worker process.

A function of SQLite runs inside one step, where neither a look at the clock nor an interruption
ends it, so the process has to be one that can be killed.
"""

import sqlite3
import time
from collections.abc import Generator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from toolgate.databases.statements.errors import SQLITE_VALUE_MB
from toolgate.databases.statements.result import QueryLimits, QueryResult, result_of

__all__ = ["open_sqlite", "run_sqlite"]

_HEAP_MB: Final = 256
"""MiB that SQLite may use for a statement; chosen: sorts of a million short rows fit."""

_LARGEST: Final = SQLITE_VALUE_MB * 2**20
"""Bytes of a value that SQLite may make; a statement asks for 1 GB with 20 characters."""

_STEPS: Final = 10_000
"""Steps of SQLite between two looks at the clock."""

_READ_PRAGMAS: Final = frozenset(
    {
        *("table_info", "table_xinfo", "index_list", "index_info", "index_xinfo"),
        *("foreign_key_list", "data_version"),
    }
)
_NO_FUNCTIONS: Final = frozenset(
    {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "fsdir", "lsdir"}
)


def run_sqlite(path: str, statement: str, limits: QueryLimits) -> QueryResult:
    """The result of a statement.

    Args:
        path: The file.
        statement: One statement.
        limits: How much of the answer is taken, with a number as `timeout_s`.

    Raises:
        MemoryError: It needs more memory than there is.
        sqlite3.Error: It cannot be run.
        sqlite3.Warning: The same, where Python itself refuses a statement.
    """
    assert limits.timeout_s is not None
    with closing(open_sqlite(path, limits.timeout_s)) as opened:
        opened.execute("BEGIN")
        return result_of(_ask(opened, statement), limits)


def open_sqlite(path: str, seconds: float) -> sqlite3.Connection:
    """A file, opened so that nothing is made or written, and statements give up in time.

    Raises:
        sqlite3.OperationalError: It is not there.
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
    # Of the whole process; a statement may not change it.
    driver.execute(f"PRAGMA hard_heap_limit = {_HEAP_MB * 2**20}").close()
    driver.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST)
    driver.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    # Text that is not UTF-8 is shown as far as it can be instead of failing the whole answer.
    driver.text_factory = _text
    _connect_virtual_tables(driver, statement)
    driver.set_authorizer(_allowed)
    with closing(driver.execute(statement)) as cursor:
        yield [(column[0], "") for column in cursor.description or ()]
        yield from cursor


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
