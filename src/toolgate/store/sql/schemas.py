"""Versions of the schemas of connected databases, in SQL."""

from sqlalchemy import ColumnElement, Connection, delete, select, update

from toolgate.base.ids import new_id
from toolgate.store.engine import tables
from toolgate.store.engine.database import SqlRepository
from toolgate.store.engine.text import escape_text
from toolgate.store.repositories.schemas import StoredSchema
from toolgate.store.sql.row_mapping import schema_from, schema_row

_MAX_VERSIONS = 10_000
"""Most versions in a result (chosen)."""

_PORTION = 500
"""Versions that one statement deletes; well below SQLite's limit of 32,766 values."""


class SqlSchemas(SqlRepository):
    """Implements `SchemaRepository`."""

    async def latest(self, project_id: str, connection: str) -> StoredSchema | None:
        """The latest schema of a connection, with its content."""
        table = tables.schema_versions
        query = select(table).where(_is_of(project_id, connection))
        return await self.database.fetch_first(
            query.order_by(table.c.number.desc()).limit(1), schema_from
        )

    async def versions(self, project_id: str, connection: str, *, limit: int) -> list[StoredSchema]:
        """Schema versions of a connection without their content, newest first."""
        table = tables.schema_versions
        columns = [column for column in table.columns if column.name != "content"]
        query = select(*columns).where(_is_of(project_id, connection))
        query = query.order_by(table.c.number.desc()).limit(max(1, min(limit, _MAX_VERSIONS)))
        return await self.database.fetch_all(query, schema_from)

    async def add(self, schema: StoredSchema) -> bool:
        """Add a version. False if another process has added this number."""
        row = schema_row(schema) | {"version_id": new_id()}
        # The row count of an INSERT is available only on request.
        statement = (
            self.database.insert(tables.schema_versions)
            .on_conflict_do_nothing()
            .execution_options(preserve_rowcount=True)
        )
        return await self.database.execute(statement, row) == 1

    async def mark_seen(self, project_id: str, connection: str, number: int, at: str) -> None:
        """Set when a version was last seen; earlier times are ignored."""
        table = tables.schema_versions
        key = _is_of(project_id, connection) & (table.c.number == number) & (table.c.seen_at < at)
        await self.database.execute(update(table).where(key).values(seen_at=at))


def prune(connection: Connection, *, before: str, max_bytes: int) -> int:
    """Delete old versions, then the oldest excess ones; never the latest of a connection."""
    table = tables.schema_versions
    query = select(
        table.c.version_id,
        table.c.project_id,
        table.c.connection,
        table.c.at,
        table.c.size_bytes,
    ).order_by(table.c.at.desc(), table.c.number.desc())
    newest: set[tuple[str, str]] = set()
    doomed: list[str] = []
    remaining_bytes = 0
    for version_id, project_id, name, at, size_bytes in connection.execute(query):
        is_last = (project_id, name) not in newest
        newest.add((project_id, name))
        if not is_last and (at < before or remaining_bytes + size_bytes > max_bytes):
            doomed.append(version_id)
        else:
            remaining_bytes += size_bytes
    for start in range(0, len(doomed), _PORTION):
        portion = doomed[start : start + _PORTION]
        connection.execute(delete(table).where(table.c.version_id.in_(portion)))
    return len(doomed)


def _is_of(project_id: str, connection: str) -> ColumnElement[bool]:
    table = tables.schema_versions
    return (table.c.project_id == escape_text(project_id)) & (
        table.c.connection == escape_text(connection)
    )
