"""Plans and the SQLcl log of Oracle. Not tested against a real Oracle."""

from contextlib import closing
from datetime import date, datetime
from typing import Any, Final
from uuid import uuid4

import sqlalchemy as sa

from toolgate.databases.connections import Connection
from toolgate.errors import ToolgateError
from toolgate.packs.builtin.sql._call_context import SqlCall
from toolgate.types import Json

_SOURCE: Final = "DBTOOLS$MCP_LOG"
_TEXTS: Final = ("log_message", "message", "sql_text", "end_point_name")
_TIMES: Final = ("created_on", "log_date", "created")


async def sqlcl_entries(
    call: SqlCall, *, since: str, limit: int, everyone: bool
) -> tuple[list[Json], list[str]]:
    """Return rows of SQLcl's log in each Oracle connection, and why some cannot be read.

    The rows do not identify callers of Toolgate, so only callers who may manage see them.
    """
    entries: list[Json] = []
    problems: list[str] = []
    if not everyone:
        return entries, problems
    for connection in call.connections.values():
        if connection.dialect != "oracle":
            continue
        try:
            rows = await call.read(connection, lambda opened: _rows(opened, limit))
        except ToolgateError as error:
            problems.append(f"{_SOURCE} of {connection.name} is not readable: {error.failed}")
            continue
        entries += [_entry(row, connection) for row in rows]
    return [entry for entry in entries if not since or str(entry["at"]) >= since][:limit], problems


def _rows(opened: sa.Connection, limit: int) -> list[dict[str, Any]]:
    # Columns differ between versions of SQLcl; the newest rows have the largest number.
    statement = f"SELECT * FROM {_SOURCE} ORDER BY 1 DESC FETCH FIRST {limit:d} ROWS ONLY"  # noqa: S608
    return [dict(row) for row in opened.execute(sa.text(statement)).mappings()]


def oracle_plan(opened: sa.Connection, statement: str) -> str:
    """Return the plan of a statement, through Oracle's plan table, which is rolled back."""
    driver: Any = opened.connection.driver_connection
    driver.rollback()  # the plan table cannot be written in a read-only transaction
    name = f"toolgate{uuid4().hex[:16]}"
    try:
        with closing(driver.cursor()) as cursor:
            cursor.execute(f"EXPLAIN PLAN SET STATEMENT_ID = '{name}' FOR {statement}")
            cursor.execute(
                "SELECT plan_table_output FROM TABLE(DBMS_XPLAN.DISPLAY('PLAN_TABLE', :1))", [name]
            )
            return "\n".join(str(row[0]) for row in cursor.fetchall())
    finally:
        driver.rollback()


def _entry(row: dict[str, Any], connection: Connection) -> Json:
    lowered = {str(key).lower(): value for key, value in row.items()}
    moment = next((lowered[name] for name in _TIMES if lowered.get(name) is not None), None)
    text = next((lowered[name] for name in _TEXTS if lowered.get(name) is not None), "")
    return {
        "source": _SOURCE,
        "at": moment.isoformat() if isinstance(moment, datetime | date) else str(moment or ""),
        "connection": connection.name,
        "dialect": connection.dialect,
        "statement": str(text)[:4000],
        "client": lowered.get("mcp_client"),
        "model": lowered.get("model"),
    }
