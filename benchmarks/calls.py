"""Compares a call through the gateway with a direct one: CPU, calls per second, added time.

    python -m benchmarks.calls [--quick] [--json]

`toolgate serve` stands in front of two probe servers, one over streamable HTTP and one over stdio.
Each round measures every row once, including direct calls to the same probe server. The table shows
the median of the rounds and, for CPU, the least disturbed round.
"""

from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks._load import load
from benchmarks._report import Report, Target, main
from benchmarks._servers import probed_gateway

CONCURRENCIES = (1, 16, 64)
QUICK_CONCURRENCIES = (1,)
ARGUMENTS = {"text": "hi"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A way to call `echo`."""

    name: str
    era: str = "modern"
    tool: str = "echo"
    arguments: dict[str, Any] = field(default_factory=lambda: dict(ARGUMENTS))
    direct: bool = False


CASES = (
    Case(name="direct, modern", direct=True),
    Case(name="HTTP upstream, modern", tool="a__echo"),
    Case(name="stdio upstream, modern", tool="b__echo"),
    Case(
        name="HTTP upstream, tool_execute",
        tool="tool_execute",
        arguments={"toolKey": "a:echo", "arguments": ARGUMENTS},
    ),
    Case(
        name="stdio upstream, tool_execute",
        tool="tool_execute",
        arguments={"toolKey": "b:echo", "arguments": ARGUMENTS},
    ),
    Case(name="direct, legacy", era="legacy", direct=True),
    Case(name="HTTP upstream, legacy", era="legacy", tool="a__echo"),
    Case(name="stdio upstream, legacy", era="legacy", tool="b__echo"),
)


def measure(quick: bool) -> Report:
    """Run the rounds and return the table."""
    # The processor time of a process is told in steps of 10 ms; 20 calls can take none of them.
    rounds, calls = (1, 60) if quick else (4, 600)
    levels = QUICK_CONCURRENCIES if quick else CONCURRENCIES
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    with probed_gateway("b", http="a") as probed:
        pids = (probed.probe_pid, probed.gateway.run.pid)
        for _ in range(rounds):
            for concurrency in levels:
                for case in CASES:
                    row = load(
                        probed.direct_url if case.direct else probed.gateway.url,
                        era=case.era,
                        tool=case.tool,
                        arguments=case.arguments,
                        concurrency=concurrency,
                        calls=calls,
                        pids=pids,
                    )
                    pid = pids[0] if case.direct else pids[1]
                    row["cpu_ms"] = row["cpu_ms_per_call"][str(pid)]
                    found.setdefault((case.name, concurrency), []).append(row)
    rows = [_row(case, concurrency, found) for concurrency in levels for case in CASES]
    return Report(
        name="calls",
        title=f"A tools/call of `echo`, {rounds} rounds of {calls} calls a row",
        rows=rows,
        targets=_targets(found, levels),
        notes=(
            "CPU ms: of the gateway process alone, in direct rows of the probe server; its least"
            " and median of the rounds.",
            "p50 and p99: median of the rounds. added ms: the least p50 of the rounds less the"
            " least direct one of the same era.",
        ),
    )


def _row(
    case: Case, concurrency: int, found: dict[tuple[str, int], list[dict[str, Any]]]
) -> dict[str, Any]:
    rounds = found[case.name, concurrency]
    cpu = [row["cpu_ms"] for row in rounds]
    reference = [row["cpu_ms"] for row in found[f"direct, {case.era}", concurrency]]
    return {
        "call": case.name,
        "at once": concurrency,
        "CPU ms": min(cpu),
        "median": median(cpu),
        "of direct": min(cpu) / min(reference),
        "calls/s": median(row["calls_per_s"] for row in rounds),
        "p50 ms": median(row["p50_ms"] for row in rounds),
        "p99 ms": median(row["p99_ms"] for row in rounds),
        "added ms": None if case.direct else _added_ms(case.name, case.era, concurrency, found),
    }


def _added_ms(
    name: str, era: str, concurrency: int, found: dict[tuple[str, int], list[dict[str, Any]]]
) -> float:
    """Lowest p50 of the rounds minus the lowest direct one, since both are undisturbed."""
    least, direct = (
        min(row["p50_ms"] for row in found[case, concurrency]) for case in (name, f"direct, {era}")
    )
    return least - direct


def _targets(
    found: dict[tuple[str, int], list[dict[str, Any]]], levels: tuple[int, ...]
) -> list[Target]:
    http, stdio = "HTTP upstream, modern", "stdio upstream, modern"

    def cpu(name: str) -> float:
        """The cheapest level counts: all run the same code, and some are disturbed."""
        return min(row["cpu_ms"] for level in levels for row in found[name, level])

    return [
        Target(what="CPU ms per call, HTTP upstream", measured=cpu(http), limit=1.6),
        Target(what="CPU ms per call, stdio upstream", measured=cpu(stdio), limit=1.2),
        Target(
            what=f"calls/s at {levels[-1]} over HTTP, best round",
            measured=max(row["calls_per_s"] for row in found[http, levels[-1]]),
            limit=450,
            at_least=True,
        ),
        Target(
            what="ms added to the p50 at 1, HTTP upstream",
            measured=_added_ms(http, "modern", 1, found),
            limit=2.5,
        ),
        Target(
            what="ms added to the p50 at 1, stdio upstream",
            measured=_added_ms(stdio, "modern", 1, found),
            limit=2.5,
        ),
    ]


if __name__ == "__main__":
    main("calls", measure)
