"""Listings of servers and their last seen definitions, in SQL."""

from collections.abc import Collection, Sequence
from typing import Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    delete,
    exists,
    func,
    insert,
    literal,
    select,
    update,
)

from toolgate.base.ids import new_id
from toolgate.store.engine import tables
from toolgate.store.engine.database import SqlDatabase, SqlRepository, writes
from toolgate.store.engine.text import escape_text, unescape_text
from toolgate.store.repositories.catalog import Fingerprint, StoredSnapshot, ToolVersion
from toolgate.store.sql import row_mapping
from toolgate.store.sql.security.access import count_change
from toolgate.store.sql.tool_texts import SqlToolTexts

_MOST_VERSIONS: Final = 20
"""Stored versions of a tool (chosen)."""

_VERSION_COLUMNS: Final = ("definition", "state", "seen_at")


class SqlCatalog(SqlRepository):
    """Implements `CatalogRepository`."""

    def __init__(self, database: SqlDatabase, texts: SqlToolTexts) -> None:
        super().__init__(database)
        self.texts = texts

    async def snapshots(self, project_id: str) -> list[StoredSnapshot]:
        """The last listing of every server of a project."""
        table = tables.snapshots
        query = select(table).where(table.c.project_id == escape_text(project_id))
        return await self.database.fetch_all(
            query.order_by(table.c.server), row_mapping.snapshot_from
        )

    @writes
    def save_snapshot(self, connection: Connection, snapshot: StoredSnapshot) -> None:
        """Insert or replace by project and server; skipped if the digest is unchanged."""
        table = tables.snapshots
        key = _is_of(table, snapshot.project_id, snapshot.server)

        stored = connection.execute(select(table.c.digest, table.c.seen_at).where(key)).first()
        if stored is None or stored.digest != snapshot.digest:
            row = row_mapping.snapshot_row(snapshot)
            statement = self.database.insert(table).on_conflict_do_update(
                index_elements=["project_id", "server"], set_=row
            )
            connection.execute(statement, row)
        elif stored.seen_at[:10] < snapshot.listed_at[:10]:  # another day
            connection.execute(update(table).where(key).values(seen_at=snapshot.listed_at))

    async def delete_snapshot(self, project_id: str, server: str) -> None:
        """Delete the listing of a server."""
        table = tables.snapshots
        await self.database.execute(delete(table).where(_is_of(table, project_id, server)))

    async def fingerprints(self, project_id: str, server: str | None = None) -> list[Fingerprint]:
        """Last seen definitions of a server or of all, by server, kind and name."""
        table = tables.seen_entries
        query = select(table).where(_is_of(table, project_id, server))
        return await self.database.fetch_all(
            query.order_by(table.c.server, table.c.kind, table.c.name),
            row_mapping.fingerprint_from,
        )

    async def servers_seen_by(self, project_id: str, moment: str) -> frozenset[str]:
        """Names of the servers with a last seen definition that was first seen by `moment`."""
        table = tables.seen_entries
        query = select(table.c.server).distinct().where(_is_of(table, project_id, None))
        query = query.where(table.c.seen_at != "", table.c.seen_at <= moment)
        names = await self.database.fetch_all(query, lambda row: unescape_text(row["server"]))
        return frozenset(names)

    async def save_fingerprints(
        self, fingerprints: Sequence[Fingerprint], *, changed: Collection[str] = ()
    ) -> None:
        """Write last seen definitions, all or nothing."""
        if fingerprints:
            await self._save_fingerprints(fingerprints, changed)

    @writes
    def _save_fingerprints(
        self,
        connection: Connection,
        fingerprints: Sequence[Fingerprint],
        changed: Collection[str],
    ) -> None:
        table = tables.seen_entries
        statement = self.database.insert(table)
        statement = statement.on_conflict_do_update(
            index_elements=["project_id", "server", "kind", "name"],
            set_={column.name: statement.excluded[column.name] for column in table.columns},
        )
        rows = [row_mapping.fingerprint_row(fingerprint) for fingerprint in fingerprints]

        for fingerprint in fingerprints:
            if fingerprint.kind == "tool" and fingerprint.name in changed:
                _retire(connection, fingerprint)
        connection.execute(statement, rows)
        if any(row["decided_at"] for row in rows):  # other processes have to take it over
            count_change(connection, self.database.insert)

    @writes
    def delete_fingerprints(self, connection: Connection, project_id: str, server: str) -> None:
        """Delete the definitions of a server and the versions of its tools."""
        for table in (tables.seen_entries, tables.tool_versions):
            connection.execute(delete(table).where(_is_of(table, project_id, server)))

    async def tool_versions(self, project_id: str, server: str, tool: str) -> list[ToolVersion]:
        """Replaced definitions of a tool, most recently replaced first."""
        table = tables.tool_versions
        columns = [table.c[name] for name in (*_VERSION_COLUMNS, "replaced_at")]
        key = _is_of(table, project_id, server) & (table.c.tool == escape_text(tool))
        query = select(*columns).where(key).order_by(table.c.version_id.desc())
        return await self.database.fetch_all(query, row_mapping.tool_version_from)


def has_server() -> ColumnElement[bool]:
    """Return the condition that the server of a listing is in the store."""
    servers, snapshots = tables.servers, tables.snapshots
    return exists(
        select(servers.c.server_id).where(
            servers.c.project_id == snapshots.c.project_id, servers.c.name == snapshots.c.server
        )
    )


def mark_listed(connection: Connection, servers: Collection[tuple[str, str]], at: str) -> None:
    """Mark servers, by project and name, as still configured."""
    table = tables.snapshots
    for project_id, server in servers:
        key = _is_of(table, project_id, server)
        connection.execute(update(table).where(key).values(seen_at=at))


def _retire(connection: Connection, tool: Fingerprint) -> None:
    """Save the stored definition of a tool as a version, if it differs."""
    stored, table = tables.seen_entries, tables.tool_versions
    name = escape_text(tool.name)
    size = func.length(stored.c.definition) + 200
    where = ("project_id", "server", "name")
    row = select(
        literal(new_id()),
        *(stored.c[column] for column in (*where, *_VERSION_COLUMNS)),
        literal(tool.seen_at),
        size,
    ).where(
        _is_of(stored, tool.project_id, tool.server),
        stored.c.kind == "tool",
        stored.c.name == name,
        stored.c.digest != tool.digest,
    )
    columns = [
        *("version_id", "project_id", "server", "tool"),
        *(*_VERSION_COLUMNS, "replaced_at", "size_bytes"),
    ]
    connection.execute(insert(table).from_select(columns, row))
    key = _is_of(table, tool.project_id, tool.server) & (table.c.tool == name)
    surplus = (
        select(table.c.version_id)
        .where(key)
        .order_by(table.c.version_id.desc())
        .offset(_MOST_VERSIONS)
    )
    doomed = list(connection.execute(surplus).scalars())
    if doomed:
        connection.execute(delete(table).where(table.c.version_id.in_(doomed)))


def _is_of(table: Table, project_id: str, server: str | None) -> ColumnElement[bool]:
    condition = table.c.project_id == escape_text(project_id)
    return condition if server is None else condition & (table.c.server == escape_text(server))
