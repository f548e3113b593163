"""The tools of the pack: queries, plans, tables, connections, sessions, and the statement log."""

import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Annotated, Final

import anyio
from pydantic import Field

from toolgate import Context, tool
from toolgate.base.ids import utc_text
from toolgate.databases.connections import (
    Connection,
    NamedType,
    Schema,
    TableSchema,
    estimated_rows,
    relations,
    write_privileges,
)
from toolgate.errors import ArgumentError, DatabaseError, StatementError, ToolgateError
from toolgate.packs.builtin.sql import _answers as answers
from toolgate.packs.builtin.sql._call_context import SqlCall
from toolgate.packs.builtin.sql._options import MOST_ROWS
from toolgate.packs.builtin.sql._oracle import oracle_plan, sqlcl_entries
from toolgate.packs.builtin.sql._session_settings import server_version, session_facts
from toolgate.store import StoredStatement
from toolgate.types import Json

log = logging.getLogger(__name__)

_READS: Final = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}
_TEST_S: Final = 10.0
"""Seconds to connect to a database (chosen: what people are willing to wait for)."""
_PAGE: Final = 200
"""Tables per page (chosen)."""

_PLANS: Final[Mapping[str, str]] = {
    "postgresql": "EXPLAIN (FORMAT JSON)",
    "sqlite": "EXPLAIN QUERY PLAN",
    "mysql": "EXPLAIN FORMAT=JSON",
    "mariadb": "EXPLAIN FORMAT=JSON",
    "duckdb": "EXPLAIN",
}
"""Prefixes of statements that show a plan without running anything, by dialect."""


@tool(title="Query a database", annotations=_READS)
async def query(
    context: Context,
    sql: str,
    connection: str | None = None,
    max_rows: Annotated[int | None, Field(ge=1, le=MOST_ROWS)] = None,
) -> Json:
    """Run one SQL statement that only reads (SELECT) in a connected database and give its rows.

    For counts, sums, filters, latest records: whatever stands in tables. Statements that change
    anything are refused with the reason.

    Args:
        context: Given by Toolgate.
        sql: One statement, in the dialect of the database.
        connection: Name of the database connection; may be left out where there is only one.
        max_rows: At most as many rows; 200 when left out.
    """
    call = SqlCall(context, "query")
    statement: str | None = None
    try:
        chosen = call.chosen(connection)
        verdict = await call.checked(chosen, sql)
        statement = verdict.statement
        return answers.rows(await call.run(chosen, statement, rows=max_rows), chosen, statement)
    except ToolgateError as error:
        return answers.failure(error, executed_sql=statement)


@tool(title="Explain a query", annotations=_READS)
async def explain(context: Context, sql: str, connection: str | None = None) -> Json:
    """Show how a connected database would run a query, without running it.

    Args:
        context: Given by Toolgate.
        sql: The query itself, without EXPLAIN.
        connection: Name of the database connection; may be left out where there is only one.
    """
    call = SqlCall(context, "explain")
    try:
        chosen = call.chosen(connection)
        verdict = await call.checked(chosen, sql)
        if verdict.kind == "show":
            raise StatementError(
                "This statement has no plan.", hint="Give a query, or run it with the tool query."
            )
        if chosen.dialect == "oracle":
            plan = await call.read(chosen, lambda opened: oracle_plan(opened, verdict.statement))
            return answers.plan([(plan,)], ["plan"], chosen, verdict.statement)
        lead = "" if verdict.kind == "plan" else _PLANS.get(chosen.dialect, "EXPLAIN")
        rows = await call.run(
            chosen, f"{lead} {verdict.statement}".strip(), rows=call.options.max_rows
        )
        names = [column.name for column in rows.columns]
        return answers.plan(rows.rows, names, chosen, verdict.statement)
    except ToolgateError as error:
        return answers.failure(error)


