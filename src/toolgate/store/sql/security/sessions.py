"""Sessions of the console, in SQL."""

from sqlalchemy import RowMapping, delete, select, update

from toolgate.store.engine import tables
from toolgate.store.engine.database import SqlRepository
from toolgate.store.engine.text import escape_text, unescape_text
from toolgate.store.repositories.console_sessions import StoredSession


class SqlSessions(SqlRepository):
    """Implements `SessionRepository`."""

    async def list_all(self) -> list[StoredSession]:
        """All sessions, most recently used first; expired ones until the next clean-up."""
        table = tables.sessions
        query = select(table).order_by(table.c.seen_at.desc(), table.c.session_id)
        return await self.database.fetch_all(query, _from)

    async def get(self, session_id: str) -> StoredSession | None:
        """A session; None if it does not exist."""
        table = tables.sessions
        query = select(table).where(table.c.session_id == escape_text(session_id))
        return await self.database.fetch_first(query, _from)

    async def save(self, session: StoredSession) -> None:
        """Insert or replace by id."""
        row = {
            name: escape_text(value) if isinstance(value, str) else value
            for name, value in vars(session).items()
        }
        statement = self.database.insert(tables.sessions).on_conflict_do_update(
            index_elements=["session_id"], set_=row
        )
        await self.database.execute(statement, row)

    async def touch(self, session_id: str, *, seen_at: str, expires_at: str) -> bool:
        """Update time of last use and expiry. False if the session does not exist."""
        table = tables.sessions
        statement = update(table).where(table.c.session_id == escape_text(session_id))
        values = {"seen_at": seen_at, "expires_at": expires_at}
        return await self.database.execute(statement.values(**values)) > 0

    async def delete(self, session_id: str) -> bool:
        """Delete a session. False if it does not exist."""
        table = tables.sessions
        statement = delete(table).where(table.c.session_id == escape_text(session_id))
        return await self.database.execute(statement) > 0


def _from(row: RowMapping) -> StoredSession:
    texts = {name: unescape_text(value) for name, value in row.items() if isinstance(value, str)}
    return StoredSession(sealed=bytes(row["sealed"]), **texts)
