"""Measures `tool_discovery` through an MCP client, with 20 running servers and one that hangs.

    python -m benchmarks.discovery [--quick] [--json]

The requests are in plain words and differ from call to call. The reference row is `server/discover`
over the same connections: the cost of a request that searches nothing.
"""

import asyncio
import itertools
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from mcp import Client

from benchmarks._load import own_cpu_s
from benchmarks._report import Report, main
from benchmarks._servers import HANGING, gateway, real_servers
from benchmarks.vendored.gateway_bench import Mcp

QUERIES = (
    "read a text file",
    "list what is in a folder",
    "find files by name",
    "current time in another time zone",
    "convert a time between zones",
    "show the changes that are not committed",
    "commit staged changes with a message",
    "create a branch",
    "fetch a web page as markdown",
    "remember a fact about a person",
    "search what was remembered",
    "open an issue in a repository",
    "merge a pull request",
    "comment on a page",
    "query a database table",
    "insert rows into a table",
    "write values into a spreadsheet",
    "draw a chart from cells",
    "think step by step about a problem",
    "echo a message back",
    "rename a file",
    "list the tables of a database",
    "apply a formula to a cell",
    "who changed this file last",
)


def measure(quick: bool) -> Report:
    """Run the rounds and return the table."""
    rounds, calls = (1, 12) if quick else (5, 400)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        servers = real_servers(folder, 1 if quick else 20)
        settings = {"mode": "meta"}
        with gateway(folder / "gateway", {**servers, "hangs": HANGING}, settings) as running:
            known = running.wait_ready(*servers, within_s=240)
            found = asyncio.run(_measure(running.url, running.run.pid, rounds, calls))
    tools = sum(status["tools"] for status in known.values())
    rows = [_row(name, list(each)) for name, each in found.items()]
    return Report(
        name="discovery",
        title=f"tool_discovery over {tools} tools of {len(servers)} running servers, one hanging",
        rows=rows,
        notes=(
            f"{rounds} rounds of {calls} calls a row; times are medians of the rounds, CPU of the"
            " gateway process is the least.",
        ),
    )


async def _measure(
    url: str, pid: int, rounds: int, calls: int
) -> dict[str, list[dict[str, float]]]:
    queries: itertools.cycle[str] = itertools.cycle(QUERIES)

    def search() -> tuple[str, dict[str, Any]]:
        return "tools/call", {"name": "tool_discovery", "arguments": {"query": next(queries)}}

    def nothing() -> tuple[str, dict[str, Any]]:
        return "server/discover", {}

    found: dict[str, list[dict[str, float]]] = {}
    await _load(url, pid, search, at_once=1, calls=20)
    for _ in range(rounds):
        for at_once in (1, 32):
            row = await _load(url, pid, search, at_once=at_once, calls=calls)
            found.setdefault(f"tool_discovery, {at_once} at once", []).append(row)
            row = await _load(url, pid, nothing, at_once=at_once, calls=calls)
            found.setdefault(f"reference: server/discover, {at_once} at once", []).append(row)
        row = await _by_sdk(url, pid, queries, calls=calls // 4)
        found.setdefault("tool_discovery, 1 at once, by the SDK's client", []).append(row)
    return found


async def _load(
    url: str, pid: int, make: Callable[[], tuple[str, dict[str, Any]]], *, at_once: int, calls: int
) -> dict[str, float]:
    """Spread calls over connections; returns times in milliseconds."""
    clients = [Mcp(url, "modern") for _ in range(at_once)]
    spent: list[float] = []
    left = iter(range(calls))

    async def work(client: Mcp) -> None:
        for _ in left:
            method, params = make()
            began = time.perf_counter()
            await client.call(method, params)
            spent.append((time.perf_counter() - began) * 1000)

    cpu_s = own_cpu_s(pid)
    await asyncio.gather(*map(work, clients))
    cpu_ms = (own_cpu_s(pid) - cpu_s) * 1000 / calls
    for client in clients:
        client.c.close()
    return _summary(spent, cpu_ms)


async def _by_sdk(
    url: str, pid: int, queries: "itertools.cycle[str]", *, calls: int
) -> dict[str, float]:
    spent: list[float] = []
    async with Client(url) as client:
        cpu_s = own_cpu_s(pid)
        for _ in range(calls):
            began = time.perf_counter()
            result = await client.call_tool("tool_discovery", {"query": next(queries)})
            spent.append((time.perf_counter() - began) * 1000)
            assert not result.is_error, result
    return _summary(spent, (own_cpu_s(pid) - cpu_s) * 1000 / calls)


def _summary(spent: Sequence[float], cpu_ms: float) -> dict[str, float]:
    cuts = quantiles(spent, n=20)
    return {"p50_ms": median(spent), "p95_ms": cuts[-1], "cpu_ms": cpu_ms}


def _row(name: str, rounds: list[dict[str, float]]) -> dict[str, Any]:
    return {
        "request": name,
        "CPU ms": min(row["cpu_ms"] for row in rounds),
        "p50 ms": median(row["p50_ms"] for row in rounds),
        "p95 ms": median(row["p95_ms"] for row in rounds),
    }


if __name__ == "__main__":
    main("discovery", measure)
