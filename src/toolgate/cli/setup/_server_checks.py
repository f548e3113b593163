"""Checks of `toolgate doctor` about servers: commands, connections, pinned tools, orphans."""

import shlex
import shutil
from collections.abc import AsyncIterator, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final, cast

import anyio

from toolgate import settings
from toolgate.app.failure_causes import Cause, find_cause
from toolgate.base.processes import run_file
from toolgate.base.processes.error_line import telling_line
from toolgate.cli.client._gateway_client import GatewayClient
from toolgate.cli.setup._check import Check
from toolgate.cli.terminal._output import plural
from toolgate.settings import Settings
from toolgate.types import Json, ServerSpec


def check_commands(servers: Iterable[ServerSpec]) -> Iterable[Check]:
    """Report servers that cannot be started because a variable or program is missing."""
    missing: dict[tuple[str, str], list[str]] = {}
    for spec in servers:
        if spec.problem:
            cause = find_cause(spec.name, spec.problem, (), is_stored=spec.source == "store")
            yield Check(
                name=f"server {spec.name}",
                state="problem",
                found=cause.found if cause else spec.problem,
                hint=cause.hint if cause else "",
                details={"servers": [spec.name]},
            )
            continue
        if spec.kind != "stdio" or not spec.enabled:
            continue
        command = str(spec.options.get("command", ""))
        env = cast("dict[str, str]", spec.options.get("env") or {})
        path = settings.child_environment(env).get("PATH")
        program = shutil.which(command, path=path)
        if program is None:
            missing.setdefault(_missing_command(command), []).append(spec.name)
        elif interpreter := _missing_interpreter(program):
            found = f"The first line of {program} names {interpreter!r}, which does not exist."
            hint = "Install it, or start the script with another program."
            missing.setdefault((found, hint), []).append(spec.name)
    for (found, hint), names in missing.items():
        yield Check(
            name=_name_of(names),
            state="problem",
            found=found,
            hint=hint,
            details={"servers": names},
        )


def _missing_command(command: str) -> tuple[str, str]:
    """Return why a command cannot be run, and what to do."""
    path = Path(settings.expand_home(command))
    if path.is_dir():
        return f"The command {command!r} is a folder.", "Name the program in it."
    if path.is_absolute() and path.is_file():
        return (
            f"The command {command!r} is a file that may not be executed.",
            f"Run: chmod +x {shlex.quote(str(path))}",
        )
    return f"The command {command!r} was not found.", _install_hint(command)


def _missing_interpreter(program: str) -> str:
    """Return the missing interpreter that a script names; empty if it exists."""
    try:
        with Path(program).open("rb") as file:
            line = file.readline(256)
    except OSError:
        return ""
    words = line[2:].decode("utf-8", "replace").split() if line.startswith(b"#!") else []
    return words[0] if words and not Path(words[0]).exists() else ""


def _name_of(servers: Sequence[str]) -> str:
    """Return the name of a check about these servers."""
    return f"server {servers[0]}" if len(servers) == 1 else f"servers {', '.join(servers)}"


def _install_hint(command: str) -> str:
    name = Path(command).stem.lower()
    if name in {"npx", "npm", "node"}:
        return "Install Node.js, or use the full path of the command."
    if name in {"uvx", "uv"}:
        return "Install uv (pip install uv), or use the full path of the command."
    if name in {"docker", "podman"}:
        return f"Install {name}, or use the full path of the command."
    return "Install the program, or use the full path of the command."


async def check_servers(
    loaded: Settings, remote: GatewayClient | None, *, leave_out: frozenset[str]
) -> AsyncIterator[Check]:
    """Check whether each server responds; report a cause that several share only once.

    Args:
        loaded: The settings.
        remote: The running gateway, if there is one.
        leave_out: Names of servers with a problem that is known without starting them.
    """
    if remote is not None:
        servers = [server for server in await _settled(remote) if server["name"] not in leave_out]
        failures = [server for server in servers if not _is_usable(server)]
        for server in servers:
            if _is_usable(server):
                yield _running_server(server)
    else:
        trials = import_module("toolgate.cli.client._server_check")
        tried: list[Json] = await trials.test_all_servers(loaded, leave_out=leave_out)
        failures = [trial for trial in tried if not trial["ok"]]
        for trial in tried:
            if trial["ok"]:
                yield _tried_server(trial)
    specs = {spec.name: spec for spec in loaded.servers}
    by_cause: dict[str, tuple[Cause, list[Json]]] = {}
    for failure in failures:
        name, stderr = str(failure["name"]), cast("list[str]", failure.get("stderr_tail") or [])
        is_stored = failure.get("source") == "store"
        cause = find_cause(name, str(_error_of(failure)), stderr, is_stored=is_stored)
        if cause is None:
            by_hand = _by_hand(specs.get(name))
            yield _unexplained(failure, stderr, by_hand, is_running=remote is not None)
        else:
            by_cause.setdefault(cause.found, (cause, []))[1].append(failure)
    for cause, failed in by_cause.values():
        names = [str(failure["name"]) for failure in failed]
        details = failed[0] if len(failed) == 1 else {"servers": failed}
        yield Check(
            name=_name_of(names),
            state="problem",
            found=cause.found,
            hint=cause.hint,
            details=details,
        )


