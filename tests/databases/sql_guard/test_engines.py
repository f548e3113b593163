"""What databases themselves do against dangerous statements, with the parser off."""

import hashlib
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import psycopg
import pytest

from tests.databases.connections.databases import run, sqlite_url
from tests.databases.sql_guard.statements import statements
from tests.postgres import PostgresServer
from toolgate.databases.connections import Connection, QueryLimits, write_privileges
from toolgate.errors import DatabaseError, StatementError
from toolgate.settings import ConnectionTable

ALL = list(statements())
TABLES = """
CREATE TABLE customers (id integer PRIMARY KEY, name text, email text);
CREATE TABLE orders (id integer PRIMARY KEY, customer_id integer, amount numeric(10,2), status text,
  created_at timestamp);
INSERT INTO customers VALUES (1, 'Ann', 'a@x'), (2, 'Bob', 'b@x');
INSERT INTO orders VALUES (1, 1, 10.50, 'open', NULL), (2, 2, 99.99, 'done', NULL);
"""


# SQLite


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncGenerator[Connection]:
    table = ConnectionTable(url=sqlite_url(run(tmp_path / "shop.db", TABLES)), timeout_s=5)
    connection = Connection("shop", table)
    yield connection
    await connection.aclose()


async def test_a_sql_3_sqlite_changes_nothing_whatever_is_asked(
    tmp_path: Path, shop: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue: each dangerous statement also tried on the real engine with the parser off."""
    monkeypatch.chdir(tmp_path)  # a file that is made by a relative path would be seen here
    before = hashlib.sha256((tmp_path / "shop.db").read_bytes()).hexdigest()
    bad = [each for each in ALL if each.dialect == "sqlite" and not each.allowed]

    ran = [each.key for each in bad if await _runs(shop, each.sql)]

    assert len(bad) > 100
    assert hashlib.sha256((tmp_path / "shop.db").read_bytes()).hexdigest() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shop.db"]
    # Nothing at all; an index that is not there; another way to write a pragma; comments.
    assert {each.sql for each in bad if each.key in ran} == {
        "",
        "reindex",
        "pragma table_info = orders",
        "select 1 /* x ; delete from orders",
        "select 1 --\r; delete from orders",
    }


async def _runs(connection: Connection, sql: str) -> bool:
    try:
        await connection.run_query(sql, limits=QueryLimits(rows=3, timeout_s=1))
    except (StatementError, DatabaseError):
        return False
    return True


async def test_sqlite_runs_what_is_harmless(shop: Connection) -> None:
    """Nothing of the engine's own protection is in the way of reading."""
    good = [each for each in ALL if each.dialect == "sqlite" and each.allowed]

    refused = await _refusals(shop, [each.sql for each in good])

    # Tables, columns and functions that this database does not have.
    assert [said for said in refused if "no such" not in said and "unable to use" not in said] == []
    assert len(refused) < len(good) / 2


async def _refusals(connection: Connection, statements: list[str]) -> list[str]:
    found: list[str] = []
    for sql in statements:
        try:
            await connection.run_query(sql.rstrip("; "))
        except StatementError as error:
            found.append(str(error))
    return found


async def test_virtual_tables_of_sqlite_can_be_read(tmp_path: Path, shop: Connection) -> None:
    run(
        tmp_path / "shop.db",
        "CREATE VIRTUAL TABLE notes USING fts5(text); INSERT INTO notes VALUES ('hello world');"
        "CREATE VIRTUAL TABLE places USING rtree(id, low, high); INSERT INTO places VALUES (1,2,3)",
    )

    note = await shop.run_query(
        "select snippet(notes, 0, '', '', '', 5) from notes where notes match 'hello'"
    )
    place = await shop.run_query("select id from places where low < 5")
    part = await shop.run_query("select value from json_each('[7]')")
    column = await shop.run_query("select name from pragma_table_info('orders') limit 1")

    assert [each.rows[0][0] for each in (note, place, part, column)] == ["hello world", 1, 7, "id"]


async def test_an_endless_statement_of_sqlite_is_ended(shop: Connection) -> None:
    endless = (
        "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
    )

    with pytest.raises(DatabaseError, match="statement took longer than"):
        await shop.run_query(endless, limits=QueryLimits(timeout_s=0.2))


async def test_a_huge_value_of_sqlite_is_not_made(shop: Connection) -> None:
    with pytest.raises(StatementError, match="too big"):
        await shop.run_query("select length(randomblob(500000000))")


# PostgreSQL


@pytest.fixture(scope="module")
def warehouse(postgres: PostgresServer) -> Generator[PostgresServer]:
    """A database with a user who may read, and nothing else."""
    postgres.execute("CREATE DATABASE warehouse")
    for statement in (
        TABLES,
        "CREATE SEQUENCE orders_seq",
        "DROP ROLE IF EXISTS reader",
        "CREATE ROLE reader LOGIN",
        "REVOKE ALL ON DATABASE warehouse FROM PUBLIC",
        "GRANT CONNECT ON DATABASE warehouse TO reader",
        "GRANT USAGE ON SCHEMA public TO reader",
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader",
    ):
        postgres.execute(statement, "warehouse")
    yield postgres
    postgres.execute("DROP DATABASE warehouse WITH (FORCE)")
    postgres.execute("DROP ROLE reader")


def reader_url(server: PostgresServer) -> str:
    return server.url("warehouse").replace("postgres@", "reader@")


@pytest.fixture
async def store(warehouse: PostgresServer) -> AsyncGenerator[Connection]:
    connection = Connection("store", ConnectionTable(url=reader_url(warehouse), timeout_s=5))
    yield connection
    await connection.aclose()


def state_of(server: PostgresServer) -> list[object]:
    """All that a statement could have changed."""
    with psycopg.connect(server.url("warehouse")) as opened:
        return [opened.execute(statement.encode()).fetchall() for statement in STATE]


STATE = (
    "SELECT * FROM orders ORDER BY id",
    "SELECT * FROM customers ORDER BY id",
    "SELECT last_value, is_called FROM orders_seq",
    "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1",
    "SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY 1",
    "SELECT extname FROM pg_extension ORDER BY 1",
    "SELECT rolname, rolpassword FROM pg_authid ORDER BY 1",
    "SELECT count(*) FROM pg_largeobject_metadata",
    "SELECT count(*) FROM pg_prepared_xacts",
    "SELECT count(*) FROM pg_replication_slots",
    "SELECT setdatabase, setrole, setconfig FROM pg_db_role_setting",
)


@pytest.mark.parametrize("role", ["reader", "owner"])
async def test_a_sql_3_postgresql_changes_nothing_whatever_is_asked(
    warehouse: PostgresServer, role: str
) -> None:
    """Issue: each dangerous statement also tried on the real engine with the parser off."""
    url = reader_url(warehouse) if role == "reader" else warehouse.url("warehouse")
    connection = Connection("store", ConnectionTable(url=url, timeout_s=2))
    bad = [each for each in ALL if each.dialect == "postgres" and not each.allowed]
    if role == "owner":  # who may everything, reads files and ends the server: not tried
        bad = [each for each in bad if not _needs_a_reader(each.sql)]
    before = state_of(warehouse)

    for each in bad:
        await _runs_briefly(connection, each.sql)
    after = state_of(warehouse)
    session = await connection.run_query(
        "SELECT current_setting('transaction_read_only'), current_user, "
        "(SELECT count(*) FROM pg_prepared_statements WHERE NOT from_sql IS NULL), "
        "(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'), "
        "(SELECT count(*) FROM pg_listening_channels()), current_setting('statement_timeout')"
    )
    await connection.aclose()

    assert len(bad) > 150
    assert after == before
    user = "reader" if role == "reader" else "postgres"
    assert session.rows[0] == ("on", user, 0, 0, 0, "2s")


def _needs_a_reader(sql: str) -> bool:
    words = ("pg_", "lo_", "program", "/tmp", "/srv", "'x'", "load", "alter system", "checkpoint")
    return any(word in sql.lower() for word in words)


async def _runs_briefly(connection: Connection, sql: str) -> None:
    try:
        await connection.run_query(sql, limits=QueryLimits(rows=3, timeout_s=0.05))
    except (StatementError, DatabaseError):
        return


async def test_postgresql_runs_what_is_harmless(store: Connection) -> None:
    """Nothing of the engine's own protection is in the way of reading."""
    good = [each for each in ALL if each.dialect == "postgres" and each.allowed]

    refused = await _refusals(store, [each.sql for each in good])

    # What is not in this database, or not of the type that the statement takes it for.
    known = ("does not exist", "operator", "type", "must", "syntax", "XML", "could not be found")
    assert [said for said in refused if not any(word in said for word in known)] == []
    assert len(refused) < len(good) / 2


async def test_a_slow_statement_of_postgresql_is_ended_in_the_database(store: Connection) -> None:
    with pytest.raises(DatabaseError, match="statement took longer than"):
        await store.run_query("select pg_sleep(30)", limits=QueryLimits(timeout_s=0.1))

    running = await store.run_query(
        "select count(*) from pg_stat_activity where query like '%sleep(30)'"
    )
    assert running.rows[0][0] <= 1  # this question itself


async def test_rights_to_write_are_named(warehouse: PostgresServer, store: Connection) -> None:
    none = await store.reading(write_privileges)
    warehouse.execute("GRANT UPDATE ON orders TO reader", "warehouse")
    warehouse.execute("GRANT CREATE ON SCHEMA public TO reader", "warehouse")
    warehouse.execute("GRANT TEMPORARY ON DATABASE warehouse TO reader", "warehouse")
    warehouse.execute("GRANT USAGE ON SEQUENCE orders_seq TO reader", "warehouse")
    warehouse.execute("GRANT pg_read_server_files TO reader", "warehouse")
    some = await store.reading(write_privileges)
    for statement in (
        "REVOKE UPDATE ON orders FROM reader",
        "REVOKE CREATE ON SCHEMA public FROM reader",
        "REVOKE TEMPORARY ON DATABASE warehouse FROM reader",
        "REVOKE USAGE ON SEQUENCE orders_seq FROM reader",
        "REVOKE pg_read_server_files FROM reader",
    ):
        warehouse.execute(statement, "warehouse")

    assert none == []
    assert some == [
        "member of pg_read_server_files",
        "UPDATE on public.orders",
        "USAGE or UPDATE on public.orders_seq",
        "CREATE in public",
        "TEMPORARY tables",
    ]
