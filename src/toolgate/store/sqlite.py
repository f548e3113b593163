"""The store in one SQLite file: the default, needs nothing else."""

import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread
from sqlalchemy import Connection
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import OperationalError

from toolgate.errors import OptionError
from toolgate.store import _file, _schema
from toolgate.store._sql import SqlStore

__all__ = ["Options", "SqliteStore", "build"]

_PREFIX = "sqlite://"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Where the file is."""

    url: str
    """`sqlite:///relative/path`, `sqlite:////absolute/path`, `sqlite:///~/path`; `sqlite://` is a
    database in memory, gone when it is closed."""

    busy_timeout_s: float = 5.0
    """Seconds to wait for another process that writes; then the request fails."""


def build(options: Options) -> "SqliteStore":
    """A store; nothing is opened yet."""
    return SqliteStore(_path(options.url), busy_timeout_s=options.busy_timeout_s)


def _path(url: str) -> Path:
    if url in {_PREFIX, f"{_PREFIX}/:memory:"}:
        return _file.MEMORY
    path = url.removeprefix(f"{_PREFIX}/")
    if path in {"", url}:
        raise OptionError(
            f"{url!r} is no address of a SQLite file.",
            allowed="Allowed: sqlite:///PATH.",
            hint="Correct store.url.",
        )
    return Path(path).expanduser().absolute()


class SqliteStore(SqlStore):
    """One file, any number of processes on the same machine."""

    def __init__(self, path: Path, *, busy_timeout_s: float = 5.0) -> None:
        memory = path == _file.MEMORY
        super().__init__(
            _file.file_engine(path, busy_timeout_s=busy_timeout_s),
            f"{_PREFIX}/{path}" if not memory else _PREFIX,
            insert=insert,
            writers=1,
        )
        if memory:
            self._reads = self._writes  # there is one connection
        self._path = path
        self._busy_timeout_s = busy_timeout_s

    async def open(self) -> None:
        """Make the file where there is none; copy and migrate an older one."""
        await anyio.to_thread.run_sync(self._open, limiter=self._writes)

    def _open(self) -> None:
        with self._translated():
            if self._path != _file.MEMORY:
                _file.prepare_file(self._path)
            with self._engine.begin() as connection:
                standing = _schema.look(connection)
            if standing.kind != "current":
                self._bring_up_to_date()
            self._use_wal()

    def _bring_up_to_date(self) -> None:
        with self._without_foreign_keys() as connection:
            standing = _schema.look(connection)  # again: another process may have been faster
            _schema.refuse_unless_upgradable(standing, self._url)
            if standing.kind == "empty":
                _schema.create(connection)
            elif standing.kind == "old":
                if self._path != _file.MEMORY:
                    copy = self._path.with_name(f"{self._path.name}.{standing.found}.bak")
                    _file.copy_file(self._path, copy)
                _schema.migrate(connection)
                _require_sound_references(connection)

    @contextmanager
    def _without_foreign_keys(self) -> Generator[Connection]:
        """A writing transaction that may rebuild tables, which drops them for a moment."""
        writing = self._engine.execution_options(toolgate_writes=True)
        with writing.connect() as connection:
            driver = _driver(connection)
            driver.execute("PRAGMA foreign_keys = OFF")
            if not driver.execute("PRAGMA page_count").fetchone()[0]:
                driver.execute("PRAGMA auto_vacuum = INCREMENTAL")  # only before the first table
            try:
                with connection.begin():
                    yield connection
            finally:
                driver.execute("PRAGMA foreign_keys = ON")

    def _use_wal(self) -> None:
        """Readers and a writer do not wait for each other; stays switched on in the file."""
        connection = self._engine.raw_connection()
        try:
            deadline = time.monotonic() + self._busy_timeout_s
            while True:
                try:
                    connection.cursor().execute("PRAGMA journal_mode = WAL")
                except sqlite3.OperationalError as error:
                    # SQLite does not wait here when two processes open a new file at once.
                    if "locked" not in str(error) or time.monotonic() > deadline:
                        raise OperationalError("PRAGMA journal_mode", None, error) from error
                    time.sleep(0.01)
                else:
                    return
        finally:
            connection.close()

    def _total_bytes(self, connection: Connection) -> int:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        return pages * connection.exec_driver_sql("PRAGMA page_size").scalar_one()

    def _release_space(self, connection: Connection) -> None:
        # Every step of this statement frees one page, and SQLAlchemy takes none.
        _driver(connection).execute("PRAGMA incremental_vacuum(10000)").fetchall()


def _driver(connection: Connection) -> sqlite3.Connection:
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver


def _require_sound_references(connection: Connection) -> None:
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
    assert not broken, f"a migration left rows without their parents: {broken[:3]}"
