"""Opens SQLite files with safe settings and private permissions, and copies them consistently."""

import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, ExceptionContext, create_engine, event
from sqlalchemy.pool import QueuePool, StaticPool

from toolgate.base.private_folder import create_private_folder

MEMORY = Path(":memory:")
"""Instead of a path: a database that exists as long as its engine."""


def prepare_file(path: Path) -> None:
    """Create the file and its folders with access for this user only, before SQLite creates them.

    SQLite gives its companion files the mode of the database file.
    """
    create_private_folder(path.parent)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        mode = path.stat().st_mode
        if mode & 0o077:
            with suppress(PermissionError):  # somebody else's file; its owner decides
                path.chmod(mode & 0o700)


def lacks_index(error: BaseException | None) -> bool:
    """Whether SQLite could not create the index of its log, for which a full disk has no room."""
    code = getattr(getattr(error, "orig", None), "sqlite_errorcode", None)
    return code in {sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMMAP}


def file_engine(path: Path, *, busy_timeout_s: float, is_exclusive: bool = False) -> Engine:
    """Create the engine of a file.

    Args:
        path: The file, or `MEMORY`.
        busy_timeout_s: Seconds to wait for another process that writes.
        is_exclusive: Whether its one connection locks the file for other processes. SQLite then
            keeps the index of its log in memory. https://sqlite.org/wal.html#noshm

    Transactions that write take their lock at the start (`BEGIN IMMEDIATE`): a transaction that
    starts by reading cannot wait for a writer later. https://sqlite.org/lang_transaction.html
    """

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            path, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False
        )
        if is_exclusive:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        return connection

    memory = path == MEMORY
    is_single = memory or is_exclusive
    engine = create_engine(
        "sqlite://",
        creator=connect,
        poolclass=StaticPool if is_single else QueuePool,
        **({} if is_single else {"pool_size": 5, "max_overflow": 5}),
    )
    event.listen(engine, "connect", _set_up)
    event.listen(engine, "begin", _begin)
    if not memory:
        event.listen(engine, "handle_error", _drop_read_only)
    return engine


def _set_up(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves, so that tables are part of it
    connection.execute("PRAGMA foreign_keys = ON")
    # With WAL, FULL makes a commit survive a power cut, not only a kill.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA journal_size_limit = 67108864")
    # Half of the default for each of five connections: the system caches the file as well.
    connection.execute("PRAGMA cache_size = -1024")


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("toolgate_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _drop_read_only(context: ExceptionContext) -> None:
    """Discard connections that were opened while the file was not writable.

    SQLite then opens the file for reading only, and never tries again.
    https://sqlite.org/c3ref/open.html
    """
    error, connection = context.original_exception, context.connection
    if connection is None or "readonly" not in str(error):
        return
    connection.connection.invalidate(soft=True)  # its transaction is rolled back first
    connection.engine.pool.dispose()


def driver(connection: Connection) -> sqlite3.Connection:
    """The driver's connection, for statements outside of a transaction."""
    below = connection.connection.driver_connection
    assert isinstance(below, sqlite3.Connection)
    return below


@contextmanager
def rebuilding(engine: Engine) -> Generator[Connection]:
    """A writing transaction that may rebuild tables.

    Dropping a table would delete the rows that refer to it, so references are checked once, at
    the end.
    """
    with engine.execution_options(toolgate_writes=True).connect() as connection:
        below = driver(connection)
        below.execute("PRAGMA foreign_keys = OFF")
        if not below.execute("PRAGMA page_count").fetchone()[0]:
            below.execute("PRAGMA auto_vacuum = INCREMENTAL")  # only before the first table
        try:
            with connection.begin():
                yield connection
                broken = below.execute("PRAGMA foreign_key_check").fetchall()
                assert not broken, f"a migration left rows without their parents: {broken[:3]}"
        finally:
            below.execute("PRAGMA foreign_keys = ON")


def has_tables(path: Path) -> bool:
    """Whether a file is a database with tables; a full disk leaves one without."""
    if not path.exists():
        return False
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as opened:
        return bool(opened.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])


def copy_into(source: sqlite3.Connection, target: Path) -> None:
    """Copy a database into an empty file: all or nothing."""
    with closing(sqlite3.connect(target)) as new:
        source.backup(new)


def copy_file(source: Path, target: Path) -> None:
    """Copy a database that may be in use: all or nothing, into a private plain file."""
    partial = target.with_name(f"{target.name}.partial")
    partial.unlink(missing_ok=True)
    prepare_file(partial)
    try:
        with (
            closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as old,
            closing(sqlite3.connect(partial)) as new,
        ):
            old.backup(new)
            new.execute("PRAGMA journal_mode = DELETE")
        partial.replace(target)
    finally:
        for rest in ("", "-journal", "-wal", "-shm"):  # a full disk may leave any of them
            partial.with_name(f"{partial.name}{rest}").unlink(missing_ok=True)
