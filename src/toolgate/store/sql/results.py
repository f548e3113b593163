"""Large results in SQL."""

from sqlalchemy import delete, select

from toolgate.store.engine import tables
from toolgate.store.engine.database import SqlRepository
from toolgate.store.engine.text import escape_text
from toolgate.store.repositories.results import ResultSummary, StoredResult
from toolgate.store.sql.row_mapping import result_from, result_row, result_summary_from


class SqlResults(SqlRepository):
    """Implements `ResultRepository`."""

    async def save(self, result: StoredResult) -> None:
        """Insert or replace by handle."""
        row = result_row(result)
        statement = self.database.insert(tables.results).on_conflict_do_update(
            index_elements=["handle"], set_=row
        )
        await self.database.execute(statement, row)

    async def get(self, handle: str) -> StoredResult | None:
        """A stored result; None if it does not exist. The caller checks owner and expiry."""
        table = tables.results
        query = select(table).where(table.c.handle == escape_text(handle))
        return await self.database.fetch_first(query, result_from)

    async def select(
        self, *, prefix: str, caller_id: str | None, now: str, limit: int
    ) -> list[ResultSummary]:
        """Return results by handle prefix that have not expired, last to expire first."""
        table = tables.results
        columns = [column for column in table.c if column.name != "body"]
        query = select(*columns).where(
            table.c.handle.startswith(escape_text(prefix), autoescape=True),
            table.c.expires_at > now,
        )
        if caller_id is not None:
            query = query.where(table.c.caller_id == escape_text(caller_id))
        query = query.order_by(table.c.expires_at.desc(), table.c.handle).limit(limit)
        return await self.database.fetch_all(query, result_summary_from)

    async def remove(self, handle: str) -> None:
        """Delete a result, if it exists."""
        table = tables.results
        await self.database.execute(delete(table).where(table.c.handle == escape_text(handle)))
