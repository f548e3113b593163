"""Twenty real MCP servers by others, as they are published on npm and PyPI, and one that hangs."""

import sys
from pathlib import Path

from tests.real.processes import PROBE_SERVER
from tests.real.setup import CACHE, ensure
from toolgate.cli._demo_servers import server_table
from toolgate.types import Json

__all__ = ["HANGING", "twenty_servers"]

HANGING: Json = {
    "command": PROBE_SERVER[0],
    "args": [PROBE_SERVER[1], "--name", "hangs", "--slow-start", "3600"],
}
"""A server that starts and never says a word."""


def twenty_servers(folder: Path) -> dict[str, Json]:
    """Configuration of 20 servers; those of which there are fewer kinds run twice.

    Args:
        folder: Where they keep their data.
    """
    installed = ensure(lambda line: print(f"    {line}", file=sys.stderr, flush=True))
    found: dict[str, Json] = {}
    for turn in range(1, 20):
        scratch = folder / f"scratch{turn}"
        (scratch / "files").mkdir(parents=True)
        table = server_table(installed.servers, CACHE, scratch, installed.node)
        for name, config in table.items():
            found[name if turn == 1 else f"{name}{turn}"] = config
            if len(found) == 20:
                return found
    raise AssertionError("no server could be installed")
