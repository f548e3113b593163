"""Backups: SQLite files that every store can write and read."""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import DatabaseError, OperationalError

from sqlalchemy import Connection, MetaData, delete, insert, select

from toolgate.errors import StoreError
from toolgate.store.engine import schema_version, sqlite_file
from toolgate.store.engine import tables as _tables

_CHUNK = 100
"""Rows copied per statement (chosen: rows with documents are large)."""
_BUSY_TIMEOUT_S = 5.0
"""Seconds to wait for other writers (chosen: like the store itself)."""


def copy_file(source: Path, target: Path) -> None:
    """Copy a SQLite store that may be in use.

    Raises:
        StoreError: The source is not a database, or the target is the source.
    """
    if target.absolute() == source.absolute():
        raise StoreError(
            f"The backup {target} would replace the store itself.", hint="Name another file."
        )
    sqlite_file.copy_file(source, target)


def write_file(source: Connection, target: Path) -> None:
    """Write all rows that a transaction sees to a new SQLite file, with their schema."""
    standing = schema_version.read_status(source)
    schema_version.require_upgradable(standing, "to back up")
    partial = target.with_name(f"{target.name}.partial")
    partial.unlink(missing_ok=True)
    sqlite_file.prepare_file(partial)
    try:
        with _writing(partial) as copy:
            if standing.found is not None:
                schema_version.migrate(copy, to=standing.found)
                replace_rows(source, copy)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def opened(source: Path) -> Generator[Connection]:
    """Open a backup with the current schema; the file itself is not changed.

    Raises:
        StoreError: The file does not exist or is not a backup.
        StoreVersionError: It is newer than this program.
    """
    if not source.is_file():
        raise StoreError(f"The backup {source} does not exist.")
    with tempfile.TemporaryDirectory(prefix="toolgate-") as folder:
        copy = Path(folder) / "restored.db"
        try:
            sqlite_file.copy_file(source, copy)
        except DatabaseError as error:
            if isinstance(error, OperationalError):  # the disk, not the file
                raise
            raise StoreError(f"The file {source} is not a backup: {error}.") from error
        with _writing(copy) as backup:
            standing = schema_version.read_status(backup)
            if standing.kind in {"empty", "foreign"}:
                raise StoreError(f"The file {source} is not a backup made by Toolgate.")
            schema_version.require_upgradable(standing, str(source))
            if standing.kind == "old":
                schema_version.migrate(backup)
            yield backup


def replace_rows(source: Connection, target: Connection) -> dict[str, int]:
    """Replace all rows of `target` with those of `source`. Returns the number of rows by table."""
    # Reflected, since a backup may have the tables of an earlier schema.
    reflected = MetaData()
    reflected.reflect(target, only=lambda name, _: name in _tables.metadata.tables)
    for table in reversed(reflected.sorted_tables):
        target.execute(delete(table))
    copied: dict[str, int] = {}
    for table in reflected.sorted_tables:
        copied[table.name] = 0
        for rows in source.execute(select(table)).mappings().partitions(_CHUNK):
            target.execute(insert(table), [dict(row) for row in rows])
            copied[table.name] += len(rows)
    return copied


@contextmanager
def _writing(path: Path) -> Generator[Connection]:
    engine = sqlite_file.file_engine(path, busy_timeout_s=_BUSY_TIMEOUT_S)
    try:
        with sqlite_file.rebuilding(engine) as connection:
            yield connection
    finally:
        engine.dispose()
