"""The audit log in SQL."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from sqlalchemy import Connection, delete, select

from toolgate.store.engine import tables
from toolgate.store.engine.database import SqlRepository
from toolgate.store.repositories.audit import (
    AuditAnchor,
    AuditChainEnds,
    AuditChainLink,
    AuditFilter,
    AuditWriterRow,
    CallCount,
    ConversationCost,
    ToolUsage,
)
from toolgate.store.sql import row_mapping
from toolgate.store.sql.audit import chain, reports, search
from toolgate.types import AuditRecord


class SqlAudit(SqlRepository):
    """Implements `AuditRepository`."""

    async def append(self, records: Sequence[AuditRecord]) -> None:
        """Write records, all or none; existing records are skipped."""
        if not records:
            return
        columns, text = self._insert
        rows = [row_mapping.audit_row(record) for record in records]

        def append(connection: Connection) -> None:
            new = chain.linked(connection, self.database.insert, rows)
            if new:
                values: list[Any] = (
                    [tuple(map(row.__getitem__, columns)) for row in new] if columns else new
                )
                connection.exec_driver_sql(text, values)

        await self.database.write(append)

    @cached_property
    def _insert(self) -> tuple[Sequence[str], str]:
        """Columns in the order of their parameters (empty if these are named), and the SQL text.

        Two records are written per call. Skipping SQLAlchemy's own preparation of each row saves
        a third of the writer's time.
        """
        return self.database.compiled_insert(tables.audit)

    async def select(self, query: AuditFilter) -> list[AuditRecord]:
        """Records that match, in the order of the filter."""
        return await self.database.read(lambda opened: search.search(opened, query))

    async def chain_ends(self) -> AuditChainEnds:
        """Start and end of the audit chain."""
        return await self.database.read(chain.ends)

    async def chain_links(self, after: int, *, limit: int) -> list[AuditChainLink]:
        """Records in the order of the chain, after a position."""
        return await self.database.read(lambda opened: chain.links(opened, after, limit))

    async def anchors(self) -> list[AuditAnchor]:
        """The signed positions, in the order of the chain."""
        table = tables.audit_anchors
        query = select(table).order_by(table.c.seq)
        return await self.database.fetch_all(query, lambda row: AuditAnchor(**row))

    async def save_anchor(self, anchor: AuditAnchor) -> None:
        """Insert a signed position; existing ones are not changed."""
        statement = self.database.insert(tables.audit_anchors).on_conflict_do_nothing()
        await self.database.execute(statement, vars(anchor))

    async def writers(self) -> list[AuditWriterRow]:
        """The processes that write the audit log, including killed ones."""
        query = select(tables.audit_writers)
        return await self.database.fetch_all(query, lambda row: AuditWriterRow(**row))

    async def save_writer(self, row: AuditWriterRow) -> None:
        """Insert or replace a process."""
        insert = self.database.insert(tables.audit_writers)
        statement = insert.on_conflict_do_update(
            index_elements=["writer_id"], set_={"seen_at": insert.excluded.seen_at}
        )
        await self.database.execute(statement, vars(row))

    async def remove_writer(self, writer_id: str) -> None:
        """Delete a process, if it exists."""
        table = tables.audit_writers
        await self.database.execute(delete(table).where(table.c.writer_id == writer_id))

    async def open_intents(self, since: str) -> list[AuditRecord]:
        """Intents without an outcome since a time, at most 1,000."""
        return await self.database.read(lambda opened: search.open_intents(opened, since))

    async def call_counts(
        self, since: str, *, period_chars: int = 16, server: str | None = None
    ) -> list[CallCount]:
        """Calls and searches by period since a time, without empty periods."""
        return await self.database.read(
            lambda opened: reports.call_counts(opened, since, period_chars, server)
        )

    async def related(self, record_id: str) -> list[AuditRecord]:
        """A record with its search, the calls after it, and their outcomes."""
        return await self.database.read(lambda opened: reports.related(opened, record_id))

    async def count(self, since: str, *, limit: int) -> int:
        """Number of records since a time, counting up to `limit`, which is fast."""
        return await self.database.read(lambda opened: reports.count(opened, since, limit))

    async def conversation_costs(
        self, since: str, *, project_id: str | None = None, limit: int = 200
    ) -> list[ConversationCost]:
        """Costs of conversations since a time, most recent first; None: of all projects."""
        return await self.database.read(
            lambda opened: reports.costs(opened, since, project_id, limit)
        )

    async def tool_usage(
        self, since: str, *, project_id: str | None = None, tool: str | None = None
    ) -> list[ToolUsage]:
        """Usage of tools since a time, most used first; None: all projects or tools."""
        return await self.database.read(
            lambda opened: reports.tool_usage(opened, since, project_id, tool)
        )
