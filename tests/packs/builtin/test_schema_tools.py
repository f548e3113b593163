"""The tools of the pack `schema`, through a gateway and a real database."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.databases.connections.databases import SHOP, run, sqlite_url
from tests.limits import HANG_S
from toolgate.app.app import App, open_app
from toolgate.databases.connections import Schema, TableSchema
from toolgate.packs.builtin.schema._name_lookup import find_types
from toolgate.settings import Settings, load
from toolgate.types import Caller


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return run(tmp_path / "shop.db", SHOP)


def settings(tmp_path: Path, text: str) -> Settings:
    (tmp_path / "toolgate.toml").write_text(
        f'[store]\nurl = "{sqlite_url(tmp_path / "store.db")}"\n{text}', encoding="utf-8"
    )
    return load(cwd=tmp_path, environ={"HOME": str(tmp_path)})


def connection(name: str, path: Path) -> str:
    return f'[connections.{name}]\nurl = "{sqlite_url(path)}"\nsnapshot_every_minutes = 0\n'


@asynccontextmanager
async def gateway(tmp_path: Path, text: str) -> AsyncGenerator[App]:
    async with open_app(settings(tmp_path, text), wait_s=HANG_S) as app:
        yield app


async def call(app: App, tool: str, **arguments: object) -> tuple[str, dict[str, Any]]:
    """Text and structured content; the text begins with `ERROR ` for an error."""
    result = await app.gateway.calls.execute(Caller.local(), f"schema:{tool}", arguments)
    text = result["content"][0]["text"]
    return (f"ERROR {text}" if result["isError"] else text), result.get("structuredContent", {})


async def test_version_changes_and_types_of_a_database_are_answered(
    tmp_path: Path, shop: Path
) -> None:
    async with gateway(tmp_path, connection("shop", shop)) as app:
        version, about = await call(app, "schema_version")
        run(shop, "ALTER TABLE orders RENAME COLUMN total TO sum; CREATE TABLE notes (text);")
        changes, log = await call(app, "schema_changelog")
        one, few = await call(app, "schema_changelog", limit=1, since="yesterday")
        none, _ = await call(app, "schema_changelog", until="2020-01-01")
        types, listed = await call(app, "type_info")
        order, details = await call(app, "type_info", type_name="Order")

    assert version.splitlines()[1] == "It has 2 tables, 1 view and 8 columns."
    assert f"version 1 ({about['version']})" in version
    assert (about["number"], about["tables"], about["views"], about["columns"]) == (1, 2, 1, 8)
    assert {"- column orders.total renamed to sum", "- table notes added (1 column)"} <= set(
        changes.splitlines()
    )
    assert [each["action"] for each in log["changes"]] == ["renamed", "added", "renamed"]
    assert one.startswith("1 of 3 changes of the schema of shop since ")
    assert (len(few["changes"]), few["total"], few["truncated"]) == (1, 3, True)
    assert none.startswith("There are no changes of the schema of shop until 2020-01-01.")
    assert "earlier changes are not known" in none
    assert "- customers (table, 3 columns)" in types
    assert [each["name"] for each in listed["types"]] == [
        *("big_orders", "customers", "notes", "orders")
    ]
    assert order.splitlines() == [
        "orders: table of shop, 3 columns.",
        "- id INTEGER, not null, primary key",
        "- customer_id INT, refers to customers(id)",
        "- sum NUMERIC(10,2), default 0",
        "Check: sum >= 0",
        "Index ix_customer on (customer_id)",
    ]
    assert details["columns"][1]["references"] == "customers(id)"


async def test_what_does_not_fit_is_said_with_what_would(tmp_path: Path, shop: Path) -> None:
    stock = run(
        tmp_path / "stock.db",
        "CREATE TABLE shelves (id INT); CREATE TABLE orders (x INT);"
        "CREATE VIEW broken AS SELECT * FROM nowhere;"
        "CREATE TABLE 'two\nlines' (a INT);",
    )
    both = connection("shop", shop) + connection("stock", stock)
    async with gateway(tmp_path, both) as app:
        several, _ = await call(app, "schema_version")
        unknown, _ = await call(app, "schema_version", connection="shopp")
        date, _ = await call(app, "schema_changelog", connection="shop", since="2025-13-45")
        misspelt, _ = await call(app, "type_info", type_name="custmers")
        nothing, _ = await call(app, "type_info", type_name="zzz", connection="stock")
        shelf, _ = await call(app, "type_info", type_name="shelf*")
        broken, _ = await call(app, "type_info", type_name="Broken")
        shelves, _ = await call(app, "type_info", type_name="Shelves")
        odd, _ = await call(app, "type_info", type_name="two lines")
        orders, _ = await call(app, "type_info", type_name="orders")
        named, _ = await call(app, "type_info", type_name="orders", connection="stock")

    assert several.startswith("ERROR There are several connections. Connections: shop, stock.")
    assert unknown.endswith("Did you mean 'shop'?")
    assert date.startswith("ERROR since is '2025-13-45', which is not a date. Allowed: YYYY-MM-DD")
    assert misspelt == "ERROR There is no type 'custmers' in any connection. Nearest: customers."
    assert "There is no type 'zzz' in the schema of stock." in nothing
    assert shelf.startswith("ERROR There is no type 'shelf*'")
    assert broken.startswith("ERROR 'broken' of stock cannot be read: no such table")
    assert shelves.startswith("shelves: table of stock, 1 column.")
    assert odd.splitlines() == ["two lines: table of stock, 1 column.", "- a INT"]
    assert orders.startswith("ERROR There is a type 'orders' in several connections.")
    assert named.startswith("orders: table of stock")


async def test_a_pack_may_be_told_which_connection_is_meant(tmp_path: Path, shop: Path) -> None:
    stock = run(tmp_path / "stock.db", "CREATE TABLE shelves (id INT)")
    text = connection("shop", shop) + connection("stock", stock)
    text += '[packs.options.schema]\nconnection = "stock"\n'
    async with gateway(tmp_path, text) as app:
        version, about = await call(app, "schema_version")

    assert (version.split()[3], about["connection"]) == ("stock", "stock")


async def test_nothing_is_lost_when_the_database_is_gone(tmp_path: Path, shop: Path) -> None:
    async with gateway(tmp_path, connection("shop", shop)) as app:
        await call(app, "schema_version")
    shop.unlink()
    async with gateway(tmp_path, connection("shop", shop)) as app:
        version, about = await call(app, "schema_version")
        order, _ = await call(app, "type_info", type_name="orders")

    assert "This is how it was on " in version
    assert "The database of the connection 'shop' cannot be read: the file is not there" in version
    assert about["problem"]
    assert order.startswith("orders: table of shop, 3 columns.")


async def test_the_changes_of_all_databases_are_listed_together(tmp_path: Path, shop: Path) -> None:
    stock = run(tmp_path / "stock.db", "CREATE TABLE bins (id INTEGER PRIMARY KEY);")
    gone = tmp_path / "gone.db"
    text = connection("shop", shop) + connection("stock", stock) + connection("gone", gone)
    async with gateway(tmp_path, text) as app:
        await call(app, "schema_changelog")
        run(shop, "ALTER TABLE orders ADD COLUMN note TEXT")
        await call(app, "schema_version", connection="shop")
        run(stock, "DROP TABLE bins; CREATE TABLE xyz (id INTEGER PRIMARY KEY);")
        both, log = await call(app, "schema_changelog")
        few, _ = await call(app, "schema_changelog", limit=1)
        alone, _ = await call(app, "schema_changelog", connection="stock")

    assert both.startswith("3 changes of the schemas of shop and stock, newest first:")
    assert "table bins removed (1 column), perhaps renamed to xyz" in both
    assert "table xyz added (1 column), perhaps bins before" in both
    assert "column orders.note added (TEXT)" in both
    assert "gone" in both
    assert [change["connection"] for change in log["changes"]] == ["stock", "stock", "shop"]
    assert log["total"] == 3
    assert few.startswith("1 of 3 changes")
    assert alone.startswith("2 changes of the schema of stock")


async def test_a_schema_is_drawn(tmp_path: Path, shop: Path) -> None:
    async with gateway(tmp_path, connection("shop", shop)) as app:
        drawn, about = await call(app, "schema_diagram")
        part, _ = await call(app, "schema_diagram", tables="cust*")
        partly, partly_about = await call(app, "schema_diagram", tables="cust*, zzz*")
        nothing, _ = await call(app, "schema_diagram", tables="zzz*")

    assert drawn.startswith("```mermaid\nerDiagram\n")
    assert '    customers ||--o{ orders : "customer_id"' in drawn
    assert "INTEGER id PK" in drawn
    assert about["mermaid"] in drawn
    assert "customers {" in part
    assert "orders" not in part
    assert partly.splitlines()[-1].startswith("No table matches 'zzz*'.")
    assert partly_about["unmatched"] == ["zzz*"]
    assert nothing.startswith("ERROR No table of shop matches 'zzz*'.")


async def test_tools_and_rules_come_and_go_with_connections(tmp_path: Path, shop: Path) -> None:
    without = settings(tmp_path, "")
    async with open_app(without, wait_s=HANG_S) as app:
        found = await app.recognizer.detect("fields of the big_orders")
        assert not app.rulebook
        assert app.packs.specs((), has_connections=False) == []
        assert found.intent == "none"

        await app.reload(settings(tmp_path, connection("shop", shop)))
        await app.gateway.servers.wait_ready(HANG_S)
        assert bool(app.rulebook)
        await call(app, "schema_version")
        with anyio.fail_after(HANG_S):
            known = await app.recognizer.detect("fields of the big_orders")
        assert (known.intent, known.arguments) == ("type-info", {"type_name": "big_orders"})

        await app.reload(without)
        assert not app.rulebook


SCHEMA = Schema.of(
    TableSchema(name=name)
    for name in ("Customers", "customers", "order_items", "OrderStatus", "sales.invoices", "news")
)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("customers", ["customers"]),
        ("CUSTOMERS", ["Customers", "customers"]),
        ("customer", ["Customers", "customers"]),
        ("order items", ["order_items"]),
        ("OrderItem", ["order_items"]),
        ("order-status", ["OrderStatus"]),
        ("'invoice'", ["sales.invoices"]),
        ("sales.invoices", ["sales.invoices"]),
        ("other.invoices", []),
        ("order", ["OrderStatus", "order_items"]),
        ("news", ["news"]),
        ("*items", ["order_items"]),
        ("*.invoices", ["sales.invoices"]),
        ("", []),
        ("*", ["Customers", "OrderStatus", "customers", "news", "order_items", "sales.invoices"]),
    ],
)
def test_names_are_found_as_people_say_them(name: str, found: list[str]) -> None:
    assert [each.name for each in find_types(SCHEMA, name).matches] == found


def test_names_that_are_nearly_right_are_offered() -> None:
    assert "order_items" in find_types(SCHEMA, "ordre items").near
