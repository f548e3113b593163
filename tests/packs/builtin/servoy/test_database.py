"""Tables from definitions of a workspace and from connected databases."""

import sqlite3
from collections.abc import AsyncGenerator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.packs.builtin.servoy.workspaces import TABLES, Dialect, call, column, make, put
from toolgate.databases.connections import Connections
from toolgate.settings import ConnectionTable
from toolgate.upstream import ToolServices

WHOLE = """\
Database Server: example_data

Tables (5):
  - customers
  - employees
  - order_details
  - orders
  - products

=== EXPLICIT FOREIGN KEY RELATIONSHIPS ===
1. orders.employeeid → employees

=== POTENTIAL RELATIONS (PK column name + type matching) ===
1. order_details.orderid → orders.orderid (PK match)
2. order_details.productid → products.productid (PK match)
3. orders.customerid → customers.customerid (PK match)"""


@pytest.mark.parametrize("dialect", ["plain", "json"])
async def test_one_call_shows_tables_and_what_connects_them(
    tmp_path: Path, dialect: Dialect
) -> None:
    """Explicit keys are no potential ones, and no table points to a key of several columns."""
    said = await call(make(tmp_path, dialect), "queryDatabaseSchema", serverName="example_data")

    assert said.text == WHOLE


async def test_a_server_without_keys_says_so(tmp_path: Path) -> None:
    root = make(tmp_path, tables={"alone": [column("x")]})

    said = await call(root, "queryDatabaseSchema", serverName="example_data")

    assert "(No explicit FK metadata found)" in said.text
    assert "(No potential relations found)" in said.text


async def test_types_have_to_be_equal_and_names_are_compared_without_case(tmp_path: Path) -> None:
    tables = {
        "a": [column("A_ID", 12, 36, flags=1)],
        "b": [column("a_id", 12, 36)],
        "c": [column("a_id", 12, 50)],
        "d": [column("a_id", 12, 36, subType=1)],
    }

    said = await call(
        make(tmp_path, tables=tables), "discoverDbRelations", serverName="example_data"
    )

    assert [each["table"] for each in said.structured["potential"]] == ["b"]
    assert said.text.startswith("Database Server: example_data\n\n=== EXPLICIT")


async def test_a_table_shows_its_key_and_what_points_to_it(tmp_path: Path) -> None:
    root = make(tmp_path)

    said = await call(root, "queryDatabaseSchema", serverName="example_data", tableName="employees")
    both = await call(
        root, "queryDatabaseSchema", serverName="example_data", tableName="order_details"
    )

    assert said.text == (
        "Table: employees\nDataSource: db:/example_data/employees\n\n"
        "Primary Key Columns:\n  - employeeid\n\n"
        "Incoming Foreign Keys (tables referencing this table):\n"
        "1. Table: orders → Column: employeeid (FK to this table)"
    )
    assert "Primary Key Columns:\n  - orderid\n  - productid\n" in both.text
    assert both.text.endswith("(tables referencing this table):\n  (none)")


async def test_columns_are_shown_with_types_and_keys(tmp_path: Path) -> None:
    root = make(tmp_path)

    said = await call(root, "getTableColumns", serverName="example_data", tableName="customers")
    info = await call(root, "getTableInfo", serverName="example_data", tableName="orders")

    assert said.text == (
        "Table: customers\nDataSource: db:/example_data/customers\nColumns:\n"
        "1. Name: customerid\n   Type: <12,5,0>\n   Primary Key: true\n"
        "2. Name: companyname\n   Type: <12,40,0>\n"
        "3. Name: country\n   Type: <12,15,0>"
    )
    assert info.text.endswith("Foreign Keys:\n  - employeeid → employees")


async def test_views_have_columns_and_are_no_tables(tmp_path: Path) -> None:
    root = make(tmp_path)
    view = {"columns": [column("total", 8)], "name": "totals", "tableType": 1}
    put(root / "resources/datasources/example_data/totals.dbi", view, "plain")

    listed = await call(root, "listTables", serverName="example_data")
    shown = await call(root, "getTableColumns", serverName="example_data", tableName="totals")

    assert listed.structured["tables"] == sorted(TABLES)
    assert listed.text.startswith("Database Server: example_data\nTables (5):\n  - customers")
    assert shown.structured["isView"]


