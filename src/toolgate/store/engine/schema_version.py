"""The schema version of a database, and its migration.

A new database gets its tables directly from `tables`; Alembic is imported only to upgrade an old
one, so that serving never pays for it.
"""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal

from sqlalchemy import Connection, insert, inspect, select

from toolgate import __version__
from toolgate.base.ids import utc_now
from toolgate.errors import StoreVersionError
from toolgate.store.engine import tables as _tables
from toolgate.types import DEFAULT_PROJECT

MIGRATIONS = Path(__file__).parents[1] / "migrations"


@dataclass(frozen=True, kw_only=True)
class SchemaStatus:
    """The schema of a database, compared with the one of this program."""

    kind: Literal["empty", "current", "old", "unreleased", "newer", "foreign"]
    """`empty`: none of our tables. `unreleased`: from before the first release. `foreign`: tables
    with our names that we did not create."""

    found: str | None = None
    """Revision of the database; None if it has none."""


def read_status(connection: Connection) -> SchemaStatus:
    """Read the schema status with two small queries."""
    present = set(inspect(connection).get_table_names())
    if _tables.VERSION_TABLE not in present:
        taken = present & set(_tables.metadata.tables)
        return SchemaStatus(kind="foreign" if taken else "empty")
    revision = connection.execute(select(_tables.versions.c.version_num)).scalar()
    if revision is None:
        return SchemaStatus(kind="foreign")
    if revision < _tables.REVISIONS[0]:
        return SchemaStatus(kind="unreleased", found=revision)
    if revision == _tables.REVISIONS[-1]:
        return SchemaStatus(kind="current", found=revision)
    return SchemaStatus(kind="old" if revision in _tables.REVISIONS else "newer", found=revision)


def require_upgradable(standing: SchemaStatus, url: str) -> None:
    """Reject a database that this program must not change.

    Raises:
        StoreVersionError: Its schema is newer or from before the first release, or its tables are
            not ours.
    """
    if standing.kind == "unreleased":
        raise StoreVersionError(
            f"The store {url} has schema {standing.found!r}, from before the first release, which"
            " cannot be upgraded.",
            allowed=f"Toolgate {__version__} upgrades schemas from {_tables.REVISIONS[0]!r}.",
            hint="Move it away, or set store.url to a new store; only the version that wrote it"
            " can read it.",
        )
    if standing.kind == "newer":
        raise StoreVersionError(
            f"The store {url} has schema {standing.found!r}, made by a newer Toolgate.",
            allowed=f"Toolgate {__version__} knows schemas up to {_tables.REVISIONS[-1]!r}.",
            hint="Install the newer version, or restore a backup with toolgate db restore FILE.",
        )
    if standing.kind == "foreign":
        raise StoreVersionError(
            f"The database {url} contains tables of another program with names that Toolgate uses.",
            hint="Set store.url to a separate database.",
        )


def schema_problems(connection: Connection, standing: SchemaStatus) -> list[str]:
    """Problems of the schema, as sentences."""
    if standing.kind == "empty":
        return ["It has no tables yet; they are made when Toolgate starts."]
    if standing.kind == "foreign":
        return ["It contains tables of another program with names that Toolgate uses."]
    present = _tables.REVISIONS[-1]
    if standing.kind == "unreleased":
        return [f"Its schema is {standing.found!r}, from before the first release."]
    if standing.kind == "newer":
        return [f"Its schema is {standing.found!r}; this Toolgate knows up to {present!r}."]
    if standing.kind == "old":
        return [f"Its schema is {standing.found!r}; toolgate db upgrade brings it to {present!r}."]
    inspector = inspect(connection)
    columns = {
        name: {column["name"] for column in inspector.get_columns(name)}
        for name in inspector.get_table_names()
    }
    missing = [
        f"{table.name}.{column.name}" if table.name in columns else table.name
        for table in _tables.metadata.sorted_tables
        for column in table.columns
        if column.name not in columns.get(table.name, ())
    ]
    return [f"{name} is missing." for name in dict.fromkeys(missing)]


def create(connection: Connection) -> None:
    """Create all tables and the default project in an empty database."""
    _set_conditions(connection.dialect.name)
    _tables.metadata.create_all(connection, checkfirst=False)
    _tables.versions.create(connection, checkfirst=False)
    add_first_rows(connection)


def _set_conditions(dialect: str) -> None:
    """Give the partial indexes their conditions in another dialect than SQLite's.

    The tables do not name them: an option with a dialect's name makes SQLAlchemy import it.
    """
    for table in _tables.metadata.tables.values():
        for index in table.indexes:
            if (condition := index.dialect_kwargs.get("sqlite_where")) is not None:
                index.dialect_kwargs[f"{dialect}_where"] = condition


def add_first_rows(connection: Connection) -> None:
    """Add the revision and the default project to new tables."""
    connection.execute(insert(_tables.versions), {"version_num": _tables.REVISIONS[-1]})
    connection.execute(
        insert(_tables.projects), {"project_id": DEFAULT_PROJECT, "created_at": utc_now()}
    )


def migrate(connection: Connection, *, to: str = "") -> None:
    """Upgrade an old or empty database within the connection's transaction.

    Args:
        connection: In a transaction that prevents concurrent migrations.
        to: Revision to stop at; empty: the current one.
    """
    # Imported here: Alembic is large and rarely needed, and every command imports this module.
    command = import_module("alembic.command")
    config = import_module("alembic.config").Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, to or _tables.REVISIONS[-1])