@tool(title="Describe a table", annotations=_READS)
async def table_info(
    context: Context, table: str, connection: str | None = None, schema: str | None = None
) -> Json:
    """Describe a table or view of a connected database: columns, types, keys, indexes, size.

    Args:
        context: Given by Toolgate.
        table: Its name, with its schema in front where that is not the usual one.
        connection: Name of the database connection; may be left out where there is only one.
        schema: Name of the schema, where it does not stand before the table.
    """
    call = SqlCall(context, "table_info")
    try:
        chosen = call.chosen(connection)
        full_name = f"{schema}.{table}" if schema and "." not in table else table
        described = await _described(chosen, full_name)
        where, _, bare = described.name.rpartition(".")
        rows = await call.read(chosen, lambda opened: estimated_rows(opened, where, bare))
        return answers.table(described, chosen, rows)
    except ToolgateError as error:
        return answers.failure(error)


@tool(title="List tables", annotations=_READS)
async def list_tables(
    context: Context,
    connection: str | None = None,
    schema: str | None = None,
    pattern: str | None = None,
    cursor: str | None = None,
) -> Json:
    """List the tables and views of a connected database, with kind and comment.

    Args:
        context: Given by Toolgate.
        connection: Name of the database connection; may be left out where there is only one.
        schema: Only this schema; * for all.
        pattern: Only names that fit; * stands for any text, as in order*.
        cursor: The next_cursor of the answer before, for more.
    """
    call = SqlCall(context, "list_tables")
    try:
        chosen = call.chosen(connection)
        start = _start(cursor)
        schemas = (schema,) if schema else chosen.table.schemas
        matches = await call.read(
            chosen,
            lambda opened: relations(opened, schemas=schemas, exclude=chosen.table.exclude),
        )
    except ToolgateError as error:
        return answers.failure(error)
    if pattern:
        folded_pattern = pattern.casefold()
        matches = [
            relation
            for relation in matches
            if fnmatchcase(relation.name.casefold(), folded_pattern)
            or fnmatchcase(relation.full_name.casefold(), folded_pattern)
        ]
    page = matches[start : start + _PAGE]
    more = str(start + _PAGE) if len(matches) > start + _PAGE else None
    return answers.tables(page, chosen, total=len(matches), cursor=more)


@tool(title="List connections", annotations=_READS)
async def connection_list(context: Context) -> Json:
    """List the connected databases: names, kinds and descriptions."""
    call = SqlCall(context, "connection_list")
    try:
        configured = call.connections
    except ToolgateError as error:
        return answers.failure(error)
    only = next(iter(configured)) if len(configured) == 1 else ""
    return answers.connections(configured.values(), call.options.connection or only)


@tool(title="Test a connection", annotations=_READS)
async def connection_test(context: Context, connection: str | None = None) -> Json:
    """Tell whether a connected database answers, and which rights to write its user still has.

    Args:
        context: Given by Toolgate.
        connection: Name of the database connection; may be left out where there is only one.
    """
    call = SqlCall(context, "connection_test")
    chosen: Connection | None = None
    begun = time.perf_counter()
    try:
        chosen = call.chosen(connection)
        try:
            with anyio.fail_after(_TEST_S):
                version, privileges = await call.read(
                    chosen, lambda opened: (server_version(opened), write_privileges(opened))
                )
        except TimeoutError:
            raise DatabaseError(
                f"The database of the connection {chosen.name!r} did not answer within "
                f"{_TEST_S:g} s.",
                kind="timeout",
                hint="Check whether it runs and can be reached.",
            ) from None
    except ToolgateError as error:
        kind = error.kind if isinstance(error, DatabaseError) else error.code
        name = chosen.name if chosen is not None else connection
        return answers.failure(error, ok=False, connection=name, kind=kind)
    elapsed_ms = round((time.perf_counter() - begun) * 1000, 1)
    return answers.connected(chosen, version=version, elapsed_ms=elapsed_ms, privileges=privileges)


