"""The SQLite store: one file, the default, without any server."""

import logging
import sqlite3
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import anyio.to_thread
from sqlalchemy import Connection
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import OperationalError

from toolgate.base.ids import new_id
from toolgate.errors import OptionError, StoreError, StoreVersionError
from toolgate.store.base import IntegrityReport, SchemaUpgrade, Store
from toolgate.store.engine import backups, schema_version, sqlite_file, tables
from toolgate.store.engine.database import is_damage
from toolgate.store.sql.store import SqlStore

log = logging.getLogger(__name__)

_PREFIX = "sqlite://"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Location of the file."""

    url: str
    """`sqlite:///relative/path`, `sqlite:////absolute/path`, `sqlite:///~/path`; `sqlite://` is
    an in-memory database, lost when it is closed."""

    busy_timeout_s: float = 5.0
    """Seconds to wait for another process that writes, before the request fails."""


def build(options: Options) -> "SqliteStore":
    """Create a store; opens nothing yet."""
    return SqliteStore(_path(options.url), busy_timeout_s=options.busy_timeout_s)


def _path(url: str) -> Path:
    if url in {_PREFIX, f"{_PREFIX}/:memory:"}:
        return sqlite_file.MEMORY
    path = url.removeprefix(f"{_PREFIX}/")
    if path in {"", url}:
        raise OptionError(
            f"{url!r} is not the URL of a SQLite file.",
            allowed="Allowed: sqlite:///PATH.",
            hint="Correct store.url.",
        )
    return Path(path).expanduser().absolute()


class SqliteStore(SqlStore):
    """A store in one file, for any number of processes on the same machine."""

    def __init__(self, path: Path, *, busy_timeout_s: float = 5.0) -> None:
        memory = path == sqlite_file.MEMORY
        super().__init__(
            sqlite_file.file_engine(path, busy_timeout_s=busy_timeout_s),
            f"{_PREFIX}/{path}" if not memory else _PREFIX,
            insert=insert,
            writers=1,
        )
        if memory:
            self._use_one_connection()
        self._path = path
        self._busy_timeout_s = busy_timeout_s

    @property
    def vector_backend(self) -> str:
        """Name of the backend that stores vectors in the same file."""
        return "sqlite"

    def cache_path(self, data_dir: Path) -> Path | None:  # noqa: ARG002
        """Return the path of the file; None: the database is in memory and nothing is cached."""
        return None if self._path == sqlite_file.MEMORY else self._path

    async def open(self) -> None:
        """Create the file if it does not exist; back up and migrate an older one."""
        await self.upgrade()

    async def upgrade(self) -> SchemaUpgrade:
        """Migrate the schema, as opening does."""
        return await anyio.to_thread.run_sync(self._open, limiter=self._writes)

    async def open_in_memory(self) -> bool:
        """Begin a new store in memory; False if there is one in the file already."""
        return await anyio.to_thread.run_sync(self._open_in_memory, limiter=self._writes)

    def _open_in_memory(self) -> bool:
        with self._translated():
            if sqlite_file.has_tables(self._path):
                return False
            self._replace_engine(sqlite_file.MEMORY)
            self._use_one_connection()
            self._bring_up_to_date()
        return True

    async def move_to_disk(self) -> None:
        """Move a store that began in memory to its file."""
        await anyio.to_thread.run_sync(self._move_to_disk, limiter=self._writes)

    def _move_to_disk(self) -> None:
        with self._alone, self._translated():
            if sqlite_file.has_tables(self._path):
                failure = StoreError(
                    f"Another process has begun a store in {self._path}.", hint="Restart Toolgate."
                )
                failure.retryable = False
                raise failure
            sqlite_file.prepare_file(self._path)
            with self._engine.connect() as connection:
                sqlite_file.copy_into(sqlite_file.driver(connection), self._path)
            self._replace_engine(self._path)
            self._use_wal()

    def _replace_engine(self, path: Path, *, is_exclusive: bool = False) -> None:
        self._engine.dispose()
        self.__dict__.pop("_writing_engine", None)
        self._engine = sqlite_file.file_engine(
            path, busy_timeout_s=self._busy_timeout_s, is_exclusive=is_exclusive
        )

    async def exists(self) -> bool:
        """Whether the file exists and is not empty; creates nothing."""
        return self._path.is_file() and await super().exists()

    async def check(self) -> IntegrityReport:
        """Check the database without changing it."""
        self._require_file()
        try:
            return await super().check()
        except StoreError as error:
            if not is_damage(error.__cause__):
                raise
            return IntegrityReport(schema=None, problems=(str(error),))

    async def backup(self, target: Path) -> None:
        """Write a consistent copy of the database to a file."""
        self._require_file()

        def copy() -> None:
            with self._translated():
                backups.copy_file(self._path, target)

        await anyio.to_thread.run_sync(copy, limiter=self._reads)

    async def restore(self, source: Path) -> dict[str, int]:
        """Replace all rows with a backup; a file that cannot be used is moved away first."""
        await anyio.to_thread.run_sync(self._make_usable, limiter=self._writes)
        return await super().restore(source)

    def _require_file(self) -> None:
        if not self._path.is_file():
            raise StoreError(f"The store {self._url} is not a file.", hint="Correct store.url.")

    def _make_usable(self) -> None:
        try:
            self._open()
            with self._translated(), self._engine.begin() as connection:
                damaged = bool(self._damage(connection))
        except StoreVersionError:
            with self._translated(), self._engine.begin() as connection:
                if schema_version.read_status(connection).kind == "foreign":
                    raise  # a file of another program is not moved
            damaged = True
        except StoreError as error:
            damaged = is_damage(error.__cause__)
            if not damaged:
                raise
        if damaged:
            self._engine.dispose()
            put_aside = f"{self._path.name}.{new_id()[:12]}.damaged"
            for ending in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    self._path.with_name(f"{self._path.name}{ending}").rename(
                        self._path.with_name(f"{put_aside}{ending}")
                    )
            self._open()

    def _use_one_connection(self) -> None:
        self._reads = self._writes
        self._alone = Lock()

    def _open(self) -> SchemaUpgrade:
        try:
            return self._open_file()
        except StoreError as error:
            if not sqlite_file.lacks_index(error.__cause__):
                raise
        log.warning(
            "the disk is full: the store is locked for other programs until a restart",
            extra={"file": str(self._path)},
        )
        self._replace_engine(self._path, is_exclusive=True)
        self._use_one_connection()
        return self._open_file()

    def _open_file(self) -> SchemaUpgrade:
        with self._translated():
            was_empty = self._path.is_file() and not self._path.stat().st_size
            if self._path != sqlite_file.MEMORY:
                sqlite_file.prepare_file(self._path)
            with self._engine.begin() as connection:
                standing = schema_version.read_status(connection)
            upgrade = SchemaUpgrade(before=standing.found, after=tables.REVISIONS[-1])
            if standing.kind != "current":
                upgrade = self._bring_up_to_date()
            self._use_wal()
        if was_empty:  # data was lost, or another program created it
            log.warning(
                "the store file was empty, a new store begins in it; if there was one before,"
                " restore a backup: toolgate db restore FILE",
                extra={"file": str(self._path)},
            )
        return upgrade

    def _bring_up_to_date(self) -> SchemaUpgrade:
        with sqlite_file.rebuilding(self._engine) as connection:
            standing = schema_version.read_status(
                connection
            )  # again: another process may have been faster
            schema_version.require_upgradable(standing, self._url)
            copy: Path | None = None
            if standing.kind == "empty":
                schema_version.create(connection)
            elif standing.kind == "old":
                copy = self._path.with_name(f"{self._path.name}.{standing.found}.bak")
                sqlite_file.copy_file(self._path, copy)
                schema_version.migrate(connection)
            return SchemaUpgrade(before=standing.found, after=tables.REVISIONS[-1], copy=copy)

    def _use_wal(self) -> None:
        """Use WAL mode (stored in the file): readers and a writer do not block each other."""
        connection = self._engine.raw_connection()
        try:
            deadline = time.monotonic() + self._busy_timeout_s
            while True:
                try:
                    connection.cursor().execute("PRAGMA journal_mode = WAL")
                except sqlite3.OperationalError as error:
                    # SQLite's busy timeout does not apply when two processes open a new file at
                    # once.
                    if "locked" not in str(error) or time.monotonic() > deadline:
                        raise OperationalError("PRAGMA journal_mode", None, error) from error
                    time.sleep(0.01)
                else:
                    return
        finally:
            connection.close()

    def _damage(self, connection: Connection) -> list[str]:
        # Rows of `integrity_check` are messages; those of the other pragma are table, row and
        # parent.
        problems = connection.exec_driver_sql("PRAGMA integrity_check(20)").scalars().all()
        orphans = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
        return [f"SQLite found: {text}." for text in problems if text != "ok"] + [
            f"A row of {table} belongs to a row of {parent} that does not exist."
            for table, _, parent, _ in orphans[:20]
        ]

    def _total_bytes(self, connection: Connection) -> int:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        return pages * connection.exec_driver_sql("PRAGMA page_size").scalar_one()

    def _release_space(self) -> None:
        with self._translated():
            connection = self._engine.raw_connection()
            try:
                # Each step of this statement frees one page, and `execute` runs only one step.
                connection.cursor().executescript("PRAGMA incremental_vacuum(10000)")
            finally:
                connection.close()


_: type[Store] = SqliteStore
