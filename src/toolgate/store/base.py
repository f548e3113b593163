"""The interface of a store: everything that a database must keep for Toolgate. Contains no SQL."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from toolgate.store.repositories.access import AccessRepository, ProjectRepository
from toolgate.store.repositories.approvals import ApprovalRepository
from toolgate.store.repositories.audit import AuditAnchor, AuditRepository
from toolgate.store.repositories.catalog import CatalogRepository
from toolgate.store.repositories.console_sessions import SessionRepository
from toolgate.store.repositories.credentials import CredentialRepository
from toolgate.store.repositories.detections import DetectionRepository
from toolgate.store.repositories.documents import DocumentRepository
from toolgate.store.repositories.prompts import PromptRepository
from toolgate.store.repositories.results import ResultRepository
from toolgate.store.repositories.schemas import SchemaRepository
from toolgate.store.repositories.servers import ServerRepository
from toolgate.store.repositories.statements import StatementRepository
from toolgate.store.repositories.threads import ThreadRepository
from toolgate.store.repositories.usage import UsageRepository

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Retention:
    """Limits on the age and size of stored data."""

    audit_days: float = 90.0
    """Days to keep audit records."""

    audit_max_bytes: int = 512 * 2**20
    """Largest estimated size of the audit log in bytes; the oldest records are deleted first."""

    results_max_bytes: int = 256 * 2**20
    """Largest size of stored results in bytes; the oldest are deleted first, expired ones
    always."""

    snapshot_days: float = 30.0
    """Days to keep the last listing of a removed server."""

    usage_days: float = 180.0
    """Days to keep the usage log."""

    usage_max_bytes: int = 64 * 2**20
    """Largest estimated size of the usage log in bytes; the oldest entries are deleted first."""

    detection_days: float = 180.0
    """Days to keep detected intents."""

    detection_max_bytes: int = 64 * 2**20
    """Largest estimated size of detected intents in bytes; the oldest are deleted first."""

    schema_days: float = 730.0
    """Days to keep versions of database schemas; the current version of each connection stays."""

    schema_max_bytes: int = 256 * 2**20
    """Largest size of schema versions in bytes; the oldest are deleted first, current ones
    never."""

    tool_version_days: float = 365.0
    """Days to keep replaced definitions of tools."""

    tool_version_max_bytes: int = 64 * 2**20
    """Largest size of replaced definitions in bytes; the oldest are deleted first."""

    approval_days: float = 30.0
    """Days to keep expired approvals."""

    thread_days: float = 365.0
    """Days to keep threads after their last turn."""

    response_days: float = 30.0
    """Days to keep threads whose names begin with `RESPONSE_PREFIX` after their last turn."""

    thread_max_bytes: int = 1024 * 2**20
    """Largest estimated size of threads in bytes; the least recently used are deleted first."""

    statement_days: float = 90.0
    """Days to keep the log of SQL statements."""

    statement_max_bytes: int = 64 * 2**20
    """Largest estimated size of the log of SQL statements in bytes; the oldest are deleted
    first."""


@dataclass(frozen=True, kw_only=True)
class PrunedCounts:
    """Numbers of rows that a clean-up deleted."""

    audit_records: int = 0
    """Audit records."""

    results: int = 0
    """Stored results."""

    programs: int = 0
    """Expired programs that waited for a person."""

    snapshots: int = 0
    """Listings of removed servers."""

    usage: int = 0
    """Searches of the usage log, and calls whose search was deleted."""

    schemas: int = 0
    """Versions of database schemas."""

    tool_versions: int = 0
    """Replaced definitions of tools."""

    detections: int = 0
    """Detected intents."""

    approvals: int = 0
    """Old expired approvals."""

    threads: int = 0
    """Unused threads."""

    statements: int = 0
    """SQL statements."""


@dataclass(frozen=True, kw_only=True)
class IntegrityReport:
    """The result of checking a database."""

    schema: str | None
    """Schema revision; None if it has none of our tables."""

    problems: tuple[str, ...]
    """Problems as sentences; empty if there are none."""


@dataclass(frozen=True, kw_only=True)
class SchemaUpgrade:
    """The result of upgrading the schema."""

    before: str | None
    """Previous revision; None for a new database."""

    after: str
    """Current revision."""

    copy: Path | None = None
    """Copy of the database from before the upgrade."""


@runtime_checkable
class Store(Protocol):
    """The database of a gateway: one repository per topic.

    Requirements, all checked by `toolgate.testing.contracts.store` on SQLite and PostgreSQL:

    * Methods never block the event loop.
    * Each method is one transaction, all or nothing even after a kill; `prune` is several.
    * A database failure raises `StoreError` with its reason and leaves the store usable.
    * Two processes can use a store at the same time.
    * Within `store_deadline`, no caller waits longer than the deadline, and what callers were
        told is not saved is never saved afterwards.
    """

    @property
    def url(self) -> str:
        """URL of the database, without password."""
        ...

    @property
    def vector_backend(self) -> str:
        """The implementation in `store/vectors` that keeps vectors in this database."""
        ...

    @property
    def projects(self) -> ProjectRepository:
        """Projects."""
        ...

    @property
    def access(self) -> AccessRepository:
        """Tokens, permission rules and guards."""
        ...

    @property
    def servers(self) -> ServerRepository:
        """Servers added by command, API or console."""
        ...

    @property
    def catalog(self) -> CatalogRepository:
        """Tool listings of servers and the definitions in them."""
        ...

    @property
    def audit(self) -> AuditRepository:
        """Audit records and their signed chain."""
        ...

    @property
    def usage(self) -> UsageRepository:
        """The usage log: searches, their results, and calls."""
        ...

    @property
    def detections(self) -> DetectionRepository:
        """Detected intents of messages."""
        ...

    @property
    def schemas(self) -> SchemaRepository:
        """Schema versions of connected databases."""
        ...

    @property
    def statements(self) -> StatementRepository:
        """SQL statements run on connected databases."""
        ...

    @property
    def approvals(self) -> ApprovalRepository:
        """Calls that need a person's approval."""
        ...

    @property
    def credentials(self) -> CredentialRepository:
        """Encrypted credentials for servers."""
        ...

    @property
    def sessions(self) -> SessionRepository:
        """Sessions of the console."""
        ...

    @property
    def threads(self) -> ThreadRepository:
        """Chat threads."""
        ...

    @property
    def prompts(self) -> PromptRepository:
        """Customised prompts."""
        ...

    @property
    def documents(self) -> DocumentRepository:
        """Collections of documents and their passages."""
        ...

    @property
    def results(self) -> ResultRepository:
        """Results that are too large for one answer."""
        ...

    def cache_path(self, data_dir: Path) -> Path | None:
        """Path prefix of cache files for data computed from this store; None: no cache files.

        Args:
            data_dir: Data folder, for stores that are not files.
        """
        ...

    async def open(self) -> None:
        """Connect, and upgrade the schema if that is allowed.

        SQLite: the file is copied next to itself, then migrated. PostgreSQL: an empty database
        is migrated; an old schema is rejected until `toolgate db upgrade` was run.

        Raises:
            StoreVersionError: The schema is newer than this program, from before the first
                release, or old and not upgraded.
            StoreError: The database cannot be reached or written.
        """
        ...

    async def close(self) -> None:
        """Close all connections. Can be called twice."""
        ...

    async def secret(self, name: str) -> bytes:
        """32 random bytes by name, created on first use, shared by all processes of a store."""
        ...

    async def prune(
        self,
        retention: Retention,
        *,
        now: str,
        configured: Collection[tuple[str, str]] = (),
        sign: Callable[[int, str], AuditAnchor] | None = None,
    ) -> PrunedCounts:
        """Delete old and excess rows, in a series of small transactions.

        Args:
            retention: The limits.
            now: UTC, ISO 8601.
            configured: Project and name of servers without a row in the store, such as those
                from files; their listings stay.
            sign: Signs position and hash of the last audit record to be deleted, before any is;
                without a signature, a clean-up cannot be told from tampering.
        """
        ...

    def waiting(self) -> Mapping[str, int]:
        """Numbers of transactions waiting to `read` and to `write`."""
        ...

    async def sizes(self) -> dict[str, int]:
        """Total size in bytes (`total`) and number of rows by table, for `toolgate doctor`."""
        ...


