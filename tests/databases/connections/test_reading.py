"""What is read of real databases: SQLite files, and PostgreSQL."""

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tests.databases.connections.databases import SHOP, run, sqlite_url
from tests.postgres import PostgresServer
from toolgate.databases.connections import (
    ColumnSchema,
    Connection,
    Connections,
    ForeignKey,
    Index,
    NamedType,
    Schema,
    TableSchema,
)
from toolgate.databases.connections.inspect import _SchemaReader
from toolgate.errors import ArgumentError, DatabaseError, MissingExtraError, SettingError
from toolgate.settings import ConnectionTable


async def schema_of(url: str, **options: object) -> Schema:
    connection = Connection("shop", ConnectionTable(url=url, **options))  # pyright: ignore[reportArgumentType]
    try:
        return await connection.schema()
    finally:
        await connection.aclose()


# SQLite


async def test_a_sqlite_file_is_read_with_types_keys_checks_and_views(tmp_path: Path) -> None:
    schema = await schema_of(sqlite_url(run(tmp_path / "shop.db", SHOP)))

    assert [table.name for table in schema.tables] == ["big_orders", "customers", "orders"]
    assert schema.by_name["customers"] == TableSchema(
        name="customers",
        columns=(
            ColumnSchema(name="id", type="INTEGER", nullable=False),
            ColumnSchema(name="name", type="TEXT", nullable=False),
            ColumnSchema(name="mail", type="VARCHAR(20)"),
        ),
        primary_key=("id",),
        unique_keys=(("mail",),),
    )
    assert schema.by_name["orders"] == TableSchema(
        name="orders",
        columns=(
            ColumnSchema(name="id", type="INTEGER", nullable=False),
            ColumnSchema(name="customer_id", type="INT"),
            ColumnSchema(name="total", type="NUMERIC(10,2)", default="0"),
        ),
        primary_key=("id",),
        foreign_keys=(
            ForeignKey(
                columns=("customer_id",), table="customers", to=("id",), rule="ON DELETE CASCADE"
            ),
        ),
        checks=("total >= 0",),
        indexes=(Index(name="ix_customer", columns=("customer_id",)),),
    )
    assert schema.by_name["big_orders"].kind == "view"
    assert "WHERE total > 1000" in schema.by_name["big_orders"].definition


async def test_odd_definitions_of_sqlite_are_understood(tmp_path: Path) -> None:
    path = run(
        tmp_path / "odd.db",
        """
        CREATE TABLE "odd ""name"" é" (a, "b c" POINT, [select] int, -- check (no)
          d int GENERATED ALWAYS AS (a * (2 + 1)) STORED, e text DEFAULT 'check (x)',
          CHECK (a <> ')' /* ( */ AND "b c" > 1), PRIMARY KEY (a, "b c")) WITHOUT ROWID;
        CREATE TABLE parent (id INTEGER PRIMARY KEY) STRICT;
        CREATE TABLE child (parent REFERENCES parent, x int AS (parent + 1));
        CREATE UNIQUE INDEX part ON child (lower(x), x DESC) WHERE x > (1);
        CREATE VIRTUAL TABLE words USING fts5 (body);
        CREATE TEMP TABLE gone (a);
        """,
    )

    schema = await schema_of(sqlite_url(path), exclude=("words_*",))

    odd = schema.by_name['odd "name" é']
    assert [(each.name, each.type) for each in odd.columns] == [
        ("a", ""),
        ("b c", "POINT"),
        ("select", "INT"),
        ("d", "INT"),
        ("e", "TEXT"),
    ]
    assert odd.columns[3].computed == "a * (2 + 1)"
    assert odd.columns[4].default == "'check (x)'"
    assert odd.checks == ("""a <> ')' /* ( */ AND "b c" > 1""",)
    assert odd.primary_key == ("a", "b c")
    child = schema.by_name["child"]
    assert child.foreign_keys == (ForeignKey(columns=("parent",), table="parent", to=("id",)),)
    assert child.columns[1].computed == "parent + 1"
    assert child.indexes == (
        Index(name="part", columns=("lower(x), x DESC",), unique=True, where="x > (1)"),
    )
    assert sorted(schema.by_name) == ["child", 'odd "name" é', "parent", "words"]


async def test_a_broken_view_stops_nothing_else(tmp_path: Path) -> None:
    path = run(tmp_path / "shop.db", f"{SHOP} CREATE VIEW broken AS SELECT * FROM nowhere;")

    schema = await schema_of(sqlite_url(path))

    assert sorted(schema.by_name) == ["big_orders", "customers", "orders"]
    assert "no such table" in schema.unread["broken"]


async def test_an_empty_database_has_an_empty_schema(tmp_path: Path) -> None:
    assert (await schema_of(sqlite_url(run(tmp_path / "new.db", "")))).tables == ()
    (tmp_path / "none.db").touch()
    assert (await schema_of(sqlite_url(tmp_path / "none.db"))).tables == ()


