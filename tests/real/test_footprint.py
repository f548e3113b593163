"""What the process that serves has in memory: read from the interpreter's own list of imports."""

import contextlib
from pathlib import Path

import pytest
from mcp import Client

from tests.real.processes import PROBE_SERVER, gateway

pytestmark = [
    pytest.mark.real,
    pytest.mark.anyio,
]

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


async def test_the_serving_process_never_loads_what_only_commands_need(tmp_path: Path) -> None:
    """Both eras listed and called, a fresh store made: nothing of it needs these libraries."""
    python, script = PROBE_SERVER
    servers = {"a": {"command": python, "args": [script]}}
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(
            gateway(tmp_path, servers, env={"PYTHONPROFILEIMPORTTIME": "1"})
        )
        running.wait_ready("a")
        for mode in ("auto", "legacy"):
            async with Client(running.url, mode=mode) as client:
                await client.list_tools()
                await client.call_tool("a__echo", {"text": "hello"})
                await client.call_tool("tool_discovery", {"query": "echo"})

    lines = running.log.read_text(encoding="utf-8", errors="replace").splitlines()
    loaded = {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}
    assert "toolgate.gateway.gateway" in loaded
    assert NEVER & loaded == set()
