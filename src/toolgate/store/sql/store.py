"""The store over SQLAlchemy Core: everything that SQLite and PostgreSQL have in common.

The databases are driven synchronously in worker threads: a batch of audit records is one hop, and
neither an asynchronous driver nor greenlets have to be installed, loaded and understood.
"""

import sqlite3
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from secrets import token_bytes
from typing import Any, Literal, TypeVar

import anyio
import anyio.to_thread
from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Table,
    delete,
    exists,
    func,
    select,
    true,
    tuple_,
    update,
)
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from toolgate.base.ids import utc_now, utc_text
from toolgate.errors import StoreError
from toolgate.store.base import (
    AuditAnchor,
    AuditChainEnds,
    AuditChainLink,
    AuditFilter,
    DetectionCount,
    DetectionFilter,
    IntegrityReport,
    PrunedCounts,
    Retention,
    StoredDetection,
    StoredGuard,
    StoredPermission,
    StoredProject,
    StoredResult,
    StoredSchema,
    StoredSearch,
    StoredServer,
    StoredSnapshot,
    StoredToken,
    StoredUse,
    ToolFingerprint,
    ToolVersion,
    UsageEntry,
    UsageFilter,
)
from toolgate.store.engine import backups, schema_version
from toolgate.store.engine import tables as _tables
from toolgate.store.engine.deadline import TransactionAttempt, current_deadline
from toolgate.store.engine.text import escape_text
from toolgate.store.records.approvals import ApprovalFilter, StoredApproval
from toolgate.store.sql import (
    access,
    audit_chain,
    audit_search,
    database_schemas,
    row_mapping,
    tool_fingerprints,
)
from toolgate.store.sql import approvals as _approvals
from toolgate.store.sql import detections as _detections
from toolgate.store.sql import usage as _usage
from toolgate.store.sql.audit_views import SqlAuditViews
from toolgate.store.sql.credentials import SqlCredentials
from toolgate.store.sql.sessions import SqlSessions
from toolgate.store.sql.statements import SqlStatements
from toolgate.store.sql.threads import SqlThreads
from toolgate.types import AuditRecord

__all__ = ["SqlStore"]

T = TypeVar("T")

_PORTION = 1000
"""Rows that a clean-up removes in one transaction, so that writers never wait for long."""

_READERS = 4