async def test_five_thousand_tables_are_read(tmp_path: Path) -> None:
    statements = "".join(
        f"CREATE TABLE t{number} (id INTEGER PRIMARY KEY, a TEXT, b INT REFERENCES t0 (id));"
        for number in range(5_000)
    )

    schema = await schema_of(sqlite_url(run(tmp_path / "many.db", f"BEGIN; {statements} COMMIT;")))

    assert len(schema.tables) == 5_000
    assert schema.by_name["t4999"].foreign_keys[0].table == "t0"


async def test_databases_without_a_reader_of_their_own_are_read_through_sqlalchemy(
    tmp_path: Path,
) -> None:
    """SQLite stands in for them: what SQLAlchemy tells of it is nearly all that there is."""
    path = run(tmp_path / "shop.db", f"{SHOP} CREATE VIEW broken AS SELECT * FROM nowhere;")
    connection = Connection("shop", ConnectionTable(url=sqlite_url(path)))

    schema = await connection.reading(lambda opened: _SchemaReader(opened, ["big_*"]).schema(()))

    assert sorted(schema.by_name) == ["customers", "orders"]
    assert "no such table" in schema.unread["broken"]
    orders = schema.by_name["orders"]
    assert [(each.name, each.type) for each in orders.columns] == [
        ("id", "INTEGER"),
        ("customer_id", "INTEGER"),
        ("total", "NUMERIC(10, 2)"),
    ]
    assert orders.primary_key == ("id",)
    assert [key.table for key in orders.foreign_keys] == ["customers"]
    assert [index.name for index in orders.indexes] == ["ix_customer"]


async def test_reading_writes_nothing(tmp_path: Path) -> None:
    """Neither a file that is not there, nor anything in one that is."""
    with pytest.raises(DatabaseError, match="the file is not there"):
        await schema_of(sqlite_url(tmp_path / "absent.db"))
    assert not (tmp_path / "absent.db").exists()

    path = run(tmp_path / "shop.db", SHOP)
    connection = Connection("shop", ConnectionTable(url=sqlite_url(path)))
    with pytest.raises(DatabaseError, match="readonly"):
        await connection.reading(lambda opened: opened.exec_driver_sql("DELETE FROM orders"))


# What goes wrong


async def test_a_locked_file_is_told_as_such(tmp_path: Path) -> None:
    path = run(tmp_path / "shop.db", SHOP)
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(DatabaseError, match="another program holds a lock"):
            await schema_of(sqlite_url(path), timeout_s=0.2)


async def test_a_file_that_is_no_database_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("This is a text, and no database. " * 100)

    with pytest.raises(DatabaseError, match="the file is no SQLite database"):
        await schema_of(sqlite_url(tmp_path / "text.db"))


async def test_what_takes_too_long_is_ended(tmp_path: Path) -> None:
    connection = Connection(
        "shop", ConnectionTable(url=sqlite_url(run(tmp_path / "a.db", "")), timeout_s=0.2)
    )
    endless = (
        "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"
    )

    with pytest.raises(DatabaseError, match="did not answer in time"):
        await connection.reading(lambda opened: opened.exec_driver_sql(endless).all())


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://anna:s3cret@127.0.0.1:1/shop", "nothing listens at its address"),
        ("postgresql://anna:s3cret@host.invalid/shop", "its host is unknown"),
        ("sqlite:////nowhere/s3cret.db", "the file is not there"),
    ],
)
async def test_errors_name_the_connection_and_never_its_address(url: str, said: str) -> None:
    with pytest.raises(DatabaseError, match=said) as raised:
        await schema_of(url, timeout_s=5)

    text = str(raised.value)
    assert "'shop'" in text
    assert not any(secret in text for secret in ("s3cret", "anna", "127.0.0.1", "host.invalid"))
    assert raised.value.retryable


async def test_addresses_that_cannot_work_are_told_by_their_kind() -> None:
    with pytest.raises(SettingError, match=r"connections\.shop\.url is not a database URL"):
        await schema_of("s3cret")
    with pytest.raises(SettingError, match="which is not a known database"):
        await schema_of("dbase3://anna:s3cret@host/shop")
    with pytest.raises(MissingExtraError, match="needs the library 'pymysql'"):
        await schema_of("mysql+pymysql://anna:s3cret@host/shop")


async def test_connections_are_chosen_by_name(tmp_path: Path) -> None:
    one, two = (ConnectionTable(url=sqlite_url(tmp_path / name)) for name in ("a.db", "b.db"))
    both = Connections({"shop": one, "stock": two})

    assert both.chosen("STOCK").name == "stock"
    assert Connections({"shop": one}).chosen().name == "shop"
    with pytest.raises(SettingError, match="No database is connected"):
        Connections().chosen()
    with pytest.raises(ArgumentError, match=r"There are several connections\. Connections: shop, "):
        both.chosen()
    with pytest.raises(ArgumentError, match=r"Did you mean 'shop'\?"):
        both.chosen("shopp")


