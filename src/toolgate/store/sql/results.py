"""Large results in SQL."""

from sqlalchemy import select

from toolgate.store.engine import tables
from toolgate.store.engine.database import SqlDatabase
from toolgate.store.engine.text import escape_text
from toolgate.store.repositories.results import StoredResult
from toolgate.store.sql.row_mapping import result_from, result_row

__all__ = ["SqlResults"]


class SqlResults:
    """Implements `ResultRepository`."""

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database

    async def save(self, result: StoredResult) -> None:
        """Insert or replace by handle."""
        row = result_row(result)
        statement = self._database.insert(tables.results).on_conflict_do_update(
            index_elements=["handle"], set_=row
        )
        await self._database.execute(statement, row)

    async def get(self, handle: str) -> StoredResult | None:
        """A stored result; None if it does not exist. The caller checks owner and expiry."""
        table = tables.results
        query = select(table).where(table.c.handle == escape_text(handle))
        return await self._database.fetch_first(query, result_from)
