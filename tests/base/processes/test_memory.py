"""What a process that serves takes of memory, and what it leaves."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from toolgate.base.processes.memory import set_aside, starting, uncollected

_DEFAULT = (700, 10, 10)
"""Thresholds of the garbage collector in a new process (Python 3.11)."""

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


@pytest.fixture
def scanned() -> Iterator[list[int]]:
    """Sizes of the scans of the garbage collector, which is as before afterwards."""
    sizes: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            sizes.append(sum(map(len, map(gc.get_objects, range(info["generation"] + 1)))))

    before = gc.get_threshold()
    gc.set_threshold(*_DEFAULT)  # another test of this process may have served before
    gc.collect()
    gc.callbacks.append(note)
    try:
        yield sizes
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*before)


def test_what_a_start_makes_is_never_scanned(scanned: list[int]) -> None:
    before = gc.get_freeze_count()
    with starting():
        made = [[number] for number in range(10_000)]
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > before
    assert not any(item is made[0] for item in gc.get_objects())
    assert max(scanned, default=0) < len(made)


def test_a_process_that_serves_scans_seldom_and_few_objects_at_a_time(scanned: list[int]) -> None:
    set_aside()
    assert gc.get_threshold()[0] > _DEFAULT[0]
    kept = [[number] for number in range(100_000)]
    assert 0 < len(scanned) < len(kept) / _DEFAULT[0]
    assert max(scanned) < 3_000
