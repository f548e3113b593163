"""Statements that were run on connected databases, in SQL."""

from typing import Any

from sqlalchemy import RowMapping, and_, or_, select

from toolgate.store.engine import tables
from toolgate.store.engine.database import SqlRepository
from toolgate.store.engine.text import escape_text, unescape_text
from toolgate.store.repositories.statements import StatementOutcome, StoredStatement

_MAX_ROWS = 10_000
"""Most statements in a result (chosen)."""

_ROW_BYTES = 200
"""Estimated bytes of a row besides its texts."""


class SqlStatements(SqlRepository):
    """Implements `StatementRepository`."""

    async def append(self, statement: StoredStatement) -> None:
        """Insert a statement; existing ids are skipped."""
        row = {
            name: escape_text(value) if isinstance(value, str) else value
            for name, value in vars(statement).items()
        }
        row["size_bytes"] = _ROW_BYTES + sum(
            len(value.encode()) for value in row.values() if isinstance(value, str)
        )
        insert = self.database.insert(tables.statements).on_conflict_do_nothing()
        await self.database.execute(insert, row)

    async def select(
        self,
        project_id: str,
        *,
        caller_id: str | None = None,
        connection: str | None = None,
        outcome: StatementOutcome | None = None,
        since: str = "",
        before: tuple[str, str] | None = None,
        limit: int = 100,
    ) -> list[StoredStatement]:
        """Statements of a project, newest first; see `StatementRepository.select`."""
        table = tables.statements
        equal = {
            table.c.project_id: project_id,
            table.c.caller_id: caller_id,
            table.c.connection: connection,
            table.c.outcome: outcome,
        }
        query = select(table).where(
            *(column == escape_text(value) for column, value in equal.items() if value is not None)
        )
        if since:
            query = query.where(table.c.at >= escape_text(since))
        if before is not None:
            at, statement_id = map(escape_text, before)
            query = query.where(
                or_(
                    table.c.at < at,
                    and_(table.c.at == at, table.c.statement_id < statement_id),
                )
            )
        query = query.order_by(table.c.at.desc(), table.c.statement_id.desc())
        query = query.limit(max(1, min(limit, _MAX_ROWS)))
        return await self.database.fetch_all(query, _from)


def _from(row: RowMapping) -> StoredStatement:
    values: dict[str, Any] = {
        name: unescape_text(value) if isinstance(value, str) else value
        for name, value in row.items()
        if name != "size_bytes"
    }
    return StoredStatement(**values)
