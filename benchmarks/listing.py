"""Measures what listing 642 real tools costs.

    python -m benchmarks.listing [--quick] [--json]

37 servers with the definitions of `data/real_tools.jsonl` stand behind `toolgate serve` with
`mode = "all"` and nothing held back. The reference row is a request of the same kind whose response
is a few bytes.
"""

import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks._load import load
from benchmarks._report import Report, Target, main
from benchmarks._servers import gateway, menu_servers

CASES = (
    ("tools/list, modern", "modern", "tools/list"),
    ("tools/list, legacy", "legacy", "tools/list"),
    ("reference: server/discover, modern", "modern", "server/discover"),
    ("reference: ping, legacy", "legacy", "ping"),
)


def measure(quick: bool) -> Report:
    """Run the rounds and return the table."""
    rounds, requests = (1, 10) if quick else (5, 100)
    servers = menu_servers(1 if quick else None)
    found: dict[str, list[dict[str, Any]]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        gateway(Path(folder), servers, {"mode": "all", "quarantine": "off"}) as running,
    ):
        known = running.wait_ready(*servers)
        tools = sum(status["tools"] for status in known.values())
        load(running.url, method="tools/list", calls=requests)  # left over from the start
        for _ in range(rounds):
            for name, era, method in CASES:
                pid = running.run.pid
                row = load(running.url, era=era, method=method, calls=requests, pids=[pid])
                row["cpu_ms"] = row["cpu_ms_per_call"][str(pid)]
                found.setdefault(name, []).append(row)
    return Report(
        name="listing",
        title=f"Listing {tools} tools of {len(servers)} servers over HTTP, one at a time",
        rows=[_row(name, found[name]) for name, _, _ in CASES],
        targets=[
            Target(
                what=f"CPU ms per {name}",
                measured=min(row["cpu_ms"] for row in found[name]),
                limit=5,
            )
            for name in ("tools/list, modern", "tools/list, legacy")
        ],
        notes=(
            f"{rounds} rounds of {requests} requests a row. CPU ms: of the gateway process, the"
            " least and the median of the rounds.",
        ),
    )


def _row(name: str, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    cpu = [row["cpu_ms"] for row in rounds]
    return {
        "request": name,
        "CPU ms": min(cpu),
        "median": median(cpu),
        "p50 ms": median(row["p50_ms"] for row in rounds),
        "p99 ms": median(row["p99_ms"] for row in rounds),
    }


if __name__ == "__main__":
    main("listing", measure)
