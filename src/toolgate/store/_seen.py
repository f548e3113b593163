"""Tools as they were seen, in SQL."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, delete, select

from toolgate.store import _rows, _tables
from toolgate.store._rows import keepable
from toolgate.store.base import SeenTool

__all__ = ["find", "forget", "save"]


def find(connection: Connection, project_id: str, server: str | None) -> list[SeenTool]:
    """The tools of a server or of all, by server and name."""
    table = _tables.seen_tools
    wanted = select(table).where(_of(project_id, server)).order_by(table.c.server, table.c.tool)
    return [_rows.seen_tool_from(row) for row in connection.execute(wanted).mappings()]


def save(connection: Connection, insert: Callable[[Table], Any], tools: Sequence[SeenTool]) -> None:
    """Write them, over what is there."""
    table = _tables.seen_tools
    statement = insert(table)
    statement = statement.on_conflict_do_update(
        index_elements=["project_id", "server", "tool"],
        set_={column.name: statement.excluded[column.name] for column in table.columns},
    )
    connection.execute(statement, [_rows.seen_tool_row(tool) for tool in tools])


def forget(connection: Connection, project_id: str, server: str) -> None:
    """Remove the tools of a server."""
    connection.execute(delete(_tables.seen_tools).where(_of(project_id, server)))


def _of(project_id: str, server: str | None) -> ColumnElement[bool]:
    table = _tables.seen_tools
    here = table.c.project_id == keepable(project_id)
    return here if server is None else here & (table.c.server == keepable(server))
