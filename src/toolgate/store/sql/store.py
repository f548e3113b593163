"""The SQL store: one repository per topic over one database, with maintenance."""

from collections.abc import Callable, Collection
from pathlib import Path
from secrets import token_bytes
from zlib import crc32

import anyio.to_thread
from sqlalchemy import Connection, Engine, func, select

from toolgate.base.ids import utc_now
from toolgate.store.base import IntegrityReport, PrunedCounts, Retention
from toolgate.store.engine import backups, schema_version, tables
from toolgate.store.engine.database import Insert, SqlDatabase
from toolgate.store.engine.text import escape_text
from toolgate.store.repositories.audit import AuditAnchor
from toolgate.store.sql.audit.records import SqlAudit
from toolgate.store.sql.catalog import SqlCatalog
from toolgate.store.sql.detections import SqlDetections
from toolgate.store.sql.documents import SqlDocuments
from toolgate.store.sql.prompts import SqlPrompts
from toolgate.store.sql.pruning import Pruning
from toolgate.store.sql.results import SqlResults
from toolgate.store.sql.schemas import SqlSchemas
from toolgate.store.sql.security.access import SqlAccessRules, SqlProjects
from toolgate.store.sql.security.approvals import SqlApprovals
from toolgate.store.sql.security.credentials import SqlCredentials
from toolgate.store.sql.security.sessions import SqlSessions
from toolgate.store.sql.servers import SqlServers
from toolgate.store.sql.statements import SqlStatements
from toolgate.store.sql.threads import SqlThreads
from toolgate.store.sql.tool_texts import SqlToolTexts
from toolgate.store.sql.usage import SqlUsage


class SqlStore(SqlDatabase):
    """What SQLite and PostgreSQL share; subclasses add their engine and maintenance."""

    def __init__(self, engine: Engine, url: str, *, insert: Insert, writers: int) -> None:
        super().__init__(engine, url, insert=insert, writers=writers)
        is_sqlite = engine.dialect.name == "sqlite"
        self.access = SqlAccessRules(self, shares_limits=engine.dialect.name == "postgresql")
        self.approvals = SqlApprovals(self)
        self.audit = SqlAudit(self)
        self.catalog = SqlCatalog(self, SqlToolTexts(self, is_sqlite=is_sqlite))
        self.credentials = SqlCredentials(self)
        self.detections = SqlDetections(self)
        self.documents = SqlDocuments(self, is_sqlite=is_sqlite)
        self.projects = SqlProjects(self)
        self.prompts = SqlPrompts(self)
        self.results = SqlResults(self)
        self.schemas = SqlSchemas(self)
        self.servers = SqlServers(self)
        self.sessions = SqlSessions(self)
        self.statements = SqlStatements(self)
        self.threads = SqlThreads(self)
        self.usage = SqlUsage(self)

    def cache_path(self, data_dir: Path) -> Path | None:
        """Path prefix of cache files for data computed from this store; None: no cache files."""
        return data_dir / f"store-{crc32(self.url.encode()):08x}"

    async def secret(self, name: str) -> bytes:
        """32 random bytes by name, created on first use, shared by all processes of a store."""
        table = tables.secrets
        query = select(table.c.value).where(table.c.name == escape_text(name))

        def read(connection: Connection) -> bytes | None:
            return connection.execute(query).scalar()

        def create(connection: Connection) -> bytes:
            row = {"name": escape_text(name), "value": token_bytes(32), "created_at": utc_now()}
            connection.execute(self.insert(table).on_conflict_do_nothing(), row)
            return connection.execute(query).scalar_one()

        return await self.read(read) or await self.write(create)

    async def prune(
        self,
        retention: Retention,
        *,
        now: str,
        configured: Collection[tuple[str, str]] = (),
        sign: Callable[[int, str], AuditAnchor] | None = None,
    ) -> PrunedCounts:
        """Delete old and excess rows, in a series of small transactions."""
        counts = await Pruning(self, retention, now).run(configured, sign)
        await anyio.to_thread.run_sync(self._release_space, limiter=self._writes)
        return counts

    async def sizes(self) -> dict[str, int]:
        """Total size in bytes (`total`) and number of rows by table, for `toolgate doctor`."""

        def measure(connection: Connection) -> dict[str, int]:
            rows = {
                name: connection.execute(select(func.count()).select_from(table)).scalar_one()
                for name, table in tables.metadata.tables.items()
            }
            return {"total": self._total_bytes(connection), **rows}

        return await self.read(measure)

    async def exists(self) -> bool:
        """Whether the database exists; creates nothing."""
        return await self.read(
            lambda connection: schema_version.read_status(connection).kind != "empty"
        )

    async def check(self) -> IntegrityReport:
        """Check the database without changing it."""

        def examine(connection: Connection) -> IntegrityReport:
            standing = schema_version.read_status(connection)
            problems = schema_version.schema_problems(connection, standing) + self._damage(
                connection
            )
            return IntegrityReport(schema=standing.found, problems=tuple(problems))

        return await self.read(examine)

    async def restore(self, source: Path) -> dict[str, int]:
        """Replace everything with a backup, all or nothing. Returns the number of rows by table."""

        def replace(connection: Connection) -> dict[str, int]:
            with backups.opened(source) as backup:
                return backups.replace_rows(backup, connection)

        return await self.write(replace)

    def _damage(self, connection: Connection) -> list[str]:  # noqa: ARG002
        """Return the problems that the database finds in its own files."""
        return []

    def _total_bytes(self, connection: Connection) -> int:
        """Return the size of the database in bytes."""
        raise NotImplementedError

    def _release_space(self) -> None:
        """Return space that a clean-up freed to the system, if that is necessary."""
