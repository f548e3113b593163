"""Runs one read-only statement in the database of a server, or in this process.

The transaction is already read-only; this module names the session and cancels statements whose
caller has left. Statements for SQLite run in a separate process.
"""

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain
from typing import Any, Final

import sqlalchemy as sa

from toolgate.databases.statements import QueryLimits, QueryResult, result_of

_AT_A_TIME: Final = 100
"""Rows fetched at a time (chosen: limits are checked between two portions)."""
_LONGEST_TAG: Final = 63
"""Bytes of an application name that PostgreSQL keeps."""


@dataclass
class RunningQuery:
    """A statement that can be cancelled from another thread."""

    interrupt: Callable[[], object] | None = field(default=None)
    """Cancels it in the database; None: nothing is running."""


def run_query(
    opened: sa.Connection, statement: str, *, limits: QueryLimits, tag: str, running: RunningQuery
) -> QueryResult:
    """Run a statement in the open transaction.

    Args:
        opened: A connection in a transaction.
        statement: The statement.
        limits: Limits of the result.
        tag: Name of the caller, shown in the database's list of sessions.
        running: Receives the function that cancels the statement.
    """
    driver: Any = opened.connection.driver_connection
    ask = _ask_postgres if opened.dialect.name == "postgresql" else _ask_other
    try:
        return result_of(ask(driver, statement, limits, tag, running), limits)
    finally:
        running.interrupt = None


def forget_session(opened: sa.Connection) -> None:
    """Reset a session, so that a statement leaves nothing behind for the next one."""
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


def _ask_postgres(
    driver: Any, statement: str, limits: QueryLimits, tag: str, running: RunningQuery
) -> Generator[Any]:
    running.interrupt = driver.cancel
    name = f"toolgate {tag}".encode("ascii", "replace")[:_LONGEST_TAG].decode()
    limit = str(max(1, round((limits.timeout_s or 3600) * 1000)))
    with closing(driver.cursor()) as cursor:
        # After the first query, no statement can make the transaction writable.
        cursor.execute(
            "SELECT set_config('application_name', %s, true), "
            "set_config('statement_timeout', %s, true)",
            (name, limit),
        )
    import_module("toolgate.databases.connections.postgres_values").forgive(driver)
    # `stream` uses the extended protocol, which rejects texts of several statements.
    with closing(driver.cursor()) as cursor, closing(cursor.stream(statement)) as rows:
        first = next(rows, None)
        yield [(column.name, column.type_display) for column in cursor.description or ()]
        yield from chain(() if first is None else (first,), rows)


def _ask_other(
    driver: Any, statement: str, limits: QueryLimits, tag: str, running: RunningQuery
) -> Generator[Any]:
    """Any other database whose driver follows DB-API. Not tested."""
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
