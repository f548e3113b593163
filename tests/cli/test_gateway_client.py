"""What commands ask of a gateway, and what they make of its answers."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from toolgate.base.processes.run_file import RunFile
from toolgate.cli.client._gateway_client import GatewayClient, GatewayResponseError
from toolgate.cli.serving._background import other_gateways_note
from toolgate.types import Json

RUNNING = RunFile(
    address="http://127.0.0.1:1",
    pid=1,
    key="",
    store="",
    configuration=(),
    started_at="",
    version="",
    path=Path("none"),
)
STARTING: Json = {"servers": [{"name": "a", "state": "connecting", "listed_at": None}]}
READY: Json = {"servers": [{"name": "a", "state": "ready", "listed_at": "2026-01-01T00:00:00Z"}]}
NOTHING: Json = {"results": [], "notice": "Server a is still starting."}
FOUND: Json = {"results": [{"toolKey": "a:b", "source": "vector"}]}


def gateway(
    answers: Sequence[Json], *, run: RunFile | None = RUNNING, status: int = 200
) -> GatewayClient:
    left = list(answers)

    async def exchange(method: str, path: str, body: Json | None) -> tuple[int, bytes]:
        return status, json.dumps(left.pop(0)).encode()

    return GatewayClient(exchange, run)


async def test_a_search_waits_for_servers_that_start_just_now() -> None:
    """Right after `toolgate serve` nothing was found, with status 3."""
    found = await gateway([NOTHING, STARTING, STARTING, READY, FOUND]).discover({"query": "x"})

    assert found == FOUND


@pytest.mark.parametrize(
    "answers", [[FOUND], [NOTHING, READY]], ids=["something fits", "all servers are there"]
)
async def test_a_search_waits_for_nothing_else(answers: list[Json]) -> None:
    assert await gateway(answers).discover({"query": "x"}) == answers[0]


async def test_a_call_waits_for_its_server_if_that_starts_just_now() -> None:
    """Right after `toolgate start`, a call failed with `still starting`."""
    refused = json.dumps({"error": {"code": "server_down", "message": "still starting"}}).encode()
    slow = {"name": "slow", "state": "connecting", "listed_at": None}
    first = {"servers": [STARTING["servers"][0], slow]}
    then = {"servers": [READY["servers"][0], slow]}  # another server does not hold it up
    answers = [(503, refused), *((200, json.dumps(b).encode()) for b in (first, then, {"ok": 1}))]

    async def exchange(method: str, path: str, body: Json | None) -> tuple[int, bytes]:
        return answers.pop(0)

    assert await GatewayClient(exchange, RUNNING).execute("a:b", {}) == {"ok": 1}
    assert answers == []


async def test_a_call_of_a_server_that_is_down_does_not_wait() -> None:
    refused = json.dumps({"error": {"code": "server_down", "message": "down"}}).encode()
    down: Json = {"servers": [{"name": "a", "state": "down", "listed_at": None}]}
    answers = [(503, refused), (200, json.dumps(down).encode())]

    async def exchange(method: str, path: str, body: Json | None) -> tuple[int, bytes]:
        return answers.pop(0)

    with pytest.raises(GatewayResponseError, match="down"):
        await GatewayClient(exchange, RUNNING).execute("a:b", {})


async def test_a_gateway_that_ends_with_its_command_points_to_no_log() -> None:
    said = "Searched by words alone: the embedder failed; the log of the gateway says why."
    here = await gateway([{"results": [], "notice": said}], run=None).discover({"query": "x"})
    there = await gateway([{**FOUND, "notice": said}]).discover({"query": "x"})

    assert here["notice"].endswith("failed; the same command with --verbose says why.")
    assert there["notice"] == said

    error: Json = {"error": {"message": "Internal error; the log of the gateway says more."}}
    with pytest.raises(GatewayResponseError, match="the same command with --verbose says more"):
        await gateway([error], run=None, status=500).execute("a:b", {})
    with pytest.raises(GatewayResponseError, match="the log of the gateway says more"):
        await gateway([error], status=500).execute("a:b", {})


async def test_gateways_that_differ_only_in_imported_files_are_told_apart() -> None:
    """`toolgate status` named only the file that both read."""
    plain = replace(RUNNING, configuration=("/a/toolgate.toml",))
    imports = replace(RUNNING, configuration=("/a/toolgate.toml", "/a/mcp.json"))

    assert other_gateways_note([plain, imports]) == (
        "Running with another configuration: http://127.0.0.1:1 (/a/toolgate.toml), "
        "http://127.0.0.1:1 (/a/toolgate.toml with /a/mcp.json)."
    )
    assert other_gateways_note([replace(RUNNING, configuration=("",))]) == (
        "Running with another configuration: http://127.0.0.1:1 (no configuration file)."
    )
