"""What the process that serves has in memory: read from the interpreter's own list of imports."""

import contextlib
from pathlib import Path

import pytest
from mcp import Client

from benchmarks._load import load
from tests.real.processes import PROBE_SERVER, RunningGateway, gateway

pytestmark = pytest.mark.real

NEVER = {
    *(
        "alembic",
        "typer",
        "rich",
        "jinja2",
        "fastmcp",
        "requests",
        "openai",
        "langgraph",
        "sqlglot",
    ),
    *("cryptography", "httpx2", "mcp.client", "mcp.server.mcpserver"),
}


ON_DEMAND = {"mcp_types", "aiohttp"}
"""What only sessions of the handshake era, and servers over HTTP, need."""


async def test_the_serving_process_never_loads_what_only_commands_need(tmp_path: Path) -> None:
    """Both eras listed and called, a fresh store made: nothing of it needs these libraries."""
    python, script = PROBE_SERVER
    servers = {"a": {"command": python, "args": [script]}}
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(
            gateway(tmp_path, servers, env={"PYTHONPROFILEIMPORTTIME": "1"}, prelude=None)
        )
        running.wait_ready("a")
        for mode in ("auto", "legacy"):
            async with Client(running.url, mode=mode) as client:
                await client.list_tools()
                await client.call_tool("a__echo", {"text": "hello"})
                await client.call_tool("tool_discovery", {"query": "echo"})

    loaded = _loaded(running)
    assert "toolgate.gateway.gateway" in loaded
    assert NEVER & loaded == set()
    assert ON_DEMAND & loaded == {"mcp_types"}


def test_clients_without_sessions_load_neither_the_sdk_nor_an_http_client(tmp_path: Path) -> None:
    python, script = PROBE_SERVER
    with gateway(
        tmp_path,
        {"a": {"command": python, "args": [script]}},
        env={"PYTHONPROFILEIMPORTTIME": "1"},
        prelude=None,
    ) as running:
        running.wait_ready("a")
        assert load(running.url, tool="a__echo", arguments={"text": "hello"}, calls=5)["calls"] == 5
        load(running.url, tool="tool_discovery", arguments={"query": "echo"}, calls=5)

    loaded = _loaded(running)
    assert "toolgate.gateway.gateway" in loaded
    assert ON_DEMAND & loaded == set()


def _loaded(running: RunningGateway) -> set[str]:
    """The modules that an ended gateway has imported."""
    lines = running.log.read_text(encoding="utf-8", errors="replace").splitlines()
    return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}
