"""What a database must store for Toolgate: the contract of every store. Knows no SQL."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from toolgate.store.repositories.access import AccessRepository, ProjectRepository
from toolgate.store.repositories.approvals import ApprovalRepository
from toolgate.store.repositories.audit import AuditAnchor, AuditRepository
from toolgate.store.repositories.catalog import CatalogRepository
from toolgate.store.repositories.credentials import CredentialRepository
from toolgate.store.repositories.detections import DetectionRepository
from toolgate.store.repositories.documents import DocumentRepository
from toolgate.store.repositories.prompts import PromptRepository
from toolgate.store.repositories.results import ResultRepository
from toolgate.store.repositories.schemas import SchemaRepository
from toolgate.store.repositories.servers import ServerRepository
from toolgate.store.repositories.sessions import SessionRepository
from toolgate.store.repositories.statements import StatementRepository
from toolgate.store.repositories.threads import ThreadRepository
from toolgate.store.repositories.usage import UsageRepository

__all__ = [
    "IntegrityReport",
    "PrunedCounts",
    "Retention",
    "SchemaUpgrade",
    "SqlAccess",
    "Store",
    "StoreMaintenance",
]

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Retention:
    """How long and how much is kept on disk."""

    audit_days: float = 90.0
    """Days of audit records."""

    audit_max_bytes: int = 512 * 2**20
    """Estimated bytes of audit records; the oldest go first."""

    results_max_bytes: int = 256 * 2**20
    """Bytes of stored results; the oldest go first. Expired ones always go."""

    snapshot_days: float = 30.0
    """Days that the last listing of a removed server is kept."""

    usage_days: float = 180.0
    """Days of the usage log."""

    usage_max_bytes: int = 64 * 2**20
    """Estimated bytes of the usage log; the oldest go first."""

    detection_days: float = 180.0
    """Days that it is kept what messages were taken for."""

    detection_max_bytes: int = 64 * 2**20
    """Estimated bytes of that; the oldest go first."""

    schema_days: float = 730.0
    """Days of versions of schemas; the last one of each connection stays."""

    schema_max_bytes: int = 256 * 2**20
    """Bytes of versions of schemas; the oldest go first, the last one of each connection stays."""

    tool_version_days: float = 365.0
    """Days that definitions of tools are kept after others came in their place."""

    tool_version_max_bytes: int = 64 * 2**20
    """Bytes of such definitions; the oldest go first."""

    approval_days: float = 30.0
    """Days that approvals are kept after they have expired."""

    thread_days: float = 365.0
    """Days that threads are kept after their last turn."""

    thread_max_bytes: int = 1024 * 2**20
    """Estimated bytes of threads; those that were not used for longest go first."""

    statement_days: float = 90.0
    """Days that it is kept what was asked of connected databases."""

    statement_max_bytes: int = 64 * 2**20
    """Estimated bytes of that; the oldest go first."""


@dataclass(frozen=True, kw_only=True)
class PrunedCounts:
    """What a clean-up removed."""

    audit_records: int = 0
    """Audit records."""

    results: int = 0
    """Stored results."""

    programs: int = 0
    """Programs that waited too long for a person."""

    snapshots: int = 0
    """Listings of servers that are gone."""

    usage: int = 0
    """Searches of the usage log, and uses whose search is gone."""

    schemas: int = 0
    """Versions of schemas."""

    tool_versions: int = 0
    """Definitions of tools that were replaced."""

    detections: int = 0
    """Notes of what messages were taken for."""

    approvals: int = 0
    """Approvals that expired long ago."""

    threads: int = 0
    """Threads that were not used for long."""

    statements: int = 0
    """Notes of what was asked of databases."""


@dataclass(frozen=True, kw_only=True)
class IntegrityReport:
    """What an examination of the database showed."""

    schema: str | None
    """Revision of its schema; None when it has none of our tables."""

    problems: tuple[str, ...]
    """One sentence each; empty when all is well."""


@dataclass(frozen=True, kw_only=True)
class SchemaUpgrade:
    """What bringing the schema up to date did."""

    before: str | None
    """Revision before; None when the database was new."""

    after: str
    """Revision now."""

    copy: Path | None = None
    """Where the database was copied to before it was changed."""


@runtime_checkable
class Store(Protocol):
    """A database with everything relational that Toolgate keeps: one repository per topic.

    Duties, all checked by `toolgate.testing.contracts.store` on SQLite and PostgreSQL:

    * Methods never block the event loop.
    * Each is one transaction: all or nothing, also after a kill; `prune` is several.
    * A failure of the database raises `StoreError` with its reason and leaves the store usable.
    * Two processes may use one store at the same time.
    * Within `store_deadline` nobody waits longer than that says; what callers were told is not
      saved is never saved afterwards.
    """

    @property
    def url(self) -> str:
        """Where it is, without password."""
        ...

    @property
    def vector_backend(self) -> str:
        """Which implementation in `store/vectors` keeps vectors in this database."""
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
        """Servers that were added by command, API or console."""
        ...

    @property
    def catalog(self) -> CatalogRepository:
        """Listings of servers and definitions of their tools."""
        ...

    @property
    def audit(self) -> AuditRepository:
        """Audit records and their signed chain."""
        ...

    @property
    def usage(self) -> UsageRepository:
        """What was searched, shown and executed."""
        ...

    @property
    def detections(self) -> DetectionRepository:
        """Intents that messages were classified as."""
        ...

    @property
    def schemas(self) -> SchemaRepository:
        """Versions of the schemas of connected databases."""
        ...

    @property
    def statements(self) -> StatementRepository:
        """Statements that were run on connected databases."""
        ...

    @property
    def approvals(self) -> ApprovalRepository:
        """Calls that need a person's approval."""
        ...

    @property
    def credentials(self) -> CredentialRepository:
        """Credentials towards servers, encrypted."""
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
        """Texts that replace prompts."""
        ...

    @property
    def documents(self) -> DocumentRepository:
        """Collections of documents and their passages."""
        ...

    @property
    def results(self) -> ResultRepository:
        """Results that were too large for one answer."""
        ...

    def cache_path(self, data_dir: Path) -> Path | None:
        """Path to whose name files are added that cache what was computed from it; None: nowhere.

        Args:
            data_dir: Folder for data that belongs to no file of the store.
        """
        ...

    async def open(self) -> None:
        """Connect, and bring the schema up to date where that is allowed.

        SQLite: the file is copied to the same folder, then migrated. PostgreSQL: a new, empty
        database is migrated; an old one is refused until `toolgate db upgrade` ran.

        Raises:
            StoreVersionError: The schema is newer than this program, or old and not upgraded.
            StoreError: The database cannot be reached or written.
        """
        ...

    async def close(self) -> None:
        """Close connections; may be called twice."""
        ...

    async def secret(self, name: str) -> bytes:
        """32 random bytes by name, made on first use; the same for every process of this store."""
        ...

    async def prune(
        self,
        retention: Retention,
        *,
        now: str,
        configured: Collection[tuple[str, str]] = (),
        sign: Callable[[int, str], AuditAnchor] | None = None,
    ) -> PrunedCounts:
        """Remove what is older or larger than allowed, in small transactions one after another.

        Args:
            retention: The limits.
            now: UTC, ISO 8601.
            configured: Project and name of servers that exist although the store has no row of
                them, such as those from files; their listings stay.
            sign: Signs the number and hash of the last audit record that is to be removed, before
                any is; without it nobody can tell a clean-up from a theft.
        """
        ...

    def waiting(self) -> Mapping[str, int]:
        """How many wait for their turn to `read` and to `write`."""
        ...

    async def sizes(self) -> dict[str, int]:
        """Bytes in all (`total`) and rows by table, for `doctor`."""
        ...


