"""Servers to put behind a gateway: published ones, ones with real tool lists, the probe server."""

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import menu_server
from tests.real import processes
from tests.real.processes import PROBE_SERVER, RunningGateway, free_port, listening
from tests.real.setup import CACHE, ensure
from toolgate.cli.demo._servers import server_table
from toolgate.types import Json

_MAX_COPIES = 20
"""Chosen: enough copies of one kind of server for the largest number that is requested."""


def stdio_probe(name: str, *options: str) -> Json:
    """Configuration of a probe server over stdio."""
    python, script = PROBE_SERVER
    return {"command": python, "args": [script, "--name", name, *options]}


ECHO: Json = {"command": sys.executable, "args": [menu_server.__file__, "echo"]}
"""A server that starts at once and has the tool `echo` alone."""
HANGING: Json = {"command": sys.executable, "args": ["-c", "import time; time.sleep(3600)"]}
"""A server that starts and never sends anything."""


def real_servers(folder: Path, count: int) -> dict[str, Json]:
    """Configuration of published servers from npm and PyPI; few kinds, so some run several times.

    Args:
        folder: Where they keep their data.
        count: Number of servers.
    """
    installed = ensure(lambda line: print(f"    {line}", file=sys.stderr, flush=True))
    servers: dict[str, Json] = {}
    for copy in range(1, _MAX_COPIES):
        scratch = folder / f"scratch{copy}"
        (scratch / "files").mkdir(parents=True)
        table = server_table(installed.servers, CACHE, scratch, installed.node)
        for name, config in table.items():
            servers[name if copy == 1 else f"{name}{copy}"] = config
            if len(servers) == count:
                return servers
    raise AssertionError("no server could be installed")


def menu_servers(count: int | None = None) -> dict[str, Json]:
    """Configuration of servers with the tool lists of the 37 published ones, or of the first."""
    lines = menu_server.DATA.read_text(encoding="utf-8").splitlines()
    names = list(dict.fromkeys(json.loads(line)["server"] for line in lines))[:count]
    return {
        name: {"command": sys.executable, "args": [menu_server.__file__, name]} for name in names
    }


def gateway(
    folder: Path,
    servers: Mapping[str, Json],
    settings: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
) -> AbstractContextManager[RunningGateway]:
    """A gateway in an interpreter of its own, as users start it; see `tests.real.processes`."""
    return processes.gateway(folder, servers, settings, env, prelude=None)


@dataclass(frozen=True, kw_only=True)
class ProbedGateway:
    """A gateway process, and a probe server over HTTP for comparison."""

    direct_url: str
    """Address of the probe server."""

    probe_pid: int
    """Process of the probe server."""

    gateway: RunningGateway
    """The gateway."""


@contextmanager
def probed_gateway(*stdio: str, http: str = "") -> Iterator[ProbedGateway]:
    """Start both, and wait until every server is ready.

    Args:
        stdio: Names of probe servers over stdio behind the gateway.
        http: Name of the HTTP probe server behind the gateway; without it, it is not behind it.
    """
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    servers = {name: stdio_probe(name) for name in stdio} | ({http: {"url": url}} if http else {})
    command = (*PROBE_SERVER, "--transport", "http", "--port", str(port))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (
            listening(command, port, log=folder / "http.log") as probe,
            gateway(folder / "gateway", servers, {"mode": "all"}) as running,
        ):
            running.wait_ready(*servers)
            yield ProbedGateway(direct_url=url, probe_pid=probe.pid, gateway=running)
