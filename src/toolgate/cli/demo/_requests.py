"""Requests in natural language that the demo searches and calls, also after a server was killed.

`tool_discovery` alone decides which tool is called; the demo only knows which one is right.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
from mcp import Client

from toolgate.base.processes.liveness import end_at_once
from toolgate.base.token_estimate import estimate_tokens
from toolgate.cli.client._gateway_client import GatewayClient
from toolgate.cli.demo._report import RecoveryResult, RequestResult
from toolgate.cli.terminal._sanitize import sanitize
from toolgate.types import Json

BACK_S = 30.0
"""Seconds to wait for a killed server to restart (chosen)."""

_HIT = re.compile(r'^("(?:[^"\\]|\\.)*"|[^\s()"]+)(?:\(.*\))? \[(\d\.\d\d)')
"""A line in the result of `tool_discovery`: key, signature, relevance."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request in natural language."""

    text: str
    """Text of the search."""

    expected: str
    """Key of the right tool; the arguments are for this one."""

    arguments: Callable[[Path], Json]
    """Creates the arguments from the path of the scratch folder."""

    proof: str
    """Text that the answer must contain."""


REQUEST_POOL: tuple[Request, ...] = (
    Request(
        text="write a text file",
        expected="filesystem:write_file",
        arguments=lambda scratch: {
            "path": str(scratch / "files" / "hello.txt"),
            "content": "written through Toolgate\n",
        },
        proof="hello.txt",
    ),
    Request(
        # Shares no word with the tool: found by meaning.
        text="half past nine in Berlin, which hour is that in Tokyo",
        expected="time:convert_time",
        arguments=lambda _: {
            "source_timezone": "Europe/Berlin",
            "time": "09:30",
            "target_timezone": "Asia/Tokyo",
        },
        proof="Asia/Tokyo",
    ),
    Request(
        text="show git commit logs",
        expected="git:git_log",
        arguments=lambda scratch: {"repo_path": str(scratch / "repository")},
        proof="Open the gate",
    ),
    Request(
        text="run a SELECT query on the database",
        expected="sqlite:read_query",
        arguments=lambda _: {"query": "SELECT name, visitors FROM gates ORDER BY visitors DESC"},
        proof="Brandenburg",
    ),
    Request(
        text="store new entities in a knowledge graph",
        expected="memory:create_entities",
        arguments=lambda _: {
            "entities": [
                {"name": "Toolgate", "entityType": "gateway", "observations": ["one endpoint"]}
            ]
        },
        proof="one endpoint",
    ),
    Request(
        text="create a new Excel workbook",
        expected="excel:create_workbook",
        arguments=lambda scratch: {"path": str(scratch / "files" / "gates.xlsx")},
        proof="gates.xlsx",
    ),
)
"""The demo shows the first four whose server is available, also without Node or git."""


async def find_and_run(client: Client, request: Request, scratch: Path) -> RequestResult:
    begun = anyio.current_time()
    text, _ = await _call(client, "tool_discovery", {"query": request.text})
    found_at = anyio.current_time()
    hits = read_hits(text)
    best, relevance = hits[0] if hits else ("", 0.0)
    ran = request.expected if request.expected in dict(hits) else ""
    answer, worked = "", False
    if ran:
        call = {"toolKey": ran, "arguments": request.arguments(scratch)}
        answer, worked = await _call(client, "tool_execute", call)
    return RequestResult(
        request=request.text,
        found=best,
        relevance=relevance,
        expected=request.expected,
        ran=ran,
        worked=worked and request.proof in answer,
        answer=_first_chars(answer),
        discovery_tokens=estimate_tokens(text),
        discovery_ms=(found_at - begun) * 1e3,
        execute_ms=(anyio.current_time() - found_at) * 1e3,
    )


def choose_victim(chosen: Sequence[Request]) -> Request | None:
    """Choose the request whose server is killed: repeatable, and its server starts quickly."""
    quick = ("filesystem", "memory", "sqlite")
    by_server = {request.expected.partition(":")[0]: request for request in chosen}
    return next((by_server[name] for name in quick if name in by_server), None)


async def kill_and_call(
    gateway: GatewayClient, client: Client, request: Request, other: Request, scratch: Path
) -> RecoveryResult:
    server = request.expected.partition(":")[0]
    old = _pid(await gateway.servers(), request.expected)
    assert old is not None
    end_at_once(old)
    arguments = request.arguments(scratch)
    answers: dict[str, tuple[str, bool, float]] = {}

    async def timed(key: str, arguments: Json) -> None:
        begun = anyio.current_time()
        call = {"toolKey": key, "arguments": arguments}
        answers[key] = (
            *await _call(client, "tool_execute", call),
            (anyio.current_time() - begun) * 1e3,
        )

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(timed, request.expected, arguments)
        tasks.start_soon(timed, other.expected, other.arguments(scratch))
    first, worked, first_ms = answers[request.expected]
    works = worked
    new: int | None = None
    with anyio.move_on_after(BACK_S):
        while (new := _pid(await gateway.servers(), request.expected)) in {None, old} or not works:
            await anyio.sleep(0.1)
            if not works:
                call = {"toolKey": request.expected, "arguments": arguments}
                _, works = await _call(client, "tool_execute", call)
    return RecoveryResult(
        server=server,
        killed_pid=old,
        new_pid=None if new == old else new,
        first_call=_first_chars(first),
        first_call_worked=worked,
        first_call_ms=first_ms,
        works_again=works and new not in {None, old},
        other=other.expected,
        other_worked=answers[other.expected][1],
        other_ms=answers[other.expected][2],
    )


async def _call(client: Client, tool: str, arguments: Json) -> tuple[str, bool]:
    """Call a tool; return the text of its result, and whether the call succeeded."""
    result = await client.call_tool(tool, arguments)
    texts = [block.text for block in result.content if block.type == "text"]
    return "\n".join(texts), not result.is_error


def read_hits(text: str) -> list[tuple[str, float]]:
    """Parse keys and relevance of the tools in a result of `tool_discovery`, best first."""
    hits: list[tuple[str, float]] = []
    for line in text.splitlines():
        match = _HIT.match(line)
        if match:
            key = match[1]
            hits.append((json.loads(key) if key.startswith('"') else key, float(match[2])))
    return hits


def _pid(servers: Sequence[Json], key: str) -> int | None:
    name = key.partition(":")[0]
    return next((row["pid"] for row in servers if row["name"] == name), None)


def _first_chars(text: str) -> str:
    """Return the first characters of an answer, on one line."""
    return sanitize(" ".join(text.split()))[:300]
