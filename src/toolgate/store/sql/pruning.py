"""Deletes rows that are too old or too many, in small transactions."""

from collections.abc import Callable, Collection
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, Table, delete, func, select, true, tuple_

from toolgate.base.ids import utc_text
from toolgate.store.base import PrunedCounts, Retention
from toolgate.store.engine import tables
from toolgate.store.engine.database import SqlDatabase
from toolgate.store.repositories.audit import AuditAnchor
from toolgate.store.sql import schemas
from toolgate.store.sql.audit import chain
from toolgate.store.sql.audit.records import SqlAudit
from toolgate.store.sql.catalog import has_server, mark_listed
from toolgate.store.sql.threads import is_response
from toolgate.store.sql.usage import is_orphan

_PORTION = 1000
"""Rows that are deleted in one transaction, so that writers never wait for long (chosen)."""


class Pruning:
    """One clean-up of a database."""

    def __init__(self, database: SqlDatabase, retention: Retention, now: str) -> None:
        """Prepare a clean-up.

        Args:
            database: The database.
            retention: The limits.
            now: UTC, ISO 8601.
        """
        self._database = database
        self._retention = retention
        self._now = now
        self._today = datetime.fromisoformat(now)

    async def run(
        self,
        configured: Collection[tuple[str, str]],
        sign: Callable[[int, str], AuditAnchor] | None,
    ) -> PrunedCounts:
        """Delete old and excess rows, a portion in each transaction.

        Args:
            configured: Project and name of servers whose listings stay.
            sign: Signs the end of what is deleted from the audit log.
        """
        retention = self._retention
        await self._database.write(
            lambda connection: mark_listed(connection, configured, self._now)
        )
        counts = PrunedCounts(
            audit_records=await self._prune_audit(sign),
            results=await self._prune_results(),
            programs=await self._prune_programs(),
            snapshots=await self._drop(
                tables.snapshots,
                (tables.snapshots.c.seen_at < self._days_ago(retention.snapshot_days))
                & ~has_server(),
            ),
            usage=await self._prune_usage(),
            schemas=await self._database.write(self._prune_schemas),
            tool_versions=await self._prune_old(
                tables.tool_versions,
                ("replaced_at", "version_id"),
                retention.tool_version_days,
                retention.tool_version_max_bytes,
            ),
            detections=await self._prune_old(
                tables.detections,
                ("at", "detection_id"),
                retention.detection_days,
                retention.detection_max_bytes,
            ),
            approvals=await self._drop(
                tables.approvals,
                tables.approvals.c.expires_at < self._days_ago(retention.approval_days),
            ),
            threads=await self._drop(
                tables.threads,
                is_response()
                & (tables.threads.c.used_at < self._days_ago(retention.response_days)),
            )
            + await self._prune_old(
                tables.threads,
                ("used_at", "thread_id"),
                retention.thread_days,
                retention.thread_max_bytes,
            ),
            statements=await self._prune_old(
                tables.statements,
                ("at", "statement_id"),
                retention.statement_days,
                retention.statement_max_bytes,
            ),
        )
        await self._drop(tables.sessions, tables.sessions.c.expires_at <= self._now)
        # Buckets that were not used for a minute are full again, like new ones.
        refilled_s = (self._today - timedelta(minutes=2)).timestamp()
        await self._drop(tables.limit_minutes, tables.limit_minutes.c.at < refilled_s)
        return counts

    def _days_ago(self, days: float) -> str:
        return utc_text(self._today - timedelta(days=days))

    async def _prune_audit(self, sign: Callable[[int, str], AuditAnchor] | None) -> int:
        """Delete records from the start of the audit chain, never from its middle."""
        audit = tables.audit
        oldest = self._days_ago(self._retention.audit_days)
        max_bytes = self._retention.audit_max_bytes
        unchained = audit.c.seq.is_(None)
        removed = await self._drop(audit, unchained & (audit.c.at < oldest))
        age = (audit.c.at, audit.c.record_id)
        removed += await self._shrink(audit, age, max_bytes, where=unchained)
        last = await self._database.read(
            lambda opened: chain.last_doomed(opened, oldest=oldest, max_bytes=max_bytes)
        )
        if last is None:
            return removed
        if sign is not None:
            await SqlAudit(self._database).save_anchor(sign(*last))
        while count := await self._database.write(
            lambda opened: chain.cut(opened, last[0], _PORTION)
        ):
            removed += count
        return removed

    async def _prune_results(self) -> int:
        results = tables.results
        expired = await self._drop(results, results.c.expires_at <= self._now)
        return expired + await self._shrink(
            results, (results.c.expires_at, results.c.handle), self._retention.results_max_bytes
        )

    async def _prune_programs(self) -> int:
        programs = tables.programs
        return await self._drop(programs, programs.c.expires_at <= self._now)

    async def _prune_usage(self) -> int:
        searches, uses = tables.usage_searches, tables.usage_uses
        # A use may be written a moment before its search.
        hour_ago = utc_text(self._today - timedelta(hours=1))
        return (
            await self._drop(searches, searches.c.at < self._days_ago(self._retention.usage_days))
            + await self._shrink(
                searches, (searches.c.at, searches.c.search_id), self._retention.usage_max_bytes
            )
            + await self._drop(uses, is_orphan(hour_ago))
        )

    def _prune_schemas(self, connection: Connection) -> int:
        oldest = self._days_ago(self._retention.schema_days)
        max_bytes = self._retention.schema_max_bytes
        return schemas.prune(connection, before=oldest, max_bytes=max_bytes)

    async def _prune_old(
        self, table: Table, age: tuple[str, str], days: float, max_bytes: int
    ) -> int:
        """Delete rows older than `days`, then the oldest ones above the size limit.

        Args:
            table: A table whose rows have a size.
            age: Columns that sort rows by age: a time, then what distinguishes rows of the same
                time.
            days: Largest age of a row.
            max_bytes: Largest total size.
        """
        since, number = (table.c[name] for name in age)
        removed = await self._drop(table, since < self._days_ago(days))
        return removed + await self._shrink(table, (since, number), max_bytes)

    async def _drop(self, table: Table, condition: ColumnElement[bool]) -> int:
        key = tuple(table.primary_key.columns)
        doomed = select(*key).where(condition).limit(_PORTION)
        statement = delete(table).where(tuple_(*key).in_(doomed))
        dropped = 0
        while True:
            count = await self._database.write(
                lambda connection: connection.execute(statement).rowcount
            )
            dropped += count
            if count < _PORTION:
                return dropped

    async def _shrink(
        self,
        table: Table,
        age: tuple[ColumnElement[str], ColumnElement[str]],
        max_bytes: int,
        *,
        where: ColumnElement[bool] | None = None,
    ) -> int:
        """Delete the oldest rows that match `where`, until all have at most `max_bytes`."""
        may_go = true() if where is None else where
        total = func.coalesce(func.sum(table.c.size_bytes), 0)
        excess = await self._database.read(
            lambda connection: int(connection.execute(select(total)).scalar_one()) - max_bytes
        )
        oldest = select(*age, table.c.size_bytes).where(may_go).order_by(*age).limit(_PORTION)

        def remove(connection: Connection) -> tuple[int, int]:
            freed = 0
            last: tuple[str, str] | None = None
            for at, key, size_bytes in connection.execute(oldest):
                if freed >= excess:
                    break
                freed, last = freed + size_bytes, (at, key)
            if last is None:
                return 0, excess
            doomed = may_go & (tuple_(*age) <= last)
            return connection.execute(delete(table).where(doomed)).rowcount, freed

        removed = 0
        while excess > 0:
            count, freed = await self._database.write(remove)
            removed, excess = removed + count, excess - freed
        return removed
