"""Tools as they were seen, and what was seen of them before, in SQL."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Table, delete, func, insert, literal, select

from toolgate.base.ids import new_id
from toolgate.store.base import ToolFingerprint, ToolVersion
from toolgate.store.engine import tables
from toolgate.store.engine.text import escape_text
from toolgate.store.sql import row_mapping

__all__ = ["find", "forget", "save", "versions"]

_MOST_VERSIONS: Final = 20
_KEPT: Final = ("definition", "state", "seen_at")


def find(connection: Connection, project_id: str, server: str | None) -> list[ToolFingerprint]:
    """The tools of a server or of all, by server and name."""
    table = tables.seen_tools
    wanted = select(table).where(_of(project_id, server)).order_by(table.c.server, table.c.tool)
    return [row_mapping.fingerprint_from(row) for row in connection.execute(wanted).mappings()]


def save(
    connection: Connection,
    upsert: Callable[[Table], Any],
    tools: Sequence[ToolFingerprint],
    changed: Collection[str],
) -> None:
    """Write them, over what is there; definitions that go become versions."""
    for tool in tools:
        if tool.tool in changed:
            _retire(connection, tool)
    table = tables.seen_tools
    statement = upsert(table)
    statement = statement.on_conflict_do_update(
        index_elements=["project_id", "server", "tool"],
        set_={column.name: statement.excluded[column.name] for column in table.columns},
    )
    connection.execute(statement, [row_mapping.fingerprint_row(tool) for tool in tools])


def forget(connection: Connection, project_id: str, server: str) -> None:
    """Remove the tools of a server."""
    for table in (tables.seen_tools, tables.tool_versions):
        connection.execute(delete(table).where(_of(project_id, server, table)))


def versions(connection: Connection, project_id: str, server: str, tool: str) -> list[ToolVersion]:
    """Definitions that were replaced, the last replaced first."""
    table = tables.tool_versions
    columns = [table.c[name] for name in (*_KEPT, "replaced_at")]
    here = _of(project_id, server, table) & (table.c.tool == escape_text(tool))
    wanted = select(*columns).where(here).order_by(table.c.version_id.desc())
    return [row_mapping.tool_version_from(row) for row in connection.execute(wanted).mappings()]


def _retire(connection: Connection, tool: ToolFingerprint) -> None:
    """Keep what is there of a tool as a version, if it is another definition."""
    old, table = tables.seen_tools, tables.tool_versions
    name = escape_text(tool.tool)
    size = func.length(old.c.definition) + 200
    where = ("project_id", "server", "tool")
    row = select(
        literal(new_id()),
        *(old.c[column] for column in (*where, *_KEPT)),
        literal(tool.seen_at),
        size,
    ).where(_of(tool.project_id, tool.server), old.c.tool == name, old.c.digest != tool.digest)
    columns = ["version_id", *where, *_KEPT, "replaced_at", "size_bytes"]
    connection.execute(insert(table).from_select(columns, row))
    here = _of(tool.project_id, tool.server, table) & (table.c.tool == name)
    surplus = (
        select(table.c.version_id)
        .where(here)
        .order_by(table.c.version_id.desc())
        .offset(_MOST_VERSIONS)
    )
    doomed = list(connection.execute(surplus).scalars())
    if doomed:
        connection.execute(delete(table).where(table.c.version_id.in_(doomed)))


def _of(
    project_id: str, server: str | None, table: Table = tables.seen_tools
) -> ColumnElement[bool]:
    here = table.c.project_id == escape_text(project_id)
    return here if server is None else here & (table.c.server == escape_text(server))
