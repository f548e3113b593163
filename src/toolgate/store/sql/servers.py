"""Servers in SQL."""

from sqlalchemy import Connection, delete, select

from toolgate.store.engine import tables
from toolgate.store.engine.database import SqlRepository, writes
from toolgate.store.engine.text import escape_text
from toolgate.store.repositories.servers import StoredServer
from toolgate.store.sql.row_mapping import server_from, server_row
from toolgate.store.sql.security.access import count_change


class SqlServers(SqlRepository):
    """Implements `ServerRepository`."""

    async def select(self, project_id: str | None) -> list[StoredServer]:
        """Servers of a project by name; None: of all projects, by project and name."""
        table = tables.servers
        query = select(table).order_by(table.c.project_id, table.c.name)
        if project_id is not None:
            query = query.where(table.c.project_id == escape_text(project_id))
        return await self.database.fetch_all(query, server_from)

    @writes
    def save(self, connection: Connection, server: StoredServer) -> None:
        """Insert or replace by `server_id`."""
        row = server_row(server)
        insert = self.database.insert
        statement = insert(tables.servers).on_conflict_do_update(
            index_elements=["server_id"], set_=row
        )

        connection.execute(statement, row)
        count_change(connection, insert)

    @writes
    def delete(self, connection: Connection, server_id: str) -> bool:
        """Delete a server. False if it does not exist."""
        table = tables.servers
        statement = delete(table).where(table.c.server_id == escape_text(server_id))

        count = connection.execute(statement).rowcount
        count_change(connection, self.database.insert)
        return count > 0