@runtime_checkable
class RelocatableStore(Protocol):
    """A new store that can begin in memory while its disk is full or not writable."""

    async def open_in_memory(self) -> bool:
        """Begin in memory; False if there is a store on the disk already, or something else.

        Raises:
            StoreError: The disk cannot be read.
        """
        ...

    async def move_to_disk(self) -> None:
        """Move everything to the disk and go on there.

        Raises:
            StoreError: The disk cannot be written yet, or there is a store on it now; everything
                stays in memory.
        """
        ...


@runtime_checkable
class StoreMaintenance(Protocol):
    """The operations behind `toolgate db`; all of them work while other processes use the store.

    A backup is a SQLite file for every database, so that one kind of store can be moved to
    another.
    """

    async def exists(self) -> bool:
        """Whether the database exists; creates nothing.

        Raises:
            StoreError: The database cannot be reached.
        """
        ...

    async def upgrade(self) -> SchemaUpgrade:
        """Upgrade the schema; concurrent processes do it only once.

        Raises:
            StoreVersionError: The schema is newer than this program, or from before the first
                release.
            StoreError: The database cannot be reached or written.
        """
        ...

    async def check(self) -> IntegrityReport:
        """Check the database without changing it.

        Raises:
            StoreError: It does not exist or cannot be read.
        """
        ...

    async def backup(self, target: Path) -> None:
        """Write a consistent copy to a file; the file is complete or does not exist.

        Raises:
            StoreError: The database or the file cannot be used.
            StoreVersionError: The schema is newer than this program, or from before the first
                release.
        """
        ...

    async def restore(self, source: Path) -> dict[str, int]:
        """Replace everything with a backup, all or nothing. Returns the number of rows by table.

        Raises:
            StoreError: The file is not a backup, or the database cannot be used.
            StoreVersionError: The backup is newer than this program, or from before the first
                release.
        """
        ...


@runtime_checkable
class SqlAccess(Protocol):
    """Direct access to the database, for code that keeps much data in it, such as vectors.

    Work receives the driver's connection (`sqlite3`, `psycopg`) in a thread, within a
    transaction that is committed when it returns. Errors of the database become `StoreError`.
    """

    async def reading(self, work: Callable[[Any], T]) -> T:
        """Run work that reads. Cancelling does not wait for it; its thread then ends by itself."""
        ...

    async def writing(self, work: Callable[[Any], T]) -> T:
        """Run work that reads and writes, all or nothing."""
        ...

    async def maintaining(self, work: Callable[[Any], T]) -> T:
        """Run work that must not be in a transaction, such as `CREATE INDEX CONCURRENTLY`."""
        ...
