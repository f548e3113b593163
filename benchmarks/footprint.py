"""Measures memory and start of the gateway process with 20 real stdio servers.

    python -m benchmarks.footprint [--quick] [--json]

The first start lists the servers. Each further start finds the catalog in its store and has one
more server, which never answers; the gateway is ready when `tools/list` returns what it returned
before.
"""

import json
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from benchmarks._load import load, own_cpu_s, own_rss_mb
from benchmarks._mcp import message
from benchmarks._report import Report, Target, main
from benchmarks._servers import ECHO, HANGING, gateway, real_servers
from tests.real.processes import RunningGateway
from toolgate.types import Json

QUERIES = ("read a file", "what time is it in Tokyo", "commit my changes", "remember a fact")


def measure(quick: bool) -> Report:
    """Start, measure and start again; return the table."""
    starts, uses = (1, 5) if quick else (7, 50)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        servers = {"everything": ECHO} if quick else real_servers(folder, 20)
        with gateway(folder / "gateway", servers, {"mode": "all"}) as running:
            known = running.wait_ready(*servers, within_s=240)
            rows = [_memory(running, f"{len(servers)} servers listed")]
            expected = _listed(running)
            _use(running, uses)
            rows.append(_memory(running, f"after {8 * uses} discoveries and calls"))
        begun = [_start(folder, {**servers, "hangs": HANGING}, expected) for _ in range(starts)]
    cpu = [start["cpu_s"] for start in begun]
    rows.append(
        {
            "when": "started again, one server hanging",
            "own MB": median(start["rss_mb"] for start in begun),
            "children MB": None,
            "CPU s": min(cpu),
            "CPU s, median": median(cpu),
            "wall s": median(start["wall_s"] for start in begun),
        }
    )
    tools = sum(status["tools"] for status in known.values())
    return Report(
        name="footprint",
        title=f"The gateway with {len(servers)} real stdio servers and {tools} tools",
        rows=rows,
        targets=(
            Target(what="own MB after use", measured=rows[1]["own MB"], limit=110),
            Target(what="CPU s until tools/list, best", measured=min(cpu), limit=0.9),
        ),
        notes=(
            f"{starts} starts. Own: of the gateway process; children MB: resident memory of the"
            " servers, pages they share counted each time.",
        ),
    )


def _start(folder: Path, servers: Mapping[str, Json], expected: int) -> dict[str, float]:
    """Start again over the same store; returns the CPU seconds until the catalog is listed."""
    began = time.perf_counter()
    with gateway(folder / "gateway", servers, {"mode": "all"}) as running:
        listed = _listed(running)
        cpu_s = own_cpu_s(running.run.pid)
        wall_s = time.perf_counter() - began
        assert listed == expected, f"{listed} tools listed instead of {expected}"
        return {"cpu_s": cpu_s, "wall_s": wall_s, "rss_mb": own_rss_mb(running.run.pid)}


def _memory(running: RunningGateway, when: str) -> dict[str, Any]:
    process = psutil.Process(running.run.pid)
    children = sum(child.memory_info().rss for child in process.children(recursive=True))
    return {
        "when": when,
        "own MB": own_rss_mb(running.run.pid),
        "children MB": children / 2**20,
        "CPU s": own_cpu_s(running.run.pid),
        "CPU s, median": None,
        "wall s": None,
    }


def _use(running: RunningGateway, uses: int) -> None:
    """Send every query so many times, and as many calls as queries."""
    for query in QUERIES:
        load(running.url, tool="tool_discovery", arguments={"query": query}, calls=uses)
    call = {"toolKey": "everything:echo", "arguments": {"message": "hi"}}
    load(running.url, tool="tool_execute", arguments=call, concurrency=8, calls=len(QUERIES) * uses)


def _listed(running: RunningGateway) -> int:
    """Number of tools that a modern client is shown."""
    body, headers = message("tools/list", {})
    request = urllib.request.Request(running.url, data=json.dumps(body).encode(), headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return len(json.load(answer)["result"]["tools"])


if __name__ == "__main__":
    main("footprint", measure)
