"""Opening, upgrading and refusing: what happens to a database by the schema that it has."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from anyio import create_task_group
from sqlalchemy import Connection, MetaData, func, inspect, select, text

from tests.store.released import AUDIT, BUILDERS, RESULT, SECRET, SERVER, SNAPSHOT
from tests.store.stores import BOTH, make_sql_store, run_sql, transaction, url_of
from toolgate import __version__
from toolgate.errors import SettingError, StoreVersionError
from toolgate.store import AuditFilter, Store, StoreMaintenance, make_store
from toolgate.store.engine import schema_version, tables

NEXT = f"""
revision = "next"
down_revision = "{tables.REVISIONS[-1]}"

import sqlalchemy as sa
from alembic import op

def upgrade() -> None:
    recreate = "always" if op.get_bind().dialect.name == "sqlite" else "never"
    with op.batch_alter_table("projects", recreate=recreate) as projects:
        projects.add_column(sa.Column("title", sa.Text(), nullable=False, server_default="none"))
"""
"""A step as one may come: it rebuilds a table that others refer to."""


@pytest.fixture
def next_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This program is one schema newer than the last released one."""
    folder = tmp_path / "migrations"
    shutil.copytree(schema_version.MIGRATIONS, folder)
    (folder / "versions" / "next.py").write_text(NEXT, encoding="utf-8")
    monkeypatch.setattr(schema_version, "MIGRATIONS", folder)
    monkeypatch.setattr(tables, "REVISIONS", (*tables.REVISIONS, "next"))


async def assert_nothing_lost(store: Store) -> None:
    assert await store.servers.select("default") == [SERVER]
    assert await store.catalog.snapshots("default") == [SNAPSHOT]
    assert await store.results.get("h1") == RESULT
    assert await store.audit.select(AuditFilter()) == [AUDIT]
    assert await store.secret("installation") == SECRET


# The tables and the migrations are two descriptions of one thing


def test_every_revision_has_its_migration_and_its_sample() -> None:
    """Our decision: what was released can be upgraded, and a test has the data to show it."""
    scripts = ScriptDirectory(str(schema_version.MIGRATIONS)).walk_revisions()

    assert tuple(script.revision for script in scripts)[::-1] == tables.REVISIONS
    assert tuple(BUILDERS) == tables.REVISIONS


def described(connection: Connection) -> dict[str, Any]:
    inspector = inspect(connection)
    return {
        table: {
            "columns": {
                column["name"]: (str(column["type"]), column["nullable"], column["default"])
                for column in inspector.get_columns(table)
            },
            "primary key": inspector.get_pk_constraint(table),
            "foreign keys": inspector.get_foreign_keys(table),
            "unique": inspector.get_unique_constraints(table),
            "indexes": [
                {**index, "dialect_options": {k: str(v) for k, v in options.items()}}
                for index in inspector.get_indexes(table)
                for options in [index.get("dialect_options", {})]
            ],
        }
        for table in sorted(inspector.get_table_names())
    }


@BOTH
def test_new_databases_have_the_tables_that_migrations_make(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """Our decision: serving loads no Alembic, so new databases are made without it."""
    with transaction(url_of(kind, request)) as connection:
        schema_version.create(connection)
        made_at_once = described(connection)
        rows = connection.execute(text("SELECT project_id FROM projects")).scalars().all()
        tables.metadata.drop_all(connection)
        tables.versions.drop(connection)

        schema_version.migrate(connection)

        assert described(connection) == made_at_once
        migrated = connection.execute(text("SELECT project_id FROM projects")).scalars().all()
        assert migrated == rows == ["default"]
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "version_table": tables.VERSION_TABLE}
        )
        assert compare_metadata(context, tables.metadata) == []


# Upgrades


@pytest.mark.usefixtures("next_release")
@pytest.mark.parametrize("revision", sorted(BUILDERS))
@BOTH
async def test_a_store_of_any_released_schema_keeps_everything(
    kind: str, revision: str, request: pytest.FixtureRequest
) -> None:
    """Decision 45."""
    url = url_of(kind, request)
    with transaction(url) as connection:
        BUILDERS[revision](connection)
        reflected = MetaData()
        reflected.reflect(connection)
        rows = {
            name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for name, table in reflected.tables.items()
        }
    store = make_sql_store(url)

    await store.upgrade()
    await store.open()

    await assert_nothing_lost(store)
    assert (await store.check()).problems == ()
    sizes = await store.sizes()
    assert {name: sizes[name] for name in tables.metadata.tables} == {
        name: rows[name] for name in tables.metadata.tables
    }
    assert min(rows.values()) > 0
    await store.close()


