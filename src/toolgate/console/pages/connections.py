"""The Connections pages: databases, their tables and columns, and the log of statements."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import get_args

from starlette.responses import Response

from toolgate.base.names import natural_order
from toolgate.console.request import PageRequest
from toolgate.console.route import Route
from toolgate.databases.connections import (
    Connection,
    ForeignKey,
    Schema,
    SchemaVersion,
    TableSchema,
    mermaid_diagram,
)
from toolgate.errors import ArgumentError, ToolgateError
from toolgate.store import StatementOutcome

_TABLES_PER_PAGE = 100
"""Tables per page (chosen)."""
_STATEMENTS_PER_PAGE = 50
"""Statements per page (chosen)."""
_MOST_DRAWN = 200
"""Tables in the diagram (chosen: such a page has about 200 kB)."""
_MOST_COLUMNS = 5
"""Matching columns that are shown under a table (chosen)."""


@dataclass(frozen=True, kw_only=True)
class ShownConnection:
    """A connected database with what is known of its schema."""

    connection: Connection
    """The database."""

    version: SchemaVersion | None = None
    """The current version, or the last known one; None if the database was never read."""

    problem: str = ""
    """Why the schema is unknown or outdated; else empty."""

    @property
    def tables(self) -> int:
        """Number of tables."""
        return sum(1 for table in self._schema.tables if table.kind == "table")

    @property
    def views(self) -> int:
        """Number of views."""
        return len(self._schema.tables) - self.tables

    @property
    def _schema(self) -> Schema:
        return Schema() if self.version is None else self.version.schema


async def _list(request: PageRequest) -> Response:
    request.gateway.visible.must_manage(request.caller)
    connections = request.app.schemas.connections.values()
    shown = await asyncio.gather(*(_shown(request, connection) for connection in connections))
    return request.page("connections.html", shown=shown)


async def _shown(request: PageRequest, connection: Connection) -> ShownConnection:
    try:
        latest = await request.app.schemas.latest(connection)
    except ToolgateError as error:
        return ShownConnection(connection=connection, problem=str(error))
    return ShownConnection(connection=connection, version=latest, problem=latest.problem)


async def _of(request: PageRequest) -> ShownConnection:
    """Return the connection that the address names."""
    request.gateway.visible.must_manage(request.caller)
    return await _shown(
        request, request.app.schemas.connections.chosen(request.query_value("name"))
    )


async def _connection(request: PageRequest) -> Response:
    shown = await _of(request)
    word = request.query_value("q").strip()
    schema = Schema() if shown.version is None else shown.version.schema
    matching = [
        table
        for table in schema.tables
        if word.casefold() in table.name.casefold() or _columns_with(table, word)
    ]
    matching.sort(key=lambda table: natural_order(table.name))
    page = request.page_number()
    first = (page - 1) * _TABLES_PER_PAGE
    drawn = [table.name for table in schema.tables if table.kind == "table"][:_MOST_DRAWN]
    return request.page(
        "connection.html",
        connection=shown.connection,
        version=shown.version,
        problem=shown.problem,
        word=word,
        tables=matching[first : first + _TABLES_PER_PAGE],
        columns_of=partial(_columns_with, word=word),
        references_of=_references,
        page=page,
        pages=max(1, -(-len(matching) // _TABLES_PER_PAGE)),
        mermaid=mermaid_diagram(schema, drawn) if drawn else "",
        drawn=len(drawn),
        total=shown.tables,
    )


def _columns_with(table: TableSchema, word: str) -> list[str]:
    """Return the first columns whose names contain a word; none if it is empty."""
    folded = word.casefold()
    if not folded:
        return []
    names = (column.name for column in table.columns)
    return list(islice((name for name in names if folded in name.casefold()), _MOST_COLUMNS))


def _references(table: TableSchema) -> list[str]:
    """Return the tables that a table references, in order."""
    return list(dict.fromkeys(key.table for key in table.foreign_keys))


async def _table(request: PageRequest) -> Response:
    shown, name = await _of(request), request.query_value("table")
    schema = Schema() if shown.version is None else shown.version.schema
    table = schema.by_name.get(name)
    if table is None:
        raise ArgumentError(
            f"There is no table {name[:80]!r} in {shown.connection.name}.",
            hint="It may have been removed or renamed. See the tables of the connection.",
        )
    return request.page(
        "connection_table.html",
        connection=shown.connection,
        problem=shown.problem,
        table=table,
        referring=_referring(schema.tables, name),
    )


def _referring(tables: Sequence[TableSchema], name: str) -> list[tuple[str, ForeignKey]]:
    """Return the foreign keys that reference a table, each with its own table."""
    return [
        (table.name, key) for table in tables for key in table.foreign_keys if key.table == name
    ]


async def _log(request: PageRequest) -> Response:
    request.gateway.visible.must_manage(request.caller)
    outcome = request.query_value("outcome")
    query = {"connection": request.query_value("connection"), "outcome": outcome}
    at, _, statement_id = request.query_value("older").partition(" ")
    statements = await request.app.store.statements.select(
        request.caller.project_id,
        connection=query["connection"] or None,
        outcome=next((known for known in get_args(StatementOutcome) if known == outcome), None),
        before=(at, statement_id) if at else None,
        limit=_STATEMENTS_PER_PAGE,
    )
    last = statements[-1] if len(statements) == _STATEMENTS_PER_PAGE else None
    return request.page(
        "connection_log.html",
        statements=statements,
        names=await request.token_names(),
        older=f"{last.at} {last.statement_id}" if last else "",
        connections=list(request.app.schemas.connections),
        outcomes=get_args(StatementOutcome),
        query={name: value for name, value in query.items() if value},
        days=f"{request.app.settings.store.statement_days:g}",
    )


ROUTES = (
    Route(path="connections", show=_list),
    Route(path="connection", show=_connection),
    Route(path="connection/table", show=_table),
    Route(path="connections/log", show=_log),
)
