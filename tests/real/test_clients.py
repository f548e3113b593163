"""Clients that people use connect without special settings: Inspector and TypeScript SDKs."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.limits import HANG_S
from tests.real.processes import RunningGateway, gateway
from tests.real.setup import CACHE, Installed
from toolgate.cli.demo._servers import server_table
from toolgate.types import Json

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("clients")]

SCRIPT = Path(__file__).parent / "clients" / "list_and_call.mjs"
SERVERS = ("time", "everything")
META_TOOLS = {"tool_discovery", "tool_describe", "tool_execute"}


@pytest.fixture(scope="module")
def running(
    installed: Installed, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningGateway]:
    """A gateway before two real servers, which shows its meta-tools."""
    folder = tmp_path_factory.mktemp("clients")
    wanted = [server for server in installed.servers if server.name in SERVERS]
    table = server_table(wanted, CACHE, folder, installed.node)
    with gateway(folder, table, {"mode": "meta"}) as started:
        started.wait_ready(*SERVERS)
        yield started


def run(command: Sequence[str], running: RunningGateway) -> Json:
    """Run a client; gives the JSON document that it printed."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=HANG_S,
        check=False,
        cwd=running.config.parent,  # `toolgate stdio` finds its configuration here
        env=dict(os.environ) | dict(running.env),  # noqa: TID251 - a child process
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def doors(running: RunningGateway) -> dict[str, list[str]]:
    """The two ways in, as a client's command line names them."""
    return {
        "http": [running.url],
        "stdio": [str(Path(sys.executable).parent / "toolgate"), "stdio"],
    }


@pytest.mark.parametrize("door", ["http", "stdio"])
@pytest.mark.parametrize("generation", ["1", "2"])
def test_the_typescript_sdks_list_find_and_call(
    generation: str, door: str, installed: Installed, running: RunningGateway, tmp_path: Path
) -> None:
    (tmp_path / "node_modules").symlink_to(installed.modules)
    script = tmp_path / SCRIPT.name
    script.write_text(SCRIPT.read_text(encoding="utf-8"), encoding="utf-8")
    command = [installed.node.node, str(script), generation, door, *doors(running)[door]]

    seen = run(command, running)

    assert set(seen["tools"]) >= META_TOOLS
    assert "time:convert_time" in json.dumps(seen["found"])
    assert not seen["converted"].get("isError")
    assert "00:30" in json.dumps(seen["converted"])


@pytest.mark.parametrize("door", ["http", "stdio"])
def test_the_inspector_lists_and_calls(
    door: str, installed: Installed, running: RunningGateway
) -> None:
    launcher = installed.modules / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    inspector = [installed.node.node, str(launcher), "--cli", *doors(running)[door]]
    inspector += ["--connect-timeout", "60000"]  # of milliseconds; tests share their machine
    if door == "http":
        inspector += ["--transport", "http"]
    else:  # it passes on few variables by itself, and `toolgate stdio` would start a gateway
        inspector += [part for pair in running.env.items() for part in ("-e", "=".join(pair))]

    listed = run([*inspector, "--method", "tools/list"], running)
    called = run(
        [
            *inspector,
            *("--method", "tools/call", "--tool-name", "tool_execute"),
            *("--tool-arg", "toolKey=everything:echo"),
            *("--tool-arg", 'arguments={"message":"hello"}'),
        ],
        running,
    )

    assert {tool["name"] for tool in listed["tools"]} >= META_TOOLS
    assert not called.get("isError")
    assert "hello" in json.dumps(called["content"])
