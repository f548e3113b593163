"""Packs as commands list them: found from this folder, with their state in the running gateway."""

import sys
from contextlib import redirect_stdout
from pathlib import Path

from toolgate.cli.client._open_gateway import find_running
from toolgate.packs import Packs, no_services
from toolgate.settings import Settings
from toolgate.types import Json


async def pack_rows(loaded: Settings) -> list[Json]:
    """Return all packs with their problems.

    A running gateway may use an earlier version of a pack, and has already run its code. Without
    a gateway the code runs here.
    """
    running = await find_running(loaded)
    services = None if running is not None else no_services
    packs = Packs(loaded.packs, cwd=Path.cwd(), services=services)
    await packs.refresh()
    with redirect_stdout(sys.stderr):  # keep output of pack code out of the result
        await packs.load()
    rows = [state.to_json() for state in packs.current.states]
    await packs.aclose()
    used = {str(row["folder"]): row for row in await running.rows("packs")} if running else {}
    return [used.get(str(row["folder"]), row) for row in rows]
