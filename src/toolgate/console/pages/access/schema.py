"""The Schema page: tables of connected databases and their references, as a diagram."""

from dataclasses import dataclass

from starlette.responses import Response

from toolgate.console.request import Visit
from toolgate.console.route import Route
from toolgate.databases.connections import Connection, TableSchema, mermaid_diagram
from toolgate.errors import ToolgateError

__all__ = ["ROUTES"]

_MOST_TABLES = 200
"""Tables of a database that are shown (chosen: such a page has about 200 kB)."""


@dataclass(frozen=True, kw_only=True)
class ShownSchema:
    """A connected database on the page."""

    connection: Connection
    """The database."""

    tables: tuple[TableSchema, ...] = ()
    """Tables, without views."""

    left_out: int = 0
    """Number of tables that are not shown."""

    mermaid: str = ""
    """The diagram as Mermaid text."""

    version: str = ""
    """Label of the schema version."""

    problem: str = ""
    """Why the schema is unknown or outdated; else empty."""


async def _show(visit: Visit) -> Response:
    visit.gateway.visible.must_manage(visit.caller)
    history = visit.app.schemas
    shown = [await _shown(visit, connection) for connection in history.connections.values()]
    return visit.page("schema.html", shown=shown)


async def _shown(visit: Visit, connection: Connection) -> ShownSchema:
    try:
        latest = await visit.app.schemas.latest(connection)
    except ToolgateError as error:
        return ShownSchema(connection=connection, problem=str(error))
    tables = tuple(table for table in latest.schema.tables if table.kind == "table")
    names = [table.name for table in tables[:_MOST_TABLES]]
    return ShownSchema(
        connection=connection,
        tables=tables[:_MOST_TABLES],
        left_out=len(tables) - len(names),
        mermaid=mermaid_diagram(latest.schema, names) if names else "",
        version=latest.label,
        problem=latest.problem,
    )


ROUTES = (Route(path="schema", show=_show),)
