"""The packs that ship: what holds for packs of others holds for them first."""

import pytest

from tests.cli.conftest import Command
from tests.limits import HANG_S
from toolgate.packs import builtin_pack_names
from toolgate.settings import ConnectionTable, PackSettings, Settings
from toolgate.testing.memory import memory_app
from toolgate.types import Caller


@pytest.mark.parametrize("name", builtin_pack_names())
def test_lint_finds_nothing_in_a_pack_that_ships(command: Command, name: str) -> None:
    """Regression: 36 warnings for `schema`, whose tools are only there with a database."""
    done = command("pack", "lint", name, "--json")

    found = [f"{each['file']}:{each['line']} {each['text']}" for each in done.json["findings"]]
    assert (found, done.status) == ([], 0)


async def test_no_tool_of_a_pack_that_ships_is_held_back() -> None:
    """Regression: the scanner took the description of `servoy:setContext` for an order."""
    settings = Settings(
        packs=PackSettings(enable=tuple(builtin_pack_names())),
        connections={"shop": ConnectionTable(url="sqlite://", snapshot_every_minutes=0)},
    )
    async with memory_app({}, settings, wait_s=HANG_S) as app:
        servers = {tool.server for tool in app.gateway.listing.tool_views(Caller.local())}
        held = await app.gateway.manage.quarantine.entries(Caller.local())

    assert {"schema", "servoy"} <= servers
    assert [(each.key, each.reason) for each in held] == []
