"""Measures servers that start on demand: memory while asleep, and time of the first call.

    python -m benchmarks.on_demand [--quick] [--json]

The servers list the tools of 37 published ones. A server's own start time is the time from starting
its process to its listing, without a gateway, measured right before its first call.
"""

import json
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from benchmarks._load import settled_rss_mb
from benchmarks._mcp import message
from benchmarks._report import Report, Target, main
from benchmarks._servers import gateway, menu_servers
from tests.real.processes import RunningGateway, wait_until
from toolgate.types import Json

_STARTS = 7


def measure(quick: bool) -> Report:
    """List the servers, let them sleep, restart, call each; return the table."""
    menus = menu_servers(1 if quick else None)
    starts = 1 if quick else _STARTS
    servers: dict[str, Json] = {
        name: {**config, "start": "on-demand", "idle_s": 5} for name, config in menus.items()
    }
    waiting = {name: {**config, "idle_s": 600} for name, config in servers.items()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with gateway(folder / "empty", {}, {"mode": "all"}) as running:
            _listed(running)
            running.servers()  # the other gateway is asked for them, too
            empty_mb = settled_rss_mb(running.run.pid)
        with gateway(folder / "gateway", servers, {"mode": "all"}) as running:
            _wait_asleep(running)
        with gateway(folder / "gateway", waiting, {"mode": "all"}) as running:
            _wait_asleep(running)
            listed = _listed(running)
            added_mb = settled_rss_mb(running.run.pid) - empty_mb
            rows = [
                _first_call(running, server, menus[server], listed, starts)
                for server in list(menus)[:20]
            ]
    over_ms = median(row["first call ms"] - row["own start ms"] for row in rows)
    return Report(
        name="on_demand",
        title=f"{len(menus)} servers asleep, with {len(listed)} tools",
        rows=[{"server": server} | row for server, row in zip(menus, rows, strict=False)],
        targets=(
            Target(what="MB added by all of them asleep", measured=added_mb, limit=20),
            Target(what="ms over the own start, median", measured=over_ms, limit=50),
        ),
        notes=(f"Gateway without servers: {empty_mb:.0f} MB. Own start: best of {starts}.",),
    )


def _first_call(
    running: RunningGateway,
    server: str,
    config: Mapping[str, object],
    listed: list[str],
    starts: int,
) -> dict[str, float]:
    tool = next(name for name in listed if name.startswith(f"{server}__"))
    own_ms = min(_own_start_ms(config) for _ in range(starts))
    first_ms, second_ms = _call_ms(running, tool), _call_ms(running, tool)
    return {
        "own start ms": own_ms,
        "first call ms": first_ms,
        "over own start ms": first_ms - own_ms,
        "ratio": first_ms / own_ms,
        "second call ms": second_ms,
    }


def _own_start_ms(config: Mapping[str, object]) -> float:
    """Seconds from the start of the process to its listing."""
    command = [str(config["command"]), *(str(part) for part in _words(config))]
    began = time.perf_counter()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for number, method in enumerate(("initialize", "tools/list")):
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": {}}
            child.stdin.write(json.dumps(request) + "\n")
            child.stdin.flush()
            child.stdout.readline()
        took_ms = (time.perf_counter() - began) * 1000
        child.kill()
    return took_ms


def _words(config: Mapping[str, object]) -> list[object]:
    args = config["args"]
    assert isinstance(args, list)
    return list[object](args)


def _call_ms(running: RunningGateway, tool: str) -> float:
    began = time.perf_counter()
    _post(running, "tools/call", {"name": tool, "arguments": {}})
    return (time.perf_counter() - began) * 1000


def _listed(running: RunningGateway) -> list[str]:
    """Names of the tools that a modern client is shown."""
    return [str(tool["name"]) for tool in _post(running, "tools/list", {})["result"]["tools"]]


def _post(running: RunningGateway, method: str, params: Json) -> Json:
    body, headers = message(method, params)
    request = urllib.request.Request(running.url, data=json.dumps(body).encode(), headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def _wait_asleep(running: RunningGateway) -> None:
    def are_asleep() -> bool:
        return all(
            server["state"] == "asleep" and server["listed_at"]
            for server in running.servers().values()
        )

    wait_until(lambda: are_asleep() or None, within_s=240, what="all servers to be asleep")


if __name__ == "__main__":
    main("on_demand", measure)