@pytest.mark.parametrize(
    ("tool", "given", "text"),
    [
        (
            "queryDatabaseSchema",
            {},
            "The 'serverName' argument is required. Cannot enumerate database servers - please "
            "specify the server name.",
        ),
        (
            "queryDatabaseSchema",
            {"serverName": "x"},
            "Database server 'x' not found. Check that the server is configured and valid.",
        ),
        (
            "queryDatabaseSchema",
            {"serverName": "example_data", "tableName": "x"},
            "Table 'x' not found in server 'example_data'.",
        ),
        ("getTableColumns", {}, "The 'serverName' argument is required."),
        (
            "getTableColumns",
            {"serverName": "example_data"},
            "The 'tableName' argument is required.",
        ),
        (
            "getTableColumns",
            {"serverName": "../..", "tableName": "x"},
            "Database server '../..' not found.",
        ),
        ("listTables", {}, "Error: 'serverName' parameter is required"),
        (
            "listTables",
            {"serverName": "x"},
            "Error: Database server 'x' not found.",
        ),
        ("getTableInfo", {"serverName": "s"}, "Error: 'tableName' parameter is required"),
        ("discoverDbRelations", {}, "Error: 'serverName' parameter is required"),
    ],
)
async def test_what_is_not_there_is_said_in_the_words_of_the_original(
    tmp_path: Path, tool: str, given: dict[str, Any], text: str
) -> None:
    said = await call(make(tmp_path), tool, **given)

    assert said.first == text
    assert said.texts[1:] in ([], ["Known: example_data."])
    assert said.is_error


async def test_a_definition_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    root = make(tmp_path)
    path = root / "resources/datasources/example_data/orders.dbi"
    path.write_text("columns:[\n{\nname:", encoding="utf-8")

    said = await call(root, "queryDatabaseSchema", serverName="example_data")

    assert said.is_error
    assert said.text.startswith(f"{path}:3: the file cannot be read: a value is expected")


SHOP = """
CREATE TABLE customers (customerid INTEGER PRIMARY KEY, name VARCHAR(40), since DATE, rate NUMERIC(8,2));
CREATE TABLE orders (orderid INTEGER PRIMARY KEY, customerid INTEGER, paid BOOLEAN, note TEXT, scan BLOB,
  sent TIMESTAMP, employeeid INTEGER REFERENCES employees(employeeid));
CREATE TABLE employees (employeeid INTEGER PRIMARY KEY, share FLOAT);
CREATE VIEW totals AS SELECT customerid, count(*) AS n FROM orders GROUP BY customerid;
"""  # noqa: E501 - SQL


Connect = Callable[..., ToolServices]


@pytest.fixture
async def connected(tmp_path: Path) -> AsyncGenerator[Connect]:
    """What a tool gets where `live` is a connection of the settings."""
    opened: list[Connections] = []

    def connect(url: str = "") -> ToolServices:
        path = tmp_path / "shop.db"
        with closing(sqlite3.connect(path)) as database:
            database.executescript(SHOP)
        connections = Connections({"live": ConnectionTable(url=url or f"sqlite:///{path}")})
        opened.append(connections)
        return ToolServices(settings={"workspace": str(tmp_path / "ws")}, connections=connections)

    yield connect
    for connections in opened:
        await connections.aclose()


async def test_a_connected_database_is_a_server_of_its_name(
    connected: Connect, tmp_path: Path
) -> None:
    """Declared keys are explicit ones; others are guessed as from definitions."""
    make(tmp_path / "ws")
    services = connected()

    said = await call("", "queryDatabaseSchema", services=services, serverName="live")
    columns = await call(
        "", "getTableColumns", services=services, serverName="live", tableName="orders"
    )

    assert said.structured == {
        "server": "live",
        "tables": ["customers", "employees", "orders"],
        "explicit": [{"table": "orders", "column": "employeeid", "target": "employees"}],
        "potential": [
            {
                "table": "orders",
                "column": "customerid",
                "target": "customers",
                "targetColumn": "customerid",
            }
        ],
    }
    assert [each["type"] for each in columns.structured["columns"]] == [
        "<4,0,0>",
        "<4,0,0>",
        "<16,0,0>",
        "<-1,0,0>",
        "<-4,0,0>",
        "<93,0,0>",
        "<4,0,0>",
    ]


async def test_relations_of_a_connected_database_are_checked_against_it(
    connected: Connect, tmp_path: Path
) -> None:
    root = make(tmp_path / "ws")
    services = connected()
    ends: dict[str, Any] = {
        "primaryDataSource": "live/orders",
        "foreignDataSource": "live/customers",
    }

    wrong = await call(
        "",
        "openRelation",
        services=services,
        name="a",
        **ends,
        primaryColumn="note",
        foreignColumn="customerid",
    )
    right = await call(
        "",
        "openRelation",
        services=services,
        name="a",
        **ends,
        primaryColumn="customerid",
        foreignColumn="customerid",
    )

    assert "need the same type" in wrong.text
    assert right.first == (
        "Relation 'a' created successfully (from db:/live/orders to db:/live/customers)"
    )
    assert (root / "shop/relations/a.rel").exists()


async def test_a_database_that_cannot_be_reached_is_named_without_its_address(
    connected: Connect,
    tmp_path: Path,
) -> None:
    make(tmp_path / "ws")
    services = connected(f"sqlite:///{tmp_path}/secret-name.db")

    said = await call("", "listTables", services=services, serverName="live")

    assert said.is_error
    assert said.text.startswith("Database server 'live' cannot be used.")
    assert "secret-name" not in said.text
