"""What a process that serves takes of memory, and what it leaves."""

import gc
import subprocess
import sys
from contextlib import suppress

from toolgate.base.processes.memory import set_aside, starting, uncollected

NEEDED = """
import sys
from toolgate.base.processes.memory import defer
defer("mcp", "mcp.server")
import toolgate.server.mcp.front
heavy = {"mcp.client", "mcp.server.mcpserver", "httpx2", "cryptography"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""

ASKED = """
from mcp.server import MCPServer
import mcp
from mcp import Client
from toolgate.server.mcp.front import Server
assert mcp.server.Server is Server, "two of one class"
assert mcp.server.lowlevel.Server is Server
assert mcp.Client is Client
assert type(mcp) is type(mcp.server) is type(sys)
defer("mcp", "mcp.server")
assert mcp.Client is Client
try:
    mcp.no_such_name
except AttributeError as error:
    assert "no_such_name" in str(error)
"""


def run(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_front_loads_nothing_of_the_sdk_that_it_does_not_use() -> None:
    """Source: the bound on the gateway's memory."""
    run(NEEDED)


def test_whoever_asks_for_the_rest_of_the_sdk_gets_it() -> None:
    """Code of packs runs in the same process."""
    run(NEEDED + ASKED)


def test_the_collector_waits_while_many_objects_are_made() -> None:
    """It is as before afterwards, also where it was off already or the block failed."""
    with uncollected():
        assert not gc.isenabled()
        with suppress(ValueError), uncollected():
            raise ValueError
        assert not gc.isenabled()

    assert gc.isenabled()


def test_what_a_start_makes_is_never_scanned() -> None:
    made: list[list[int]] = []
    before = gc.get_freeze_count()
    try:
        with starting():
            made.append([])
            assert not gc.isenabled()
        assert gc.isenabled()
        assert gc.get_freeze_count() > before
        assert not any(item is made[0] for item in gc.get_objects())
    finally:
        gc.unfreeze()


def test_a_process_that_serves_scans_new_objects_less_often() -> None:
    default = gc.get_threshold()
    try:
        set_aside()
        assert gc.get_threshold()[0] > default[0]
        assert gc.get_threshold()[1:] == default[1:]
    finally:
        gc.set_threshold(*default)
        gc.unfreeze()