@tool(title="Session of a database", annotations=_READS)
async def session_info(context: Context, connection: str | None = None) -> Json:
    """Show the session of a connected database: user, version, whether it can write, limits.

    Args:
        context: Given by Toolgate.
        connection: Name of the database connection; may be left out where there is only one.
    """
    call = SqlCall(context, "session_info")
    try:
        chosen = call.chosen(connection)
        facts = await call.read(chosen, session_facts)
    except ToolgateError as error:
        return answers.failure(error)
    limits = call.options.limits(None)
    timeout_s = min(chosen.table.timeout_s, limits.timeout_s or chosen.table.timeout_s)
    return answers.session(
        chosen,
        {
            **facts,
            "timeout_s": timeout_s,
            "rows": limits.rows,
            "max_bytes": limits.size_bytes,
            "caller": context.caller.caller_id,
            "thread": context.caller.conversation or None,
        },
    )


@tool(title="Log of statements", annotations=_READS)
async def activity_log(
    context: Context,
    limit: Annotated[int | None, Field(ge=1, le=1000)] = 20,
    since: str | None = None,
    everyone: bool = False,  # noqa: FBT001, FBT002 -- an argument of a tool
) -> Json:
    """Show which SQL statements were run or refused, newest first: your own, or everyone's.

    Args:
        context: Given by Toolgate.
        limit: At most as many.
        since: Only from this moment on: YYYY-MM-DD, or 2025-10-15T14:30:00Z.
        everyone: All callers of the project; only with the right to manage.
    """
    call = SqlCall(context, "activity_log")
    caller = context.caller
    row_limit = limit or 20
    try:
        first = _moment(since)
        if everyone and not context.may("manage"):
            raise ArgumentError(
                "Statements of other callers are shown only with the right to manage.",
                hint="Leave out 'everyone' to see your own.",
            )
        statements: list[StoredStatement] = []
        if context.store is not None:
            statements = await context.store.statements.select(
                caller.project_id,
                caller_id=None if everyone else caller.caller_id,
                since=first,
                limit=row_limit,
            )
        sqlcl_rows, problems = await sqlcl_entries(
            call, since=first, limit=row_limit, everyone=everyone
        )
    except ToolgateError as error:
        return answers.failure(error)
    return answers.activity(statements, sqlcl_rows, problems)


async def _described(connection: Connection, name: str) -> TableSchema:
    where, _, bare = name.rpartition(".")
    schema = await connection.schema((where,) if where else None)
    described = _table(schema, name, bare)
    if described is None:
        near = [
            candidate.name
            for candidate in schema.tables
            if bare.casefold() in candidate.name.casefold()
        ]
        raise ArgumentError(
            f"There is no table {name[:80]!r} in {connection.name}.",
            allowed=f"Near: {', '.join(near[:5])}." if near else "",
            hint="Call list_tables for all names.",
        )
    return described


def _table(schema: Schema, name: str, bare: str) -> TableSchema | None:
    """Return the table with a name: exact matches first, then ignoring case."""
    tables: list[TableSchema | NamedType] = [*schema.tables]
    for searched in (name, bare):
        for fold in (str, str.casefold):
            for candidate in tables:
                table_name = (
                    candidate.name.rpartition(".")[2] if searched == bare else candidate.name
                )
                if fold(table_name) == fold(searched) and isinstance(candidate, TableSchema):
                    return candidate
    return None


def _start(cursor: str | None) -> int:
    if not cursor:
        return 0
    if not cursor.isascii() or not cursor.isdecimal() or len(cursor) > 9:
        raise ArgumentError(
            f"{cursor[:40]!r} is not a cursor of list_tables.",
            hint="Leave it out to start from the beginning.",
        )
    return int(cursor)


def _moment(text: str | None) -> str:
    """Convert a time to the format of the store; a day starts at midnight UTC."""
    text = (text or "").strip()
    if not text:
        return ""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentError(
            f"since is {text[:40]!r}, which is not a date.",
            allowed="Allowed: YYYY-MM-DD, or a moment such as 2025-10-15T14:30:00Z.",
            hint="Correct or leave it out.",
        ) from None
    return utc_text(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