class SqlStore(SqlCredentials, SqlSessions, SqlStatements, SqlAuditViews, SqlThreads):
    """What a database module completes with its engine, its `insert` and its upkeep."""

    _driver_errors: tuple[type[Exception], ...] = (sqlite3.Error,)
    """What the driver raises by itself, when it is used without SQLAlchemy."""

    def __init__(
        self, engine: Engine, url: str, *, insert: Callable[[Table], Any], writers: int
    ) -> None:
        self._engine = engine
        self._url = url
        self._insert = insert
        self._alone: AbstractContextManager[object] = nullcontext()
        """Held while a connection is used that others have too; a cancelled task leaves its thread
        at work."""
        self._reads = anyio.CapacityLimiter(_READERS)
        self._writes = anyio.CapacityLimiter(writers)

    @property
    def url(self) -> str:
        """Where it is, without password."""
        return self._url

    async def close(self) -> None:
        """Close connections; may be called twice."""
        await anyio.to_thread.run_sync(self._close)

    def _close(self) -> None:
        with self._alone:  # closing a connection that another thread still uses ends the process
            self._engine.dispose()

    async def add_project(self, project_id: str) -> None:
        """Make a project; nothing happens when it exists."""
        row = {"project_id": escape_text(project_id), "created_at": utc_now()}
        statement = self._insert(_tables.projects).on_conflict_do_nothing()
        await self._write(lambda connection: connection.execute(statement, row))

    async def projects(self) -> list[StoredProject]:
        """All projects by name, the default one too."""
        return await self._read(access.projects)

    async def save_project(self, project: StoredProject) -> None:
        """Insert, or replace the settings of the one of this name."""
        kept = replace(project, created_at=project.created_at or utc_now())
        await self._write(lambda connection: access.save_project(connection, self._insert, kept))

    async def delete_project(self, project_id: str) -> bool:
        """Remove a project with all that belongs to it; False when there was none."""
        return await self._write(
            lambda connection: access.delete_project(connection, self._insert, project_id)
        )

    async def tokens(self) -> list[StoredToken]:
        """All tokens by name, revoked and expired ones too."""
        return await self._read(access.tokens)

    async def save_token(self, token: StoredToken) -> None:
        """Insert, or replace the one with this `token_id`."""
        await self._write(lambda connection: access.save_token(connection, self._insert, token))

    async def delete_token(self, token_id: str) -> bool:
        """Remove a token; False when there was none."""
        return await self._write(
            lambda connection: access.delete_token(connection, self._insert, token_id)
        )

    async def touch_tokens(self, used: Mapping[str, str]) -> None:
        """Note when tokens were last used, by `token_id`."""
        if used:
            await self._write(lambda connection: access.touch_tokens(connection, used))

    async def permissions(self) -> list[StoredPermission]:
        """All permission rules, oldest first."""
        return await self._read(access.permissions)

    async def save_permissions(self, rules: Sequence[StoredPermission]) -> None:
        """Add rules; all or none."""
        if rules:
            await self._write(
                lambda connection: access.save_permissions(connection, self._insert, rules)
            )

    async def delete_permissions(self, permission_ids: Collection[str]) -> int:
        """Remove rules; gives how many there were."""
        return await self._write(
            lambda connection: access.delete_permissions(connection, self._insert, permission_ids)
        )

    async def guards(self) -> list[StoredGuard]:
        """All guards, oldest first."""
        return await self._read(access.guards)

    async def save_guard(self, guard: StoredGuard) -> None:
        """Add one."""
        await self._write(lambda connection: access.save_guard(connection, self._insert, guard))

    async def delete_guards(self, guard_ids: Collection[str]) -> int:
        """Remove guards; gives how many there were."""
        return await self._write(
            lambda connection: access.delete_guards(connection, self._insert, guard_ids)
        )

    async def access_version(self) -> int:
        """A number that grows with each change of projects, servers, tokens, rules and guards."""
        return await self._read(access.version)

    async def servers(self, project_id: str | None) -> list[StoredServer]:
        """Servers of a project by name; None: of all projects."""
        table = _tables.servers
        wanted = select(table).order_by(table.c.project_id, table.c.name)
        if project_id is not None:
            wanted = wanted.where(table.c.project_id == escape_text(project_id))
        return await self._read(
            lambda connection: [
                row_mapping.server_from(row) for row in connection.execute(wanted).mappings()
            ]
        )

    async def save_server(self, server: StoredServer) -> None:
        """Insert, or replace the one with this `server_id`."""
        row = row_mapping.server_row(server)
        statement = self._insert(_tables.servers).on_conflict_do_update(
            index_elements=["server_id"], set_=row
        )

        def save(connection: Connection) -> None:
            connection.execute(statement, row)
            access.changed(connection, self._insert)

        await self._write(save)

    async def delete_server(self, server_id: str) -> bool:
        """Remove a server; False when there was none."""
        statement = delete(_tables.servers).where(
            _tables.servers.c.server_id == escape_text(server_id)
        )

        def remove(connection: Connection) -> bool:
            gone = connection.execute(statement).rowcount > 0
            access.changed(connection, self._insert)
            return gone

        return await self._write(remove)

    async def snapshots(self, project_id: str) -> list[StoredSnapshot]:
        """The last listing of every server of a project."""
        table = _tables.snapshots
        wanted = (
            select(table)
            .where(table.c.project_id == escape_text(project_id))
            .order_by(table.c.server)
        )
        return await self._read(
            lambda connection: [
                row_mapping.snapshot_from(row) for row in connection.execute(wanted).mappings()
            ]
        )

    async def save_snapshot(self, snapshot: StoredSnapshot) -> None:
        """Insert or replace by project and server; skipped when the digest is the stored one."""
        table = _tables.snapshots
        key = _snapshot_key(snapshot.project_id, snapshot.server)

        def save(connection: Connection) -> None:
            stored = connection.execute(select(table.c.digest, table.c.seen_at).where(key)).first()
            if stored is None or stored.digest != snapshot.digest:
                row = row_mapping.snapshot_row(snapshot)
                statement = self._insert(table).on_conflict_do_update(
                    index_elements=["project_id", "server"], set_=row
                )
                connection.execute(statement, row)
            elif stored.seen_at[:10] < snapshot.listed_at[:10]:  # another day
                connection.execute(update(table).where(key).values(seen_at=snapshot.listed_at))

        await self._write(save)

    async def delete_snapshot(self, project_id: str, server: str) -> None:
        """Remove the listing of a server."""
        statement = delete(_tables.snapshots).where(_snapshot_key(project_id, server))
        await self._write(lambda connection: connection.execute(statement))

    async def append_audit(self, records: Sequence[AuditRecord]) -> None:
        """Write records; all or none of them. A record that is there already is left alone."""
        if not records:
            return
        columns, text = self._audit_insert
        rows = [row_mapping.audit_row(record) for record in records]

        def append(connection: Connection) -> None:
            new = audit_chain.linked(connection, self._insert, rows)
            if new:
                values: list[Any] = (
                    [tuple(map(row.__getitem__, columns)) for row in new] if columns else new
                )
                connection.exec_driver_sql(text, values)

        await self._write(append)

    @cached_property
    def _audit_insert(self) -> tuple[Sequence[str], str]:
        """Columns in the order of their places, empty where places have names, and the SQL text.

        Two records a call are written all day: handing SQLAlchemy's own preparation of each row
        out saves a third of the writer's time.
        """
        compiled = self._insert(_tables.audit).compile(dialect=self._engine.dialect)
        return tuple(compiled.positiontup or ()), str(compiled)

    async def audit(self, wanted: AuditFilter) -> list[AuditRecord]:
        """Records that fit, in the order asked for."""
        return await self._read(lambda opened: audit_search.find(opened, wanted))

    async def audit_ends(self) -> AuditChainEnds:
        """Where the chain of the audit begins and ends."""
        return await self._read(audit_chain.ends)

    async def audit_links(self, after: int, *, limit: int) -> list[AuditChainLink]:
        """Records in the order of the chain, those after a place."""
        return await self._read(lambda opened: audit_chain.links(opened, after, limit))

    async def audit_anchors(self) -> list[AuditAnchor]:
        """The signed places of the chain, in its order."""
        return await self._read(audit_chain.anchors)

    async def save_audit_anchor(self, anchor: AuditAnchor) -> None:
        """Keep a signed place; one that is there stays."""
        await self._write(lambda opened: audit_chain.save_anchor(opened, self._insert, anchor))

    async def append_usage(
        self, searches: Sequence[StoredSearch], uses: Sequence[StoredUse]
    ) -> None:
        """Write to the usage log; all or nothing. What is there already is left alone."""
        await self._write(
            lambda connection: _usage.append(connection, self._insert, searches, uses)
        )

    async def usage(self, wanted: UsageFilter) -> list[UsageEntry]:
        """Searches that fit, newest first, each with all that became of it."""
        return await self._read(lambda connection: _usage.find(connection, wanted))

    async def clear_usage(self, project_id: str) -> int:
        """Forget what a project searched and used; gives the number of searches."""
        return await self._write(lambda connection: _usage.clear(connection, project_id))

    async def append_detections(self, detections: Sequence[StoredDetection]) -> None:
        """Note what messages were taken for; all or nothing. What is there is left alone."""
        await self._write(
            lambda connection: _detections.append(connection, self._insert, detections)
        )

    async def detections(self, wanted: DetectionFilter) -> list[StoredDetection]:
        """Detections that fit, newest first."""
        return await self._read(lambda connection: _detections.find(connection, wanted))

    async def detection_counts(self, wanted: DetectionFilter) -> list[DetectionCount]:
        """How many fit, of each project, outcome, stage and intent, in this order."""
        return await self._read(lambda connection: _detections.counts(connection, wanted))

    async def clear_detections(self, project_id: str) -> int:
        """Forget what messages of a project were taken for; gives their number."""
        return await self._write(lambda connection: _detections.clear(connection, project_id))

    async def schema(self, project_id: str, connection: str) -> StoredSchema | None:
        """The last version of the schema of a connection, with its content."""
        return await self._read(
            lambda opened: database_schemas.last(opened, project_id, connection)
        )

    async def schema_versions(
        self, project_id: str, connection: str, *, limit: int
    ) -> list[StoredSchema]:
        """Versions of the schema of a connection without their content, newest first."""
        return await self._read(
            lambda opened: database_schemas.find(opened, project_id, connection, limit)
        )

    async def save_schema(self, schema: StoredSchema) -> bool:
        """Add a version; False when there is one of this number."""
        return await self._write(lambda opened: database_schemas.add(opened, self._insert, schema))

    async def see_schema(self, project_id: str, connection: str, number: int, at: str) -> None:
        """Note that a version was seen again."""
        await self._write(
            lambda opened: database_schemas.see(opened, project_id, connection, number, at)
        )

    async def seen_tools(self, project_id: str, server: str | None = None) -> list[ToolFingerprint]:
        """Tools as they were seen, of a server or of all, by server and name."""
        return await self._read(lambda opened: tool_fingerprints.find(opened, project_id, server))

    async def save_seen_tools(
        self, tools: Sequence[ToolFingerprint], *, changed: Collection[str] = ()
    ) -> None:
        """Write tools as they were seen, over what is there; all or nothing."""
        if tools:
            await self._write(
                lambda opened: tool_fingerprints.save(opened, self._insert, tools, changed)
            )

    async def tool_versions(self, project_id: str, server: str, tool: str) -> list[ToolVersion]:
        """Definitions of a tool that were replaced, the last replaced first."""
        return await self._read(
            lambda opened: tool_fingerprints.versions(opened, project_id, server, tool)
        )

    async def forget_seen_tools(self, project_id: str, server: str) -> None:
        """Forget the tools of a server."""
        await self._write(lambda opened: tool_fingerprints.forget(opened, project_id, server))

    async def park_approval(self, wanted: StoredApproval) -> StoredApproval:
        """Keep it, or give the one that holds its place."""
        return await self._write(lambda opened: _approvals.park(opened, self._insert, wanted))

    async def approval(self, approval_id: str, *, now: str) -> StoredApproval | None:
        """One by its id."""
        return await self._read(lambda opened: _approvals.one(opened, approval_id, now))

    async def approvals(self, wanted: ApprovalFilter, *, now: str) -> list[StoredApproval]:
        """Those that fit, newest first."""
        return await self._read(lambda opened: _approvals.find(opened, wanted, now))

    async def decide_approval(
        self,
        approval_id: str,
        *,
        state: Literal["approved", "rejected"],
        by: str,
        via: str,
        comment: str,
        edited: str | None,
        now: str,
    ) -> bool:
        """Decide one that waits; False: it does not wait any more."""
        values: dict[str, Any] = {
            "state": state,
            "decided_at": now,
            "decided_by": by,
            "decided_via": via,
            "comment": comment,
            "edited": edited,
        }
        return await self._write(lambda opened: _approvals.decide(opened, approval_id, values, now))

    async def claim_approval(self, approval_id: str, *, step: int, now: str) -> bool:
        """Take the one right to run that an approval gives."""
        return await self._write(lambda opened: _approvals.claim(opened, approval_id, step, now))

    async def save_result(self, result: StoredResult) -> None:
        """Keep a large result."""
        row = row_mapping.result_row(result)
        statement = self._insert(_tables.results).on_conflict_do_update(
            index_elements=["handle"], set_=row
        )
        await self._write(lambda connection: connection.execute(statement, row))

    async def result(self, handle: str) -> StoredResult | None:
        """A stored result; None when there is none. The caller checks owner and expiry."""
        statement = select(_tables.results).where(_tables.results.c.handle == escape_text(handle))

        def find(connection: Connection) -> StoredResult | None:
            row = connection.execute(statement).mappings().first()
            return None if row is None else row_mapping.result_from(row)

        return await self._read(find)

    async def secret(self, name: str) -> bytes:
        """32 random bytes by name, made on first use; the same for every process of this store."""
        statement = select(_tables.secrets.c.value).where(
            _tables.secrets.c.name == escape_text(name)
        )

        def find(connection: Connection) -> bytes | None:
            return connection.execute(statement).scalar()

        def make(connection: Connection) -> bytes:
            row = {"name": escape_text(name), "value": token_bytes(32), "created_at": utc_now()}
            connection.execute(self._insert(_tables.secrets).on_conflict_do_nothing(), row)
            return connection.execute(statement).scalar_one()

        return await self._read(find) or await self._write(make)

    async def prune(
        self,
        retention: Retention,
        *,
        now: str,
        configured: Collection[tuple[str, str]] = (),
        sign: Callable[[int, str], AuditAnchor] | None = None,
    ) -> PrunedCounts:
        """Remove what is older or larger than allowed, a portion in each transaction."""
        today = datetime.fromisoformat(now)
        results, snapshots = _tables.results, _tables.snapshots
        await self._write(lambda connection: _mark_seen(connection, configured, now))
        oldest_listing = utc_text(today - timedelta(days=retention.snapshot_days))
        pruned = PrunedCounts(
            audit_records=await self._prune_audit(retention, today, sign),
            results=await self._drop(results, results.c.expires_at <= now)
            + await self._shrink(
                results, (results.c.expires_at, results.c.handle), retention.results_max_bytes
            ),
            snapshots=await self._drop(
                snapshots, (snapshots.c.seen_at < oldest_listing) & ~_has_server()
            ),
            usage=await self._prune_usage(retention, today),
            schemas=await self._prune_schemas(retention, today),
            tool_versions=await self._prune_old(
                _tables.tool_versions,
                ("replaced_at", "version_id"),
                today,
                retention.tool_version_days,
                retention.tool_version_max_bytes,
            ),
            detections=await self._prune_old(
                _tables.detections,
                ("at", "detection_id"),
                today,
                retention.detection_days,
                retention.detection_max_bytes,
            ),
            approvals=await self._drop(
                _tables.approvals,
                _tables.approvals.c.expires_at
                < utc_text(today - timedelta(days=retention.approval_days)),
            ),
            threads=await self._prune_old(
                _tables.threads,
                ("used_at", "thread_id"),
                today,
                retention.thread_days,
                retention.thread_max_bytes,
            ),
            statements=await self._prune_old(
                _tables.statements,
                ("at", "statement_id"),
                today,
                retention.statement_days,
                retention.statement_max_bytes,
            ),
        )
        sessions = _tables.sessions
        await self._drop(sessions, sessions.c.expires_at <= now)
        await anyio.to_thread.run_sync(self._release_space, limiter=self._writes)
        return pruned

    async def _prune_audit(
        self,
        retention: Retention,
        today: datetime,
        sign: Callable[[int, str], AuditAnchor] | None,
    ) -> int:
        """The chain loses its beginning, never a link from its middle."""
        audit = _tables.audit
        oldest = utc_text(today - timedelta(days=retention.audit_days))
        most = retention.audit_max_bytes
        unchained = audit.c.seq.is_(None)
        removed = await self._drop(audit, unchained & (audit.c.at < oldest))
        age = (audit.c.at, audit.c.record_id)
        removed += await self._shrink(audit, age, most, where=unchained)
        last = await self._read(
            lambda opened: audit_chain.last_doomed(opened, oldest=oldest, max_bytes=most)
        )
        if last is None:
            return removed
        if sign is not None:
            await self.save_audit_anchor(sign(*last))
        while count := await self._write(lambda opened: audit_chain.cut(opened, last[0], _PORTION)):
            removed += count
        return removed

    async def _prune_usage(self, retention: Retention, today: datetime) -> int:
        searches, uses = _tables.usage_searches, _tables.usage_uses
        oldest = utc_text(today - timedelta(days=retention.usage_days))
        # A use may be written a moment before its search.
        settled = utc_text(today - timedelta(hours=1))
        return (
            await self._drop(searches, searches.c.at < oldest)
            + await self._shrink(
                searches, (searches.c.at, searches.c.search_id), retention.usage_max_bytes
            )
            + await self._drop(uses, _usage.is_orphan(settled))
        )

    async def _prune_old(
        self, table: Table, age: tuple[str, str], today: datetime, days: float, max_bytes: int
    ) -> int:
        """Rows that are older than so many days, then the oldest of what is too much.

        Args:
            table: Its rows have a size.
            age: Columns by which rows are old: a time, then what tells rows of one time apart.
            today: The time now.
            days: How old a row may become.
            max_bytes: How large all may be together.
        """
        since, number = (table.c[name] for name in age)
        old = since < utc_text(today - timedelta(days=days))
        return await self._drop(table, old) + await self._shrink(table, (since, number), max_bytes)

    async def _prune_schemas(self, retention: Retention, today: datetime) -> int:
        oldest = utc_text(today - timedelta(days=retention.schema_days))
        most = retention.schema_max_bytes
        return await self._write(
            lambda opened: database_schemas.prune(opened, before=oldest, max_bytes=most)
        )

    def waiting(self) -> dict[str, int]:
        """How many wait for their turn to `read` and to `write`."""
        return {
            "read": self._reads.statistics().tasks_waiting,
            "write": self._writes.statistics().tasks_waiting,
        }

    async def sizes(self) -> dict[str, int]:
        """Bytes in all (`total`) and rows by table, for `doctor`."""

        def measure(connection: Connection) -> dict[str, int]:
            rows = {
                name: connection.execute(select(func.count()).select_from(table)).scalar_one()
                for name, table in _tables.metadata.tables.items()
            }
            return {"total": self._total_bytes(connection), **rows}

        return await self._read(measure)

    async def exists(self) -> bool:
        """Whether there is anything to look after; makes nothing."""
        return await self._read(
            lambda connection: schema_version.read_status(connection).kind != "empty"
        )

    async def check(self) -> IntegrityReport:
        """Examine the database; changes nothing."""

        def examine(connection: Connection) -> IntegrityReport:
            standing = schema_version.read_status(connection)
            problems = schema_version.schema_problems(connection, standing) + self._damage(
                connection
            )
            return IntegrityReport(schema=standing.found, problems=tuple(problems))

        return await self._read(examine)

    async def restore(self, source: Path) -> dict[str, int]:
        """Replace everything by what a backup holds, all or nothing; gives rows by table."""

        def replace(connection: Connection) -> dict[str, int]:
            with backups.opened(source) as backup:
                return backups.replace_rows(backup, connection)

        return await self._write(replace)

    def _damage(self, connection: Connection) -> list[str]:  # noqa: ARG002
        """What the database itself finds wrong in its files."""
        return []

    def _total_bytes(self, connection: Connection) -> int:
        """Bytes that the database takes."""
        raise NotImplementedError

    def _release_space(self) -> None:
        """Give space that a clean-up freed back to the system, where that is needed."""

    async def _drop(self, table: Table, condition: ColumnElement[bool]) -> int:
        key = tuple(table.primary_key.columns)
        doomed = select(*key).where(condition).limit(_PORTION)
        statement = delete(table).where(tuple_(*key).in_(doomed))
        dropped = 0
        while True:
            count = await self._write(lambda connection: connection.execute(statement).rowcount)
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
        """Remove the oldest rows, of those that may go, until all have at most `max_bytes`."""
        may_go = true() if where is None else where
        total = func.coalesce(func.sum(table.c.size_bytes), 0)
        excess = await self._read(
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
            count, freed = await self._write(remove)
            removed, excess = removed + count, excess - freed
        return removed

    async def reading(self, work: Callable[[Any], T]) -> T:
        """Read with the driver's connection. Cancelling does not wait for it."""

        def read(connection: Connection) -> T:
            return work(_driver(connection))

        return await self._run(read, self._engine, self._reads, abandon_on_cancel=True)

    async def writing(self, work: Callable[[Any], T]) -> T:
        """Read and write with the driver's connection, all or nothing."""
        return await self._write(lambda connection: work(_driver(connection)))

    async def maintaining(self, work: Callable[[Any], T]) -> T:
        """Run what no transaction allows."""
        engine = self._engine.execution_options(isolation_level="AUTOCOMMIT")

        def run() -> T:
            with self._translated(), engine.connect() as connection:
                return work(_driver(connection))

        return await anyio.to_thread.run_sync(run, limiter=self._writes)

    async def _read(self, work: Callable[[Connection], T]) -> T:
        return await self._run(work, self._engine, self._reads)

    async def _write(self, work: Callable[[Connection], T]) -> T:
        return await self._run(work, self._writing_engine, self._writes)

    async def _run(
        self,
        work: Callable[[Connection], T],
        engine: Engine,
        limiter: anyio.CapacityLimiter,
        *,
        abandon_on_cancel: bool = False,
    ) -> T:
        """One transaction in a thread, for which whoever has little patience does not wait."""
        mine = current_deadline()
        attempt = None if mine is None else TransactionAttempt()
        running = anyio.to_thread.run_sync(
            self._transact,
            work,
            engine,
            attempt,
            limiter=limiter,
            abandon_on_cancel=abandon_on_cancel,
        )
        if mine is None or attempt is None:
            return await running
        return await mine.wait_for(running, attempt, saves=engine is self._writing_engine)

    @cached_property
    def _writing_engine(self) -> Engine:
        """The same engine, whose transactions take their lock at once."""
        return self._engine.execution_options(toolgate_writes=True)

    def _transact(
        self,
        work: Callable[[Connection], T],
        engine: Engine,
        attempt: TransactionAttempt | None = None,
    ) -> T:
        if attempt is None:
            with self._alone, self._translated(), engine.begin() as connection:
                return work(connection)
        attempt.may_begin()
        try:
            with self._alone, self._translated(), engine.begin() as connection:
                attempt.may_begin()  # again: the lock may have been waited for
                done = work(connection)
                attempt.may_commit()
        except StoreError as error:
            if not _is_cut(error.__cause__):
                attempt.has_failed()
            raise
        attempt.was_kept()
        return done

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except (SQLAlchemyError, *self._driver_errors, OSError) as error:
            raise StoreError(
                f"The store {self._url} did not work: {_reason(error)}.", hint=_hint(error)
            ) from error


def _driver(connection: Connection) -> Any:
    """The connection below SQLAlchemy's."""
    return connection.connection.driver_connection


def _is_cut(error: BaseException | None) -> bool:
    """Whether the connection broke, so that nobody knows what a commit has come to."""
    return isinstance(error, DBAPIError) and error.connection_invalidated


def _reason(error: Exception) -> str:
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    lines = str(cause).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(cause).__name__


def _hint(error: Exception) -> str:
    reason = _reason(error).lower()
    for words, hint in _HINTS.items():
        if words in reason:
            return hint
    return ""


_HINTS = {
    "disk is full": "Make room on its disk.",
    "no space left": "Make room on its disk.",
    "disk i/o error": "Look whether its disk is full or failing.",
    "locked": "Another program holds it for long: end that, or wait.",
    "readonly": "Make the file and its folder writable for this user.",
    "permission denied": "Make the file and its folder writable for this user.",
    "unable to open": "Look whether its folder exists and may be written.",
    "malformed": "Restore a backup with toolgate db restore FILE.",
    "not a database": "Set store.url to another file, or restore a backup.",
    "connection refused": "Look whether the database runs, and correct store.url.",
    "no such table": "Open it first, or run toolgate db upgrade.",
}


def _snapshot_key(project_id: str, server: str) -> ColumnElement[bool]:
    table = _tables.snapshots
    return (table.c.project_id == escape_text(project_id)) & (table.c.server == escape_text(server))


def _has_server() -> ColumnElement[bool]:
    servers, snapshots = _tables.servers, _tables.snapshots
    return exists(
        select(servers.c.server_id).where(
            servers.c.project_id == snapshots.c.project_id, servers.c.name == snapshots.c.server
        )
    )


def _mark_seen(connection: Connection, known: Collection[tuple[str, str]], now: str) -> None:
    for project_id, server in known:
        connection.execute(
            update(_tables.snapshots).where(_snapshot_key(project_id, server)).values(seen_at=now)
        )
