"""Packs as commands show them: those found from here, as a running gateway uses them."""

import sys
from contextlib import redirect_stdout
from pathlib import Path

from toolgate.cli.client._open_gateway import find_running
from toolgate.packs import Packs, no_services
from toolgate.settings import Settings
from toolgate.types import Json

__all__ = ["pack_rows"]


async def pack_rows(loaded: Settings) -> list[Json]:
    """Every pack with what is wrong with it.

    A running gateway may use an earlier version of a pack, and knows what its code does. Without
    one the code is run here.
    """
    running = await find_running(loaded)
    services = None if running is not None else no_services
    packs = Packs(loaded.packs, cwd=Path.cwd(), services=services)
    await packs.refresh()
    with redirect_stdout(sys.stderr):  # what code of packs prints is no answer of the command
        await packs.load()
    rows = [state.to_json() for state in packs.current.states]
    await packs.aclose()
    used = {str(row["folder"]): row for row in await running.rows("packs")} if running else {}
    return [used.get(str(row["folder"]), row) for row in rows]
