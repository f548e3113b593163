"""What reaches a client through the gateway, by the word of a program that knows no Toolgate.

Four kinds of upstream (streamable HTTP, stdio, SSE, and a stdio server of the handshake era alone),
two eras of client, beside an upstream that never answers.
"""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.processes import (
    PROBE_SERVER,
    VENDORED,
    RunningGateway,
    free_port,
    gateway,
    listening,
)
from toolgate.types import Json

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

ERAS = ("modern", "legacy")


@contextlib.contextmanager
def gateway_before_probes(folder: Path, mode: str) -> Iterator[RunningGateway]:
    """A gateway before four probe servers, `a` to `d`, and one that never answers."""
    python, script = PROBE_SERVER
    http, sse = free_port(), free_port()
    servers: dict[str, Json] = {
        "a": {"url": f"http://127.0.0.1:{http}/mcp"},
        "b": {"command": python, "args": [script, "--name", "b"]},
        "c": {"url": f"http://127.0.0.1:{sse}/sse", "type": "sse"},
        "d": {"command": python, "args": [script, "--name", "d", "--legacy-only"]},
        "hangs": {"command": python, "args": [script, "--name", "hangs", "--slow-start", "3600"]},
    }
    over_http = (*PROBE_SERVER, "--transport", "http", "--port", str(http))
    over_sse = (*PROBE_SERVER, "--transport", "sse", "--port", str(sse))
    with (
        listening(over_http, http, log=folder / "http.log"),
        listening(over_sse, sse, log=folder / "sse.log"),
        gateway(folder / "gateway", servers, {"mode": mode}) as running,
    ):
        running.wait_ready("a", "b", "c", "d")
        yield running


def probe(*arguments: str) -> tuple[list[Json], list[str]]:
    """Run the probe; gives its rows, and what failed as one line each."""
    done = subprocess.run(
        [sys.executable, str(VENDORED / "gateway_probe.py"), "--json", *arguments],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    rows = json.loads(done.stdout)["rows"]
    failed = [
        f"{row['era']} {row['prefix']} {row['check']}: {row['missing']} {row['seen']}"
        for row in rows
        if row["verdict"] == "FAIL"
    ]
    return rows, failed


@pytest.mark.parametrize("era", ERAS)
def test_everything_passes_to_all_kinds_of_servers_beside_one_that_hangs(
    era: str, tmp_path: Path
) -> None:
    prefixes = [word for name in "abcd" for word in ("--prefix", f"{name}__")]
    with gateway_before_probes(tmp_path, "all") as running:
        rows, failed = probe("--url", running.url, "--era", era, *prefixes)

    assert failed == []
    assert len(rows) == 4 * 24


@pytest.mark.parametrize("era", ERAS)
def test_everything_passes_through_the_meta_tool_as_well(era: str, tmp_path: Path) -> None:
    keys = [word for name in "abcd" for word in ("--prefix", f"{name}:")]
    with gateway_before_probes(tmp_path, "meta") as running:
        rows, failed = probe("--url", running.url, "--era", era, "--execute", "tool_execute", *keys)

    assert failed == []
    assert len(rows) == 4 * 24