async def test_new_settings_keep_connections_that_stay(tmp_path: Path) -> None:
    table = ConnectionTable(url=sqlite_url(run(tmp_path / "a.db", SHOP)))
    connections = Connections({"shop": table, "old": table})
    shop = connections["shop"]

    await connections.reload({"shop": table, "old": ConnectionTable(url="sqlite:///b.db")})

    assert connections["shop"] is shop
    assert connections["old"].table.url == "sqlite:///b.db"
    assert "s3cret" not in repr(ConnectionTable(url="postgresql://anna:s3cret@host/shop"))


# PostgreSQL


@pytest.fixture
def place(postgres: PostgresServer) -> str:
    return postgres.new_schema()


def run_there(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


async def test_postgresql_is_read_with_its_own_types(place: str) -> None:
    run_there(
        place,
        "CREATE TYPE mood AS ENUM ('sad', 'happy')",
        "CREATE DOMAIN positive AS int NOT NULL CHECK (VALUE > 0)",
        "CREATE TABLE customers (id int PRIMARY KEY, name varchar(20) UNIQUE, m mood, p positive,"
        " tags text[] DEFAULT '{}', place point, at timestamptz)",
        "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
        " customer int REFERENCES customers ON DELETE CASCADE, total numeric(10,2),"
        " twice numeric GENERATED ALWAYS AS (total * 2) STORED, CHECK (total > 0))",
        "CREATE INDEX ix_total ON orders (lower(total::text)) WHERE total > 5",
        "CREATE VIEW all_orders AS SELECT id FROM orders",
        "CREATE MATERIALIZED VIEW kept AS SELECT id FROM orders",
        "COMMENT ON TABLE orders IS 'What was ordered.'",
    )

    schema = await schema_of(place)

    assert {each.name: each.kind for each in schema.tables} == {
        "all_orders": "view",
        "customers": "table",
        "kept": "materialized view",
        "orders": "table",
    }
    customers, orders = schema.by_name["customers"], schema.by_name["orders"]
    assert [column.type for column in customers.columns] == [
        *("integer", "character varying(20)", "mood", "positive", "text[]", "point"),
        "timestamp with time zone",
    ]
    assert customers.unique_keys == (("name",),)
    assert customers.indexes == ()
    assert orders.columns[0].computed == "identity"
    assert "total * " in orders.columns[3].computed
    assert orders.comment == "What was ordered."
    assert orders.foreign_keys[0].rule == "ON DELETE CASCADE"
    assert orders.indexes[0].columns == ("lower(total::text)",)
    assert "5" in orders.indexes[0].where
    assert schema.types == (
        NamedType(name="mood", kind="enum", values=("sad", "happy")),
        NamedType(name="positive", kind="domain", definition="integer NOT NULL CHECK (VALUE > 0)"),
    )


async def test_other_schemas_are_read_where_they_are_named(postgres: PostgresServer) -> None:
    url = postgres.new_database()
    run_there(
        url,
        "CREATE SCHEMA sales",
        "CREATE TABLE customers (id int PRIMARY KEY)",
        "CREATE TABLE sales.orders (id int, customer int REFERENCES customers)",
        "CREATE TYPE sales.state AS ENUM ('new')",
    )

    usual, both, all_of_them = [
        await schema_of(url, schemas=schemas) for schemas in ((), ("public", "sales"), ("*",))
    ]

    assert sorted(usual.by_name) == ["customers"]
    assert sorted(both.by_name) == ["customers", "sales.orders"]
    assert both.by_name["sales.orders"].foreign_keys[0].table == "customers"
    assert both == all_of_them
    assert both.types[0].name == "sales.state"


async def test_postgresql_says_what_is_wrong(postgres: PostgresServer, place: str) -> None:
    with pytest.raises(DatabaseError, match="there is no such user"):
        await schema_of(postgres.url().replace("postgres@", "nobody@"))
    with pytest.raises(DatabaseError, match="there is no such database"):
        await schema_of(postgres.url("nowhere"))
    run_there(place, "CREATE TABLE a (b int)")
    connection = Connection("shop", ConnectionTable(url=place, timeout_s=1))
    try:
        with pytest.raises(DatabaseError, match="did not answer in time"):
            await connection.reading(lambda opened: opened.exec_driver_sql("SELECT pg_sleep(30)"))
        with pytest.raises(DatabaseError, match="read-only transaction"):
            await connection.reading(lambda opened: opened.exec_driver_sql("DROP TABLE a"))
        assert sorted((await connection.schema()).by_name) == ["a"]
    finally:
        await connection.aclose()
