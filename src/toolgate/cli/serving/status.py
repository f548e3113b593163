"""`toolgate status`: show whether the gateway runs, and the state of its servers."""

from collections import Counter
from dataclasses import asdict
from datetime import UTC, datetime

from toolgate.app.failure_causes import cause_of
from toolgate.base.processes import run_file
from toolgate.base.processes.run_file import RunFile, WorkerState
from toolgate.cli.client._gateway_client import GatewayClient
from toolgate.cli.client._http_exchange import over_http
from toolgate.cli.client._load_settings import load_settings, store_url
from toolgate.cli.serving._background import answers, gateways, log_file, other_gateways_note
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._durations import in_words
from toolgate.cli.terminal._exit import NO_RESULT, SUCCESS
from toolgate.cli.terminal._output import note, plural, print_json, print_text
from toolgate.cli.terminal._sanitize import one_line
from toolgate.types import Json

app = CommandApp()


@app.command(help="Show whether the gateway is running, and the state of its servers.")
async def status(
    as_json: AsJson = False,
) -> int:
    """Show whether the gateway is running, and the state of its servers.

    The exit status is 3 if no gateway with this configuration runs.
    """
    loaded = load_settings()
    running, others = gateways(loaded)
    responding = [run for run in running if await answers(run)]
    if not responding:
        if as_json:
            print_json({"running": False, "others": [run.address for run in others]})
            return NO_RESULT
        note("No gateway with this configuration runs. Start it: toolgate start")
        if others:
            note(other_gateways_note(others))
        return NO_RESULT
    run = responding[0]
    servers = await GatewayClient(over_http(run), run).servers()
    if as_json:
        print_json(
            {
                "running": True,
                "address": run.address,
                "pid": run.pid,
                "version": run.version,
                "started_at": run.started_at,
                "store": run_file.without_password(store_url(loaded)),
                "log": str(log_file(loaded)),
                "workers": [asdict(worker) for worker in run.workers],
                "servers": [
                    {
                        "name": server["name"],
                        "state": server["state"],
                        "tools": server.get("tools", 0),
                        "last_error": server.get("last_error"),
                    }
                    for server in servers
                ],
                "others": [other.address for other in [*responding[1:], *others]],
            }
        )
        return SUCCESS
    print_text(f"Toolgate {run.version} runs at {run.address}/mcp")
    print_text(f"  process {run.pid}, for {in_words(_age_s(run))}; log {log_file(loaded)}")
    for worker in run.workers:
        print_text(f"  {_worker_line(worker)}")
    print_text(f"  {_summary(servers)}")
    has_problem = False
    for server in servers:
        error = server.get("last_error")
        # A server whose configuration cannot be used is disabled too, but nobody chose that.
        if server["state"] not in {"ready", "disabled", "asleep"} or (
            server["state"] == "disabled" and error
        ):
            problem = f". {one_line(cause_of(server).found)}" if error else ""
            print_text(f"  {server['name']}: {server['state']}{problem}")
            has_problem = has_problem or bool(error)
        elif held := server.get("held"):
            name, count = server["name"], plural(held, "definition")
            print_text(f"  {name}: {count} quarantined: toolgate servers approve {name}")
    if has_problem:
        print_text("How to fix it: toolgate doctor")
    if len(responding) > 1 or others:
        note(other_gateways_note([*responding[1:], *others]))
    return SUCCESS


def _age_s(run: RunFile) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(run.started_at)).total_seconds()


def _worker_line(worker: WorkerState) -> str:
    """Describe a worker: `worker 2: serving, process 4711, restarted 3 times after ...`."""
    parts = [worker.state]
    if worker.pid:
        parts.append(f"process {worker.pid}")
    if worker.restarts:
        parts.append(f"restarted {plural(worker.restarts, 'time')} after it had ended")
    return f"worker {worker.number}: {', '.join(parts)}"


def _summary(servers: list[Json]) -> str:
    """Summarize servers: `12 servers: 9 ready, 3 down; 158 tools`."""
    if not servers:
        return "There are no servers yet. Add some: toolgate init, or toolgate add"
    states = Counter(str(server["state"]) for server in servers)
    counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
    tools = sum(int(server.get("tools") or 0) for server in servers)
    listed = plural(tools, "tool") if tools else "0 tools"
    return f"{plural(len(servers), 'server')}: {counts}; {listed}"
