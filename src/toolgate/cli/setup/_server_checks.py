"""Checks of `toolgate doctor` about servers: commands, connections, pinned tools, orphans."""

import shutil
from collections.abc import AsyncIterator, Iterable
from importlib import import_module
from pathlib import Path
from typing import cast

from toolgate import settings
from toolgate.cli.client._gateway_client import GatewayClient
from toolgate.cli.setup._check import Check, State
from toolgate.cli.terminal._output import plural
from toolgate.settings import Settings
from toolgate.types import Json, ServerSpec

__all__ = [
    "check_commands",
    "check_orphans",
    "check_pinned_tools",
    "check_quarantine",
    "check_servers",
]


def check_commands(servers: Iterable[ServerSpec]) -> Iterable[Check]:
    for spec in servers:
        if spec.problem:
            yield Check(name=f"server {spec.name}", state="problem", found=spec.problem)
            continue
        if spec.kind != "stdio" or not spec.enabled:
            continue
        command = str(spec.options.get("command", ""))
        env = cast("dict[str, str]", spec.options.get("env") or {})
        path = settings.child_environment(env).get("PATH")
        if shutil.which(command, path=path) is None:
            yield Check(
                name=f"server {spec.name}",
                state="problem",
                found=f"The command {command!r} was not found.",
                hint=_install_hint(command),
            )


def _install_hint(command: str) -> str:
    name = Path(command).stem.lower()
    if name in {"npx", "npm", "node"}:
        return "Install Node.js, or use the full path of the command."
    if name in {"uvx", "uv"}:
        return "Install uv (pip install uv), or use the full path of the command."
    if name in {"docker", "podman"}:
        return f"Install {name}, or use the full path of the command."
    return "Install the program, or use the full path of the command."


async def check_servers(loaded: Settings, remote: GatewayClient | None) -> AsyncIterator[Check]:
    if remote is not None:
        for server in await remote.servers():
            yield _running_server(server)
        return
    trials = import_module("toolgate.cli.client._server_check")
    async for trial in trials.test_all_servers(loaded):
        yield _tried_server(trial)


async def check_pinned_tools(
    loaded: Settings, remote: GatewayClient | None
) -> AsyncIterator[Check]:
    """Pinned tools that do not exist; without a running gateway only their servers are checked."""
    servers = {spec.name for spec in loaded.servers}
    pinned = [*loaded.pinned]
    pinned += [f"{spec.name}:{name}" for spec in loaded.servers for name in spec.pinned]
    tool_keys: set[str] = set()
    listed_servers: set[str] = set()
    if remote is not None:
        tool_keys = {str(tool["toolKey"]) for tool in await remote.rows("tools")}
        states = await remote.servers()
        servers |= {str(server["name"]) for server in states}
        listed_servers = {str(server["name"]) for server in states if server["listed_at"]}
    for key in dict.fromkeys(pinned):
        server = key.partition(":")[0]
        if server not in servers:
            problem = f"{key!r} is pinned, but there is no server {server!r}."
        elif server in listed_servers and key not in tool_keys:
            problem = f"{key!r} is pinned, but its server has no such tool."
        else:
            continue
        yield Check(
            name="pinned",
            state="warning",
            found=problem,
            hint="Correct or remove it under pinned. See: toolgate tools",
        )


async def check_quarantine(remote: GatewayClient | None) -> AsyncIterator[Check]:
    """Servers with definitions that nobody has decided about; needs a running gateway."""
    waiting: dict[str, list[str]] = {}
    for entry in await remote.rows("held") if remote is not None else []:
        if entry["state"] == "held":
            waiting.setdefault(str(entry["serverName"]), []).append(str(entry["kind"]))
    for server, kinds in waiting.items():
        count = f"{plural(len(kinds), 'definition')} quarantined"
        told = (
            ". Its instructions are left out of Toolgate's instructions until approved."
            if "instructions" in kinds
            else ", and hidden from clients until approved."
        )
        yield Check(
            name=f"quarantine {server}",
            state="warning",
            found=f"{count}{told}",
            hint=f"Review and decide: toolgate servers approve {server}",
            details={"kinds": kinds},
        )


def _running_server(server: Json) -> Check:
    name = f"server {server['name']}"
    match server["state"]:
        case "ready" | "disabled":
            state: State = "ok"
        case "connecting" | "degraded":
            state = "warning"
        case _:
            state = "problem"
    era = f", {server['version']} ({server['era']})" if server.get("era") else ""
    latency = server.get("latency_ms")
    timing = f", {latency:.0f} ms a call" if isinstance(latency, (int, float)) else ""
    text = f"{str(server['state']).capitalize()}{era}, {server.get('tools', 0)} tools{timing}."
    error = server.get("last_error")
    if state == "ok":
        return Check(name=name, state=state, found=text, details=server)
    hint = "Check that the server runs, and its url."
    if server.get("kind") == "stdio":
        hint = f"See its output: toolgate servers logs {server['name']}"
    return Check(
        name=name, state=state, found=f"{text} {error or ''}".strip(), hint=hint, details=server
    )


def _tried_server(trial: Json) -> Check:
    name = f"server {trial['name']}"
    if trial["ok"]:
        text = (
            f"Answers in {trial['ready_s']:.2f} s, {trial['version']} ({trial['era']}),"
            f" {trial['tools']} tools."
        )
        return Check(name=name, state="ok", found=text, details=trial)
    last = next(iter(reversed(cast("list[str]", trial["stderr_tail"]))), "")
    return Check(
        name=name,
        state="problem",
        found=f"{trial['error']}" + (f" Its last output: {last}" if last else ""),
        hint=f"See its output: toolgate servers test {trial['name']}",
        details=trial,
    )


def check_orphans(servers: Iterable[ServerSpec]) -> Iterable[Check]:
    """Processes left by a killed gateway; needs /proc."""
    if not Path("/proc/self/stat").exists():
        return
    servers_by_command = {
        (
            Path(str(spec.options.get("command", ""))).name,
            *map(str, cast("list[object]", spec.options.get("args") or [])),
        ): spec.name
        for spec in servers
        if spec.kind == "stdio" and spec.options.get("args")
    }
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")[:-1]
            parent = (entry / "stat").read_text("utf-8").rpartition(")")[2].split()[1]
        except (OSError, IndexError):
            continue
        server = servers_by_command.get((Path(words[0]).name, *words[1:])) if words else None
        if server is not None and _is_init(parent):
            yield Check(
                name=f"server {server}",
                state="warning",
                found=f"Process {entry.name} runs this server without a gateway.",
                hint=f"Stop it: kill {entry.name}",
                details={"pid": int(entry.name)},
            )


def _is_init(pid: str) -> bool:
    """Whether a process adopts orphans."""
    if pid == "1":
        return True
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8").strip() in {"systemd", "init"}
    except OSError:
        return False
