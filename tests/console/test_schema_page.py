"""The page of database schemas."""

from pathlib import Path

import pytest

from tests.console.console_client import open_console, visible_text
from tests.databases.connections.databases import SHOP, run, sqlite_url
from toolgate.settings import ConnectionTable, Settings

pytestmark = pytest.mark.anyio


async def test_tables_and_their_keys_are_shown_with_the_diagram(tmp_path: Path) -> None:
    path = run(tmp_path / "shop.db", SHOP)
    gone = ConnectionTable(url=sqlite_url(tmp_path / "gone.db"))
    shop = ConnectionTable(url=sqlite_url(path))
    async with open_console(settings=Settings(connections={"shop": shop, "gone": gone})) as place:
        page = await place.page("schema")

    assert 'href="#shop.customers"' in page
    assert 'id="shop.customers"' in page
    text = visible_text(page)
    assert "erDiagram" in text
    assert "the file is not there" in text


async def test_without_a_database_the_page_says_what_to_do() -> None:
    async with open_console() as place:
        assert "No databases connected yet." in await place.page("schema")
