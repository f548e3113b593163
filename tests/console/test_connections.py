"""The pages of connected databases: tables, columns, keys, and the log of statements."""

import re
from dataclasses import replace
from pathlib import Path

import toolgate
from tests.console.console_client import open_console, visible_text
from tests.databases.connections.databases import SHOP, run, sqlite_url
from toolgate.settings import ConnectionTable, PackSettings, Settings
from toolgate.store import StoredStatement
from toolgate.types import Caller


def connected(folder: Path) -> Settings:
    """A gateway with a database, and one whose file is missing."""
    shop = ConnectionTable(
        url=sqlite_url(run(folder / "shop.db", SHOP)), description="Orders of the shop."
    )
    gone = ConnectionTable(url=sqlite_url(folder / "gone.db"))
    return Settings(connections={"shop": shop, "gone": gone}, packs=PackSettings(enable=("sql",)))


async def test_connections_are_listed_with_their_size_and_state(tmp_path: Path) -> None:
    async with open_console(settings=connected(tmp_path)) as place:
        told = visible_text(await place.page("connections"))
    assert "shop sqlite Orders of the shop. " in told
    assert "readable" in told
    assert "the file is not there" in told


async def test_tables_are_found_by_name_or_column_and_drawn(tmp_path: Path) -> None:
    async with open_console(settings=connected(tmp_path)) as place:
        page = await place.page("connection", name="shop")
        assert 'href="/console/connection/table?name=shop&amp;table=customers"' in page
        assert "erDiagram" in page
        assert f"Version {toolgate.__version__}" in visible_text(page)
        by_column = await place.page("connection", name="shop", q="MAIL")
        assert "table=customers" in by_column
        assert "table=orders" not in by_column.partition("Diagram")[0]
        nothing = visible_text(await place.page("connection", name="shop", q="zzz"))
        assert "No table or column matches." in nothing
        assert "the file is not there" in visible_text(await place.page("connection", name="gone"))
        assert "There is no connection" in visible_text(
            await place.page("connection", 400, name="no")
        )


async def test_the_diagram_of_a_large_schema_can_be_copied_as_a_whole(tmp_path: Path) -> None:
    columns = ", ".join(f"a_column_with_a_long_name_{at} TEXT" for at in range(60))
    tables = "".join(f"CREATE TABLE archive_{at} ({columns});" for at in range(60))
    big = ConnectionTable(url=sqlite_url(run(tmp_path / "big.db", tables)))
    async with open_console(settings=Settings(connections={"big": big})) as place:
        page = await place.page("connection", name="big")
        diagram = page.partition('<pre id="diagram"')[2].partition("</pre>")[0]
        assert diagram.count("a_column_with_a_long_name_59") == 60
        assert 'data-copy="diagram"' in page


async def test_a_table_shows_columns_keys_and_who_references_it(tmp_path: Path) -> None:
    async with open_console(settings=connected(tmp_path)) as place:
        orders = await place.page("connection/table", name="shop", table="orders")
        assert 'href="/console/connection/table?name=shop&amp;table=customers"' in orders
        assert "primary key" in visible_text(orders)
        customers = visible_text(
            await place.page("connection/table", name="shop", table="customers")
        )
        assert "Referenced by orders" in customers
        gone = await place.page("connection/table", 400, name="shop", table="gone")
        assert "There is no table" in visible_text(gone)


async def test_the_query_log_shows_what_ran_and_what_was_refused(tmp_path: Path) -> None:
    async with open_console(settings=connected(tmp_path)) as place:
        execute, caller = place.app.gateway.calls.execute, Caller.local(conversation="talk")
        for number in range(50):
            statement = StoredStatement(
                statement_id=f"{number:02}",
                at=f"2026-01-01T00:00:{number:02}.000Z",
                project_id=caller.project_id,
                caller_id=caller.caller_id,
                connection="shop",
                statement=f"SELECT {number} AS early",
            )
            await place.app.store.statements.append(statement)
        await execute(caller, "sql:query", {"connection": "shop", "sql": "SELECT 7 AS n"})
        await execute(
            caller, "sql:query", {"connection": "shop", "sql": "DELETE FROM orders -- <b>"}
        )
        page = await place.page("connections/log")
        assert "<b>" not in page.partition('id="statements"')[2].partition("</table>")[0]
        told = visible_text(page)
        assert "DELETE FROM orders" in told
        assert "refused" in told
        assert "SELECT 7 AS n done 1" in told
        assert "SELECT 1 AS early" not in told
        refused = visible_text(await place.page("connections/log", outcome="refused"))
        assert "DELETE FROM orders" in refused
        assert "SELECT" not in refused.partition("Statement")[2]
        older = page.partition('rel="next"')[0].rpartition('href="/console/')[2].rstrip('" ')
        assert "SELECT 1 AS early" in visible_text(await place.page(older.replace("&amp;", "&")))
        none = visible_text(await place.page("connections/log", connection="gone"))
        assert "No matching statements." in none


async def test_only_administrators_see_connections(tmp_path: Path) -> None:
    settings = replace(connected(tmp_path), auth="required")
    async with open_console(settings=settings) as place:
        made = await place.app.gateway.admin.create_token(Caller.local(), "r", roles=["reader"])
        await place.send("login", token=made.secret)
        for path in ("connections", "connection?name=shop", "connections/log"):
            assert "shop" not in visible_text(await place.page(path, 403))


async def test_without_a_database_the_page_says_what_to_do() -> None:
    async with open_console() as place:
        assert "No databases connected yet." in await place.page("connections")


async def test_tables_with_numbers_are_sorted_by_the_numbers(tmp_path: Path) -> None:
    database = run(tmp_path / "t.db", "".join(f"create table t{n} (id int);" for n in (10, 2, 1)))
    settings = Settings(connections={"t": ConnectionTable(url=sqlite_url(database))})
    async with open_console(settings=settings) as place:
        page = await place.page("connection", name="t")
    assert re.findall(r'<th scope="row"><a [^>]*table=(t\d+)"', page) == ["t1", "t2", "t10"]
