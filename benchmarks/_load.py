"""Runs the load generator as its own process, so that its CPU time is not measured."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

_SETTLED_S = 5.0
"""Seconds without growth after which memory counts as settled (chosen)."""
_SETTLED_WITHIN_S = 60.0
"""Seconds after which memory that still grows is an error (chosen)."""

GENERATOR = Path(__file__).parent / "vendored" / "gateway_bench.py"


def load(
    url: str,
    *,
    era: str = "modern",
    method: str = "tools/call",
    tool: str = "echo",
    arguments: dict[str, Any] | None = None,
    concurrency: int = 1,
    calls: int = 500,
    pids: Sequence[int] = (),
) -> dict[str, Any]:
    """Put load on an endpoint and return the generator's row.

    Raises:
        AssertionError: A call failed.
    """
    metered = [word for pid in pids for word in ("--pid", str(pid))]
    done = subprocess.run(
        [
            *(sys.executable, str(GENERATOR), "--json", "--own", "--url", url, "--era", era),
            *("--method", method, "--tool", tool, "--args", json.dumps(arguments or {})),
            *("--concurrency", str(concurrency), "--calls", str(calls), *metered),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout, done.stderr
    row = json.loads(done.stdout.splitlines()[-1])
    assert not row["errors"], row["first_error"]
    return row


def own_cpu_s(pid: int) -> float:
    """CPU seconds that a process has used so far, without its children."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def processor_wait_s(pid: int) -> float:
    """Seconds for which the main thread of a process could run and had no processor, so far.

    0 where the system does not say. https://docs.kernel.org/scheduler/sched-stats.html
    """
    statistics = Path(f"/proc/{pid}/schedstat")
    if not statistics.exists():
        return 0.0
    return int(statistics.read_text(encoding="ascii").split()[1]) / 1e9


def own_rss_mb(pid: int) -> float:
    """Resident memory of a process, without its children."""
    return psutil.Process(pid).memory_info().rss / 2**20


def settled_rss_mb(pid: int) -> float:
    """Resident memory of a process, without its children, once it has not grown for a while.

    A gateway goes on working in the background after it has announced itself, so the memory of two
    gateways can only be compared after that.

    Raises:
        AssertionError: It goes on growing.
    """
    largest, since = own_rss_mb(pid), time.monotonic()
    deadline = since + _SETTLED_WITHIN_S
    while time.monotonic() < deadline:
        time.sleep(0.2)
        if (now := own_rss_mb(pid)) > largest + 0.1:
            largest, since = now, time.monotonic()
        elif time.monotonic() - since >= _SETTLED_S:
            return now
    raise AssertionError(f"the memory of process {pid} still grows")