@pytest.mark.usefixtures("next_release")
async def test_an_older_file_is_copied_and_migrated_when_it_is_opened(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Decision 45. The copy is what it was, and private."""
    url = url_of("sqlite", request)
    with transaction(url) as connection:
        BUILDERS["0025"](connection)
    store = make_sql_store(url)

    await store.open()

    await assert_nothing_lost(store)
    assert (await store.check()).schema == "next"
    await store.close()
    with transaction(url) as connection:
        assert connection.execute(text("SELECT title FROM projects")).scalars().all() == ["none"]
    copy = tmp_path / "data" / "toolgate.db.0025.bak"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with transaction(f"sqlite:///{copy}") as connection:
        assert schema_version.read_status(connection).found == "0025"


@pytest.mark.usefixtures("next_release")
async def test_a_step_that_fails_leaves_the_file_as_it_was(
    request: pytest.FixtureRequest,
) -> None:
    """Tables are part of the transaction."""
    url = url_of("sqlite", request)
    with transaction(url) as connection:
        BUILDERS["0025"](connection)
    step = schema_version.MIGRATIONS / "versions" / "next.py"
    step.write_text(NEXT + "\n    raise OSError('no space left on device')\n", encoding="utf-8")

    with pytest.raises(Exception, match="no space left"):
        await make_sql_store(url).open()

    with transaction(url) as connection:
        assert schema_version.read_status(connection).found == "0025"
        assert "title" not in str(inspect(connection).get_columns("projects"))
    step.write_text(NEXT, encoding="utf-8")
    store = make_sql_store(url)
    await store.open()
    await assert_nothing_lost(store)
    await store.close()


@pytest.mark.real
@pytest.mark.usefixtures("next_release")
async def test_an_older_postgres_is_refused_until_it_was_upgraded(
    request: pytest.FixtureRequest,
) -> None:
    """Decision 45: other gateways may be using it. Several upgrades at once do it once."""
    url = url_of("postgres", request)
    with transaction(url) as connection:
        BUILDERS["0025"](connection)

    with pytest.raises(StoreVersionError) as caught:
        await make_sql_store(url).open()
    assert "'0025'" in caught.value.failed
    assert "'next'" in caught.value.failed
    assert "toolgate db upgrade" in caught.value.hint

    stores = [make_sql_store(url) for _ in range(3)]
    done: list[str | None] = []

    async def upgrade(store: StoreMaintenance) -> None:
        done.append((await store.upgrade()).before)

    async with create_task_group() as group:
        for store in stores:
            group.start_soon(upgrade, store)
    assert sorted(done, key=str) == ["0025", "next", "next"]
    await stores[0].open()
    await assert_nothing_lost(stores[0])
    for store in stores:
        await store.close()


@pytest.mark.usefixtures("next_release")
@BOTH
async def test_a_backup_of_an_older_schema_is_upgraded_by_restoring_it(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Before an upgrade one makes a backup, so it has to work without one."""
    url = url_of(kind, request)
    with transaction(url) as connection:
        BUILDERS["0025"](connection)
    store = make_sql_store(url)
    backup = tmp_path / "backup.db"
    await store.backup(backup)
    await store.close()

    elsewhere = make_sql_store(f"sqlite:///{tmp_path / 'elsewhere.db'}")
    await elsewhere.restore(backup)

    await assert_nothing_lost(elsewhere)
    assert (await elsewhere.check()).schema == "next"
    await elsewhere.close()
    with transaction(f"sqlite:///{backup}") as connection:
        assert schema_version.read_status(connection).found == "0025"


# Refusals


@pytest.mark.parametrize(
    ("revision", "allowed"),
    [
        ("9999", f"knows schemas up to {tables.REVISIONS[-1]!r}"),
        ("0024", f"upgrades schemas from {tables.REVISIONS[0]!r}"),
    ],
    ids=["newer", "before the first release"],
)
@BOTH
async def test_a_schema_that_cannot_be_upgraded_is_refused_and_left_alone(
    kind: str, revision: str, allowed: str, request: pytest.FixtureRequest
) -> None:
    """Decision 45."""
    url = url_of(kind, request)
    store = make_sql_store(url)
    await store.open()
    await store.servers.save(SERVER)
    run_sql(url, "UPDATE toolgate_schema SET version_num = :revision", revision=revision)

    for attempt in (store.open, store.upgrade):
        with pytest.raises(StoreVersionError) as caught:
            await attempt()
        assert repr(revision) in caught.value.failed
        assert f"Toolgate {__version__} {allowed}" in str(caught.value)
    assert repr(revision) in (await store.check()).problems[0]
    assert await store.servers.select("default") == [SERVER]
    await store.close()


@pytest.mark.parametrize("revision", ["9999", "0024"])
async def test_a_backup_replaces_a_file_that_cannot_be_upgraded(
    revision: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """A file that is too new or too old is put aside, not thrown away."""
    url = url_of("sqlite", request)
    store = make_sql_store(url)
    await store.open()
    await store.servers.save(SERVER)
    await store.backup(tmp_path / "backup.db")
    run_sql(url, "UPDATE toolgate_schema SET version_num = :revision", revision=revision)

    await store.restore(tmp_path / "backup.db")

    assert (await store.check()).problems == ()
    assert await store.servers.select("default") == [SERVER]
    [aside] = (tmp_path / "data").glob("*.damaged")
    with transaction(f"sqlite:///{aside}") as connection:
        assert schema_version.read_status(connection).found == revision
    await store.close()


@BOTH
async def test_tables_of_another_program_are_left_alone(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """A wrong address must not mix two programs' data."""
    url = url_of(kind, request)
    run_sql(url, "CREATE TABLE servers (id INTEGER)")
    store = make_sql_store(url)

    backup = tmp_path / "backup.db"
    other = make_sql_store(f"sqlite:///{backup}")
    await other.open()
    await other.close()

    with pytest.raises(StoreVersionError, match="another program"):
        await store.open()
    with pytest.raises(StoreVersionError, match="another program"):
        await store.restore(backup)

    with transaction(url) as connection:
        assert inspect(connection).get_table_names() == ["servers"]
    await store.close()


@BOTH
async def test_tables_under_other_names_do_not_matter(
    kind: str, request: pytest.FixtureRequest
) -> None:
    url = url_of(kind, request)
    run_sql(url, "CREATE TABLE invoices (id INTEGER)")
    store = make_sql_store(url)

    await store.open()

    assert (await store.check()).problems == ()
    await store.close()


@BOTH
async def test_a_check_names_what_is_missing(kind: str, request: pytest.FixtureRequest) -> None:
    url = url_of(kind, request)
    store = make_sql_store(url)
    await store.open()
    run_sql(url, "DROP TABLE secrets")
    run_sql(url, "ALTER TABLE audit RENAME COLUMN query TO request")

    problems = (await store.check()).problems

    assert problems == ("audit.query is missing.", "secrets is missing.")
    await store.close()


# Files and addresses


async def test_files_and_folders_are_for_their_owner_alone(tmp_path: Path) -> None:
    """Decision 39; also the files that SQLite puts beside, and one that was open to others."""
    previous = os.umask(0)
    try:
        file = tmp_path / "new" / "data" / "toolgate.db"
        store = make_sql_store(f"sqlite:///{file}")
        await store.open()
        await store.secret("x")
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()}
        await store.close()
        file.chmod(0o644)
        await make_sql_store(f"sqlite:///{file}").open()
    finally:
        os.umask(previous)

    assert modes == {"toolgate.db": 0o600, "toolgate.db-wal": 0o600, "toolgate.db-shm": 0o600}
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.parent.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_opening_a_new_store_and_a_known_one_loads_no_alembic_and_no_other_database(
    tmp_path: Path,
) -> None:
    """Decision 3."""
    code = """
import sys, anyio
from toolgate.store import make_store
async def main():
    for _ in range(2):
        store = make_store(sys.argv[1])
        await store.open()
        await store.close()
anyio.run(main)
unwanted = {"alembic", "psycopg", "sqlalchemy.orm", "typer", "rich"}
print(sorted(unwanted & set(sys.modules)))
"""
    shown = subprocess.run(
        [sys.executable, "-c", code, f"sqlite:///{tmp_path / 'toolgate.db'}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == "[]\n"


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("sqlite:///toolgate.db", "sqlite"),
        ("sqlite://", "sqlite"),
        ("postgresql://a@b/c", "postgres"),
        ("postgres://a@b/c", "postgres"),
        ("postgresql+psycopg://a@b/c", "postgres"),
    ],
)
def test_the_scheme_says_which_database(url: str, kind: str) -> None:
    assert type(make_store(url)).__module__ == f"toolgate.store.{kind}"


@pytest.mark.parametrize(
    "url", ["mysql://root:secret@host/name", "toolgate.db", "", "sqlite:toolgate.db", "sqlite:///"]
)
def test_an_address_of_no_database_is_refused_without_showing_it(url: str) -> None:
    """An address may hold a password."""
    with pytest.raises(ValueError if url.startswith("sqlite") else SettingError) as caught:
        make_store(url)
    assert "secret" not in str(caught.value)


async def test_the_address_is_shown_without_password() -> None:
    store = make_store("postgres://ann:secret@db.example:5432/x?sslpassword=secret&sslmode=require")
    assert store.url == "postgresql://ann@db.example:5432/x?sslmode=require"


async def test_a_path_may_begin_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    store = make_store("sqlite:///~/my data #1?%20/toolgate.db")

    await store.open()

    assert (tmp_path / "my data #1?%20" / "toolgate.db").is_file()
    await store.close()


async def test_a_store_in_memory_is_a_store_that_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = make_store("sqlite://")
    await store.open()
    async with create_task_group() as group:
        for name in ("a", "b", "c", "a"):
            group.start_soon(store.secret, name)

    assert (await store.sizes())["secrets"] == 3
    await store.close()
    assert list(tmp_path.iterdir()) == []
