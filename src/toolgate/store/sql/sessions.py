"""Sessions of the console in SQL."""

from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import Connection, RowMapping, Table, delete, select, update

from toolgate.store.engine import tables
from toolgate.store.engine.text import escape_text, unescape_text
from toolgate.store.records.sessions import StoredSession

__all__ = ["SqlSessions"]

T = TypeVar("T")


class SqlSessions:
    """That part over SQLAlchemy Core; `SqlStore` brings the transactions."""

    _insert: Callable[[Table], Any]

    async def _read(self, work: Callable[[Connection], T]) -> T:
        raise NotImplementedError

    async def _write(self, work: Callable[[Connection], T]) -> T:
        raise NotImplementedError

    async def sessions(self) -> list[StoredSession]:
        """All sessions, the last used first."""
        table = tables.sessions
        wanted = select(table).order_by(table.c.seen_at.desc(), table.c.session_id)
        return await self._read(
            lambda opened: [_from(row) for row in opened.execute(wanted).mappings()]
        )

    async def session(self, session_id: str) -> StoredSession | None:
        """One of them; None when there is none."""
        table = tables.sessions
        wanted = select(table).where(table.c.session_id == escape_text(session_id))

        def find(opened: Connection) -> StoredSession | None:
            row = opened.execute(wanted).mappings().first()
            return None if row is None else _from(row)

        return await self._read(find)

    async def save_session(self, session: StoredSession) -> None:
        """Insert one, or replace the one with this id."""
        row = {
            name: escape_text(value) if isinstance(value, str) else value
            for name, value in vars(session).items()
        }
        statement = self._insert(tables.sessions).on_conflict_do_update(
            index_elements=["session_id"], set_=row
        )
        await self._write(lambda opened: opened.execute(statement, row))

    async def touch_session(self, session_id: str, *, seen_at: str, expires_at: str) -> bool:
        """Note that one was used; False: it is gone."""
        table = tables.sessions
        statement = (
            update(table)
            .where(table.c.session_id == escape_text(session_id))
            .values(seen_at=seen_at, expires_at=expires_at)
        )
        return await self._write(lambda opened: opened.execute(statement).rowcount > 0)

    async def delete_session(self, session_id: str) -> bool:
        """Remove one; False when there was none."""
        table = tables.sessions
        statement = delete(table).where(table.c.session_id == escape_text(session_id))
        return await self._write(lambda opened: opened.execute(statement).rowcount > 0)


def _from(row: RowMapping) -> StoredSession:
    texts = {name: unescape_text(value) for name, value in row.items() if isinstance(value, str)}
    return StoredSession(sealed=bytes(row["sealed"]), **texts)
