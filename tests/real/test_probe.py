"""What reaches a client through the gateway, by the word of a program that knows no Toolgate.

Four kinds of upstream (streamable HTTP, stdio, SSE, and a stdio server of the handshake era alone),
two eras of client, beside an upstream that never answers.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest

from tests.limits import HANG_S
from tests.real.processes import (
    PROBE_SERVER,
    VENDORED,
    RunningGateway,
    free_port,
    gateway,
    listening,
)
from toolgate.types import Json

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("probe")]

ERAS = ("modern", "legacy")

KNOWN = {
    ("c", "big_arguments"): "the SDK's SSE server takes no message over 4 MiB: it answers 413",
}
"""What fails for a reason in the probe server; it has to fail, so that this list only shrinks."""


@pytest.fixture(scope="module")
def gateway_before_probes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway before four probe servers, `a` to `d`, and one that never answers.

    Its results come whole, since the probe wants 10 MB at once through the meta-tool too.
    """
    folder = tmp_path_factory.mktemp("probe")
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
    settings: Json = {"mode": "all", "results": {"paging": False}}
    with (
        listening(over_http, http, log=folder / "http.log"),
        listening(over_sse, sse, log=folder / "sse.log"),
        gateway(folder / "gateway", servers, settings) as running,
    ):
        running.wait_ready("a", "b", "c", "d")
        yield running


def probe(prefixes: Sequence[str], *arguments: str) -> tuple[int, str]:
    """Run the probe; gives the number of checks that applied, and what was not expected.

    Some of its checks demand times (a second beside a slow call, 0.7 s for a cancellation), which a
    machine can miss that runs other tests beside; what failed is therefore asked once more, alone.
    """
    rows = _rows(prefixes, *arguments)
    for row in [row for row in rows if not _is_as_expected(row)]:
        rows.remove(row)
        rows += _rows([row["prefix"]], *arguments, "--only", row["check"])
    wrong = [
        ", ".join(str(row[key]) for key in ("era", "prefix", "check", "verdict", "missing", "seen"))
        for row in rows
        if not _is_as_expected(row)
    ]
    return sum(row["verdict"] != "skip" for row in rows), "\n".join(wrong)


def _rows(prefixes: Sequence[str], *arguments: str) -> list[Json]:
    named = [word for prefix in prefixes for word in ("--prefix", prefix)]
    done = subprocess.run(
        [sys.executable, str(VENDORED / "gateway_probe.py"), "--json", *named, *arguments],
        capture_output=True,
        text=True,
        timeout=3 * HANG_S,
        check=False,
    )
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    return json.loads(done.stdout)["rows"]


def _is_as_expected(row: Json) -> bool:
    is_known = (row["prefix"].rstrip("_:"), row["check"]) in KNOWN
    return (row["verdict"] == "FAIL") == is_known


@pytest.mark.parametrize("era", ERAS)
def test_everything_passes_to_all_kinds_of_servers_beside_one_that_hangs(
    era: str, gateway_before_probes: RunningGateway
) -> None:
    prefixes = [f"{name}__" for name in "abcd"]
    applied, unexpected = probe(prefixes, "--url", gateway_before_probes.url, "--era", era)

    assert not unexpected, unexpected
    assert applied >= 4 * 22  # a crash is no check for a server that nobody can restart


@pytest.mark.parametrize("era", ERAS)
def test_everything_passes_through_the_meta_tool_as_well(
    era: str, gateway_before_probes: RunningGateway
) -> None:
    """To one server of each era: the ways to all four kinds are walked in the other test."""
    execute = ("--execute", "tool_execute", "--skip", "resources")
    url = gateway_before_probes.url
    applied, unexpected = probe(["a:", "d:"], "--url", url, "--era", era, *execute)

    assert not unexpected, unexpected
    assert applied >= 2 * 19
