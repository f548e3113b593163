"""Servers that others publish on npm and PyPI list and answer behind the gateway."""

import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.limits import HANG_S
from tests.real.processes import RunningGateway, gateway
from tests.real.setup import CACHE, Installed
from toolgate.cli.demo._servers import SERVERS, server_table
from toolgate.types import Json

pytestmark = [
    pytest.mark.real,
    pytest.mark.xdist_group("real-servers"),
]

TOOLS = {
    "everything": 17,
    "excel": 46,
    "fetch": 1,
    "filesystem": 14,
    "git": 12,
    "github": 26,
    "memory": 9,
    "notion": 24,
    "sqlite": 6,
    "thinking": 1,
    "time": 2,
}
"""Tools by server, in the pinned versions."""

MODERN = {"excel", "fetch", "git", "time"}
"""Servers that speak revision 2026-07-28; the others speak a revision with a handshake."""


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder, a repository and a database for the servers to work on."""
    folder = tmp_path_factory.mktemp("scratch")
    (folder / "files").mkdir()
    (folder / "files" / "note.txt").write_text("remember the milk\n", encoding="utf-8")
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    for step in (("init", "--quiet"), (*identity, "commit", "--allow-empty", "-qm", "First step")):
        subprocess.run(["git", *step], cwd=folder / "files", check=True)
    with sqlite3.connect(folder / "notes.db") as database:
        database.execute("create table notes (body text)")
        database.execute("insert into notes values ('remember the milk')")
    database.close()
    return folder


@pytest.fixture(scope="module")
def running(installed: Installed, scratch: Path) -> Iterator[RunningGateway]:
    """A gateway before all eleven of them."""
    table = server_table(installed.servers, CACHE, scratch, installed.node)
    with gateway(scratch / "gateway", table, {"mode": "all"}) as started:
        started.wait_ready(*table)
        yield started


def test_every_server_is_listed_in_its_own_era(running: RunningGateway) -> None:
    seen = running.servers()

    assert {name: row["tools"] for name, row in seen.items()} == TOOLS
    assert {name for name, row in seen.items() if row["era"] == "modern"} == MODERN


CALLS: dict[str, tuple[str, Json, str]] = {
    "everything": ("echo", {"message": "grüß dich 中"}, "grüß dich 中"),
    "excel": ("list_workbooks", {"directory": "{scratch}/files"}, "{}"),
    "filesystem": ("read_text_file", {"path": "{scratch}/files/note.txt"}, "remember the milk"),
    "git": ("git_log", {"repo_path": "{scratch}/files"}, "First step"),
    "memory": ("read_graph", {}, "entities"),
    "sqlite": ("read_query", {"query": "select body from notes"}, "remember the milk"),
    "thinking": (
        "sequentialthinking",
        {"thought": "one", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1},
        "thoughtNumber",
    ),
    "time": (
        "convert_time",
        {"source_timezone": "Asia/Tokyo", "time": "09:30", "target_timezone": "UTC"},
        "00:30",
    ),
}
"""Tool, arguments and what the answer holds, for each server that works without an account."""


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("name", sorted(CALLS))
async def test_a_server_answers_a_call_by_exposed_name_and_through_the_meta_tool(
    name: str, mode: str, running: RunningGateway, scratch: Path
) -> None:
    """Both eras of client, whatever the era of the server."""
    tool, arguments, expected = CALLS[name]
    filled = {
        key: value.format(scratch=scratch, mode=mode) if isinstance(value, str) else value
        for key, value in arguments.items()
    }

    with anyio.fail_after(HANG_S):
        async with Client(streamable_http_client(running.url), mode=mode) as client:
            direct = await client.call_tool(f"{name}__{tool}", filled)
            through = await client.call_tool(
                "tool_execute", {"toolKey": f"{name}:{tool}", "arguments": filled}
            )

    assert not direct.is_error, direct
    assert expected in direct.model_dump_json()
    assert direct.content[0].type == through.content[0].type
    assert expected in through.model_dump_json()


async def test_all_tools_arrive_as_their_servers_define_them(running: RunningGateway) -> None:
    async with Client(streamable_http_client(running.url)) as client:
        listed = await client.list_tools()

    names = {tool.name for tool in listed.tools}
    assert len(names) == sum(TOOLS.values())
    assert all(len(name) <= 48 for name in names)
    assert {server.name for server in SERVERS} == set(TOOLS)