_USABLE: Final = frozenset({"ready", "disabled", "connecting", "degraded"})
"""States in which a server works, or may still start."""


def _is_usable(server: Json) -> bool:
    """Whether a server of a running gateway works, as far as is known without starting it."""
    is_asleep = server["state"] == "asleep" and not server.get("last_error")
    return is_asleep or server["state"] in _USABLE


_SETTLE_S: Final = 15.0
"""Seconds for servers to connect after their gateway has just started."""


async def _settled(remote: GatewayClient) -> list[Json]:
    """Return the servers of a running gateway, after giving those that start some time."""
    servers = await remote.servers()
    with anyio.move_on_after(_SETTLE_S):
        while any(server["state"] == "connecting" for server in servers):
            await anyio.sleep(0.25)
            servers = await remote.servers()
    return servers


def _error_of(failure: Json) -> object:
    return failure.get("error") or failure.get("last_error") or ""


def _by_hand(spec: ServerSpec | None) -> str:
    """Return a server's command line for a shell; empty if it has none, or contains a secret."""
    if spec is None or spec.kind != "stdio":
        return ""
    args = cast("Sequence[object]", spec.options.get("args") or ())
    words = [str(spec.options.get("command", "")), *map(str, args)]
    shown = settings.redact({"args": words})["args"]
    return shlex.join(words) if list(shown) == words else ""


def _unexplained(failure: Json, stderr: Sequence[str], by_hand: str, *, is_running: bool) -> Check:
    """Create the check for a server that failed for no known reason, with its own error message."""
    name, error = str(failure["name"]), str(_error_of(failure))
    hint = f"See its output: toolgate servers {'logs' if is_running else 'test'} {name}"
    if failure.get("login_hint") or "log in" in error.lower():
        found, hint = "It needs a login.", f"Log in: toolgate servers login {name}"
    elif line := telling_line(stderr):
        found = line if line.endswith((".", "!", "?")) else f"{line}."
    else:
        last = next(iter(reversed(stderr)), "")
        found = f"{error} Its last output: {last}" if last else error
        if by_hand and not last:
            hint = f"It wrote nothing that helps. Run it by hand: {by_hand}"
    return Check(
        name=f"server {name}",
        state="problem",
        found=found or "It does not answer.",
        hint=hint,
        details=failure,
    )


async def check_pinned_tools(
    loaded: Settings, remote: GatewayClient | None
) -> AsyncIterator[Check]:
    """Report pinned tools that do not exist; without a running gateway, only missing servers."""
    pinned = [*loaded.pinned]
    pinned += [f"{spec.name}:{name}" for spec in loaded.servers for name in spec.pinned]
    if not pinned:
        return
    # Include servers of the store, whose tools can be pinned as well.
    trials = import_module("toolgate.cli.client._server_check")
    servers = set(await trials.configured_servers(loaded))
    tool_keys: set[str] = set()
    listed_servers: set[str] = set()
    if remote is not None:
        tool_keys = {str(t.get("ownKey") or t["toolKey"]) for t in await remote.rows("tools")}
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


async def check_overrides(remote: GatewayClient | None) -> AsyncIterator[Check]:
    """Report tool overrides that cannot be applied; needs a running gateway."""
    for server in await remote.servers() if remote is not None else []:
        for problem in cast("list[str]", server.get("override_problems") or []):
            yield Check(
                name=f"overrides {server['name']}",
                state="warning",
                found=problem,
                hint="Correct or remove it. See: toolgate tools --help",
            )


async def check_quarantine(remote: GatewayClient | None) -> AsyncIterator[Check]:
    """Report servers with definitions that await a decision; needs a running gateway."""
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
    name, is_ok = str(server["name"]), server["state"] in {"ready", "disabled", "asleep"}
    protocol = f", protocol {server['version']}" if server.get("version") else ""
    latency = server.get("latency_ms")
    timing = f", {latency:.0f} ms a call" if isinstance(latency, (int, float)) else ""
    tools = plural(int(server.get("tools", 0)), "tool")
    text = f"{str(server['state']).capitalize()}{protocol}, {tools}{timing}."
    error = "" if is_ok else str(server.get("last_error") or "")
    return Check(
        name=f"server {name}",
        state="ok" if is_ok else "warning",
        found=f"{text} {error}".strip(),
        hint="" if is_ok else f"See its output: toolgate servers logs {name}",
        details=server,
    )


def _tried_server(trial: Json) -> Check:
    tools = plural(int(trial["tools"]), "tool")
    text = f"Answers in {trial['ready_s']:.2f} s, protocol {trial['version']}, {tools}."
    return Check(name=f"server {trial['name']}", state="ok", found=text, details=trial)


def check_orphans(servers: Iterable[ServerSpec]) -> Iterable[Check]:
    """Report processes left by a killed gateway; needs /proc."""
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
    # In a container, a gateway may be process 1 itself.
    gateways = {str(run.pid) for run in run_file.read_all(settings.run_dir()) if run.is_alive()}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")[:-1]
            parent = (entry / "stat").read_text("utf-8").rpartition(")")[2].split()[1]
        except (OSError, IndexError):
            continue
        server = servers_by_command.get((Path(words[0]).name, *words[1:])) if words else None
        if server is not None and _is_init(parent) and parent not in gateways:
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
