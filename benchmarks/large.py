"""Measures large results over stdio, and how they delay other calls.

    python -m benchmarks.large [--quick] [--json]

While one client fetches results of 10 and 30 MB from one stdio server, another calls `echo` of a
second server without a pause. Both are separate processes. The reference rows are the same results
fetched directly from a probe server over HTTP.
"""

import http.client
import json
import threading
import time
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from benchmarks._load import load, own_cpu_s
from benchmarks._mcp import tools_call
from benchmarks._report import Report, Target, main
from benchmarks._servers import probed_gateway

SIZES = (10_000_000, 30_000_000)
QUICK_SIZES = (1_000_000,)


def measure(quick: bool) -> Report:
    """Run the rounds and return the table."""
    rounds, fetches, calls = (1, 1, 30) if quick else (4, 6, 300)
    sizes = QUICK_SIZES if quick else SIZES
    first = _name(sizes[0])
    found: dict[str, list[dict[str, float]]] = {}
    with probed_gateway("b", "c") as probed:
        direct, served, pid = probed.direct_url, probed.gateway.url, probed.gateway.run.pid
        for _ in range(rounds):
            quiet = load(served, tool="c__echo", arguments={"text": "hi"}, calls=calls)
            found.setdefault("echo alone", []).append(quiet)
            for size in sizes:
                name = _name(size)
                seconds = [_fetch(direct, "big", size) for _ in range(2)]
                found.setdefault(f"{name}, direct HTTP", []).append({"s": min(seconds)})
                began = own_cpu_s(pid)
                seconds = [_fetch(served, "b__big", size) for _ in range(fetches)]
                cpu_s = (own_cpu_s(pid) - began) / fetches
                row = {"s": min(seconds), "cpu_s": cpu_s}
                found.setdefault(f"{name}, stdio server", []).append(row)
                row = _beside(served, size, fetches)
                row["added_ms"] = row["max_ms"] - quiet["p50_ms"]
                found.setdefault(f"echo beside {name}", []).append(row)
    return Report(
        name="large",
        title=f"Large results through the gateway, {rounds} rounds",
        rows=[_row(name, rounds_of) for name, rounds_of in found.items()],
        targets=(
            Target(
                what=f"s for {first} over stdio, best",
                measured=min(row["s"] for row in found[f"{first}, stdio server"]),
                limit=0.4,
            ),
            Target(
                what=f"ms the worst other call is delayed by {first}, best round",
                measured=min(row["added_ms"] for row in found[f"echo beside {first}"]),
                limit=50,
            ),
        ),
        notes=(
            "CPU s: of the gateway process for one result. worst ms: the slowest call of a round,"
            " median and least of the rounds.",
        ),
    )


def _name(size: int) -> str:
    return f"{size // 1_000_000} MB"


def _beside(served: str, size: int, fetches: int) -> dict[str, Any]:
    """Call `echo` of another server for as long as large results are fetched."""
    row: dict[str, Any] = {}
    stop = threading.Event()

    def fetch() -> None:
        while not stop.is_set():
            _fetch(served, "b__big", size)

    thread = threading.Thread(target=fetch)
    thread.start()
    try:
        row = load(served, tool="c__echo", arguments={"text": "hi"}, calls=60 * fetches)
    finally:
        stop.set()
        thread.join()
    return row


def _fetch(url: str, tool: str, size: int) -> float:
    """Call `big`; returns the seconds until the last byte has arrived."""
    message, headers = tools_call(tool, {"bytes": size})
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    try:
        connection.connect()
        began = time.perf_counter()
        connection.request("POST", place.path, json.dumps(message), headers)
        response = connection.getresponse()
        received = len(response.read())
        taken_s = time.perf_counter() - began
    finally:
        connection.close()
    assert response.status == 200, response.status
    assert received > size, received
    return taken_s


def _row(name: str, rounds: list[dict[str, float]]) -> dict[str, Any]:
    first = rounds[0]
    worst = [row["max_ms"] for row in rounds] if "max_ms" in first else None
    return {
        "what": name,
        "s": min(row["s"] for row in rounds) if "s" in first else None,
        "CPU s": min(row["cpu_s"] for row in rounds) if "cpu_s" in first else None,
        "p50 ms": median(row["p50_ms"] for row in rounds) if "p50_ms" in first else None,
        "worst ms": median(worst) if worst else None,
        "least": min(worst) if worst else None,
    }


if __name__ == "__main__":
    main("large", measure)