@runtime_checkable
class StoreMaintenance(Protocol):
    """What the commands `toolgate db` need of a store; all of it works while others use it.

    A backup is a SQLite file, whatever the database, so that one kind of store can become another.
    """

    async def exists(self) -> bool:
        """Whether there is anything to look after; makes nothing.

        Raises:
            StoreError: The database cannot be reached.
        """
        ...

    async def upgrade(self) -> SchemaUpgrade:
        """Bring the schema up to date; processes that try it together do it once.

        Raises:
            StoreVersionError: The schema is newer than this program.
            StoreError: The database cannot be reached or written.
        """
        ...

    async def check(self) -> IntegrityReport:
        """Examine the database; changes nothing.

        Raises:
            StoreError: It does not exist or cannot be read.
        """
        ...

    async def backup(self, target: Path) -> None:
        """Write everything to a file as it is at one moment; the file is whole or not there.

        Raises:
            StoreError: The database or the file cannot be used.
            StoreVersionError: The schema is newer than this program.
        """
        ...

    async def restore(self, source: Path) -> dict[str, int]:
        """Replace everything by what a backup holds, all or nothing; gives rows by table.

        Raises:
            StoreError: The file is no backup, or the database cannot be used.
            StoreVersionError: The backup is newer than this program.
        """
        ...


@runtime_checkable
class SqlAccess(Protocol):
    """The way into the database for seams that keep much in it, such as vectors.

    Work gets the connection of the driver (`sqlite3`, `psycopg`) in a thread, within a transaction
    that is committed when it returns. Whatever the database refuses is a `StoreError`.
    """

    async def reading(self, work: Callable[[Any], T]) -> T:
        """Read. Cancelling does not wait for it; the thread then ends by itself."""
        ...

    async def writing(self, work: Callable[[Any], T]) -> T:
        """Read and write, all or nothing."""
        ...

    async def maintaining(self, work: Callable[[Any], T]) -> T:
        """Run what no transaction allows, such as `CREATE INDEX CONCURRENTLY`."""
        ...
