"""Versions of the schemas of connected databases, in SQL."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, delete, select, update

from toolgate.base.ids import new_id
from toolgate.store.base import StoredSchema
from toolgate.store.engine import tables
from toolgate.store.engine.text import escape_text
from toolgate.store.sql import row_mapping

__all__ = ["add", "find", "last", "prune", "see"]

_MOST = 10_000
_PORTION = 500


def last(connection: Connection, project_id: str, name: str) -> StoredSchema | None:
    """The newest version, with its content."""
    table = tables.schema_versions
    wanted = select(table).where(_of(project_id, name)).order_by(table.c.number.desc()).limit(1)
    row = connection.execute(wanted).mappings().first()
    return None if row is None else row_mapping.schema_from(row)


def find(connection: Connection, project_id: str, name: str, limit: int) -> list[StoredSchema]:
    """Versions without their content, newest first."""
    table = tables.schema_versions
    columns = [column for column in table.columns if column.name != "content"]
    wanted = select(*columns).where(_of(project_id, name)).order_by(table.c.number.desc())
    rows = connection.execute(wanted.limit(max(1, min(limit, _MOST)))).mappings()
    return [row_mapping.schema_from(row) for row in rows]


def add(connection: Connection, insert: Callable[[Table], Any], schema: StoredSchema) -> bool:
    """Write a version; False when its number is taken."""
    row = row_mapping.schema_row(schema) | {"version_id": new_id()}
    statement = insert(tables.schema_versions).on_conflict_do_nothing()
    # The number of rows of an INSERT is kept only when it is asked for.
    written = connection.execute(statement, row, execution_options={"preserve_rowcount": True})
    return written.rowcount == 1


def see(connection: Connection, project_id: str, name: str, number: int, at: str) -> None:
    """Note that a version was seen again."""
    table = tables.schema_versions
    here = _of(project_id, name) & (table.c.number == number) & (table.c.seen_at < at)
    connection.execute(update(table).where(here).values(seen_at=at))


def prune(connection: Connection, *, before: str, max_bytes: int) -> int:
    """Remove versions that are too old, then the oldest of what is too much; never a last one."""
    table = tables.schema_versions
    wanted = select(
        table.c.version_id,
        table.c.project_id,
        table.c.connection,
        table.c.at,
        table.c.size_bytes,
    ).order_by(table.c.at.desc(), table.c.number.desc())
    present: set[tuple[str, str]] = set()
    doomed: list[str] = []
    kept_bytes = 0
    for version_id, project_id, name, at, size_bytes in connection.execute(wanted):
        is_last = (project_id, name) not in present
        present.add((project_id, name))
        if not is_last and (at < before or kept_bytes + size_bytes > max_bytes):
            doomed.append(version_id)
        else:
            kept_bytes += size_bytes
    for start in range(0, len(doomed), _PORTION):
        portion = doomed[start : start + _PORTION]
        connection.execute(delete(table).where(table.c.version_id.in_(portion)))
    return len(doomed)


def _of(project_id: str, name: str) -> ColumnElement[bool]:
    table = tables.schema_versions
    return (table.c.project_id == escape_text(project_id)) & (
        table.c.connection == escape_text(name)
    )
