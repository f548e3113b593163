"""What `toolgate doctor` looks at: one function per question, each with what to do about it."""

import importlib.metadata
import platform
import shutil
import sys
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from toolgate import __version__, settings
from toolgate.base import run_file
from toolgate.base.installation import current_installation
from toolgate.cli.client._gateway_client import GatewayClient
from toolgate.cli.client._list_packs import pack_rows
from toolgate.cli.client._load_settings import load_settings, store_url
from toolgate.cli.client._open_gateway import find_running, open_gateway
from toolgate.cli.terminal._output import plural
from toolgate.cli.terminal._ports import can_listen, gateway_on
from toolgate.errors import ToolgateError
from toolgate.settings import Settings
from toolgate.types import Json, ServerSpec, json_object

__all__ = ["Check", "run_checks", "versions"]

State: TypeAlias = Literal["ok", "warning", "problem"]
"""`warning`: works, but worth knowing. `problem`: something does not work."""

LOW_SPACE_BYTES = 500 * 2**20
"""Free space below which a warning is due."""

CRITICAL_SPACE_BYTES = 50 * 2**20
"""Free space below which the store may fail soon."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that was looked at."""

    name: str
    """What: `configuration`, `server NAME`, `port` and so on; stable."""

    state: State
    """How it is."""

    found: str
    """One sentence about what was found."""

    hint: str = ""
    """What to do; empty when nothing is to be done."""

    details: Json = field(default_factory=dict[str, Any])
    """Figures for programs."""


async def run_checks(*, handshakes: bool = True) -> AsyncIterator[Check]:
    """Look at everything, in the order in which one thing needs another."""
    yield _versions()
    yield _terminal()
    try:
        loaded = load_settings()
    except ToolgateError as error:
        yield _failed("configuration", error)
        return
    async for check in _configuration(loaded):
        yield check
    yield _disk(loaded)
    store = await _store(loaded)
    yield store
    for check in _run_files():
        yield check
    remote = await find_running(loaded)
    yield _port(loaded, remote)
    for check in _orphans(loaded.servers):
        yield check
    reported: set[str] = set()
    for check in _commands(loaded.servers):
        reported.add(check.name)
        yield check
    if handshakes:
        async for check in _servers(loaded, remote):
            if check.name not in reported or check.state == "ok":
                yield check
    async for check in _pinned(loaded, remote):
        yield check
    async for check in _packs(loaded, remote):
        yield check
    if json_object(store.details.get("sizes")).get("document_collections"):
        async for check in _documents(loaded):
            yield check
    if loaded.connections:
        async for check in _connections(loaded):
            yield check
    if loaded.search.embedder != "bundled" and loaded.optimization in {"hybrid", "cloud", "llm"}:
        yield await _embedder(loaded)


def versions() -> Json:
    """Versions that a report of a fault must name."""
    libraries: Json = {}
    for name in ("mcp", "aiohttp", "uvicorn", "SQLAlchemy", "numpy", "pydantic", "anyio"):
        try:
            libraries[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            libraries[name] = None
    return {
        "toolgate": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "libraries": libraries,
    }


def _versions() -> Check:
    installed = versions()
    missing = [name for name, version in installed["libraries"].items() if version is None]
    if missing:
        return Check(
            name="versions",
            state="problem",
            found=f"Libraries are missing: {', '.join(missing)}.",
            hint=f"Install Toolgate again: {current_installation().reinstall_command()}",
            details=installed,
        )
    text = f"Toolgate {__version__}, Python {installed['python']}, {installed['platform']}."
    return Check(name="versions", state="ok", found=text, details=installed)


def _terminal() -> Check:
    encoding = sys.stdout.encoding or "unknown"
    if encoding.lower().replace("-", "") == "utf8":
        return Check(name="terminal", state="ok", found="The terminal shows UTF-8.")
    return Check(
        name="terminal",
        state="warning",
        found=f"The terminal's encoding is {encoding}: characters that it lacks show as '?'.",
        hint="Set a UTF-8 locale, such as LANG=C.UTF-8, or PYTHONUTF8=1.",
    )


async def _configuration(loaded: Settings) -> AsyncIterator[Check]:
    count = len(loaded.servers)
    details = {"files": [str(path) for path in loaded.files], "servers": count}
    if loaded.files:
        names = ", ".join(str(path) for path in loaded.files)
        text = f"{names}: {plural(count, 'server')}."
        yield Check(name="configuration", state="ok", found=text, details=details)
    elif stored := await _count_stored(loaded):
        text = f"There is no toolgate.toml, and the store has {plural(stored, 'server')}."
        yield Check(name="configuration", state="ok", found=text, details=details)
    else:
        yield Check(
            name="configuration",
            state="warning",
            found="There is no toolgate.toml in this folder or in the configuration folder.",
            hint="Make one from the servers your clients know: toolgate init. "
            "Or add a server: toolgate servers add NAME -- COMMAND",
            details=details,
        )
    for notice in loaded.notices:
        yield Check(name="configuration", state="warning", found=notice)


async def _count_stored(loaded: Settings) -> int:
    """How many servers the store has; none where it cannot be read, which is told elsewhere."""
    try:
        return len(
            await import_module("toolgate.cli.client._server_check").configured_servers(loaded)
        )
    except ToolgateError:
        return 0


def _disk(loaded: Settings) -> Check:
    folder = _existing_parent(_store_folder(loaded))
    free = shutil.disk_usage(folder).free
    text = f"{_megabytes(free)} free at {folder}."
    details = {"free_bytes": free, "folder": str(folder)}
    if free >= LOW_SPACE_BYTES:
        return Check(name="disk", state="ok", found=text, details=details)
    return Check(
        name="disk",
        state="problem" if free < CRITICAL_SPACE_BYTES else "warning",
        found=f"Only {text}",
        hint="Make room, or put the store elsewhere with store.url.",
        details=details,
    )


async def _store(loaded: Settings) -> Check:
    url = store_url(loaded)
    shown_url = run_file.without_password(url)
    path = _sqlite_path(url)
    retention = (
        f"audit is kept {loaded.store.audit_days:g} days or {loaded.store.audit_max_mb} MB,"
        f" results {loaded.store.results_max_mb} MB,"
        f" the usage log {loaded.store.usage_days:g} days or {loaded.store.usage_max_mb} MB,"
        f" schemas {loaded.store.schema_days:g} days or {loaded.store.schema_max_mb} MB,"
        f" replaced tools {loaded.store.tool_version_days:g} days or"
        f" {loaded.store.tool_version_max_mb} MB"
    )
    if path is not None and not path.exists():
        text = f"{shown_url} does not exist yet; it is made at the first start ({retention})."
        return Check(name="store", state="ok", found=text, details={"url": shown_url})
    try:
        store = import_module("toolgate.store").make_store(url)
        await store.open()
        try:
            sizes = cast("dict[str, int]", await store.sizes())
        finally:
            await store.close()
    except ToolgateError as error:
        return _failed("store", error)
    text = f"{shown_url}: {_megabytes(sizes.get('total', 0))}; {retention}."
    return Check(name="store", state="ok", found=text, details={"url": shown_url, "sizes": sizes})


def _run_files() -> Iterable[Check]:
    runs = run_file.read_all(settings.run_dir())
    stale = [run for run in runs if not run.is_alive()]
    for run in runs:
        if run.is_alive() and sys.platform != "win32" and run.path.stat().st_mode & 0o077:
            yield Check(
                name="run file",
                state="problem",
                found=f"{run.path} can be read by other users, and holds a key.",
                hint=f"Run: chmod 600 {run.path}, and start the gateway again.",
            )
    if stale:
        yield Check(
            name="run file",
            state="warning",
            found=f"{plural(len(stale), 'run file')} of gateways that were killed.",
            hint="Nothing: the next command removes them.",
            details={"paths": [str(run.path) for run in stale]},
        )


def _port(loaded: Settings, remote: GatewayClient | None) -> Check:
    host, port = loaded.serve.host, loaded.serve.port
    run = remote.running if remote else None
    if run is not None:
        text = f"The gateway runs at {run.address} (process {run.pid}, Toolgate {run.version})."
        details = {"address": run.address, "pid": run.pid, "started_at": run.started_at}
        if run.version and run.version != __version__:
            return Check(
                name="port",
                state="warning",
                found=text,
                hint=f"This is Toolgate {__version__}: start the gateway again.",
                details=details,
            )
        return Check(name="port", state="ok", found=text, details=details)
    if can_listen(host, port):
        return Check(name="port", state="ok", found=f"Port {port} on {host} is free.")
    run = gateway_on(host, port)
    who = f"the gateway of process {run.pid}, over {run.store}" if run else "another program"
    return Check(
        name="port",
        state="problem",
        found=f"Port {port} on {host} is taken by {who}.",
        hint="Stop it, or choose another port with serve.port or --port.",
    )


def _commands(servers: Iterable[ServerSpec]) -> Iterable[Check]:
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
                found=f"Its command {command!r} was not found.",
                hint=_install_hint(command),
            )


def _install_hint(command: str) -> str:
    name = Path(command).stem.lower()
    if name in {"npx", "npm", "node"}:
        return "Install Node.js, or write the full path of the command."
    if name in {"uvx", "uv"}:
        return "Install uv (pip install uv), or write the full path of the command."
    if name in {"docker", "podman"}:
        return f"Install {name}, or write the full path of the command."
    return "Install the program, or write the full path of the command."


async def _servers(loaded: Settings, remote: GatewayClient | None) -> AsyncIterator[Check]:
    if remote is not None:
        for server in await remote.servers():
            yield _running_server(server)
        return
    trials = import_module("toolgate.cli.client._server_check")
    async for trial in trials.test_all_servers(loaded):
        yield _tried_server(trial)


async def _pinned(loaded: Settings, remote: GatewayClient | None) -> AsyncIterator[Check]:
    """Pinned tools that are not there; of servers alone as long as no gateway runs."""
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


async def _packs(loaded: Settings, remote: GatewayClient | None) -> AsyncIterator[Check]:
    """Packs with files that cannot be used; of their code, what a running gateway knows."""
    packs = await remote.rows("packs") if remote is not None else await pack_rows(loaded)
    for pack in packs:
        note = " The version before is in use." if pack["is_kept"] else ""
        for problem in pack["problems"]:
            yield Check(
                name=f"pack {pack['name']}",
                state="problem",
                found=f"{problem}{note}",
                hint=f"See: toolgate pack lint {pack['folder']}",
            )
    used = [str(pack["name"]) for pack in packs if pack["on"]]
    if used and not any(pack["problems"] for pack in packs):
        names = ", ".join(used)
        yield Check(name="packs", state="ok", found=f"{plural(len(used), 'pack')} in use: {names}.")


async def _documents(loaded: Settings) -> AsyncIterator[Check]:
    """Collections of documents: whether each can be searched, with its model and its place."""
    try:
        async with open_gateway(loaded, connect=()) as gateway:
            collections = await gateway.rows("collections")
    except ToolgateError as error:
        yield _failed("documents", error)
        return
    for row in collections:
        if row["problem"]:
            yield Check(
                name=f"documents {row['name']}",
                state="problem",
                found=row["problem"],
                hint="See: toolgate docs collections",
            )
    documents = plural(sum(row["documents"] for row in collections), "document")
    if collections and not any(row["problem"] for row in collections):
        text = f"{plural(len(collections), 'collection')} can be searched, {documents}."
        names = [row["name"] for row in collections]
        yield Check(name="documents", state="ok", found=text, details={"collections": names})


async def _connections(loaded: Settings) -> AsyncIterator[Check]:
    """Databases: whether each can be read."""
    library = import_module("toolgate.databases.connections")
    connections = library.Connections(loaded.connections)
    try:
        for name, connection in connections.items():
            try:
                schema = await connection.schema()
                rights: list[str] = await connection.reading(library.write_privileges)
            except ToolgateError as error:
                yield _failed(f"connection {name}", error)
                continue
            count = plural(len(schema.tables), "table")
            unread = f", {len(schema.unread)} not readable" if schema.unread else ""
            # Files are opened for reading only; a user of a server can lose the rights themselves.
            is_server = connection.dialect not in {"sqlite", "duckdb"}
            remark = f" Its user may still write: {'; '.join(rights)}." if rights else ""
            yield Check(
                name=f"connection {name}",
                state="warning" if rights and is_server else "ok",
                found=f"Can be read ({connection.dialect}): {count}{unread}.{remark}",
                hint="Take these rights away, see docs/sql.md." if rights and is_server else "",
                details={
                    "dialect": connection.dialect,
                    "tables": len(schema.tables),
                    "write_privileges": rights,
                },
            )
    finally:
        await connections.aclose()


async def _embedder(loaded: Settings) -> Check:
    """Whether an embedder that is not part of the package can be used."""
    try:
        result = await import_module("toolgate.cli.tools.embedder").test_embedder(loaded)
    except ToolgateError as error:
        return _failed("embedder", error)
    text = f"{result['embedder']} works: {result['dim']} numbers a text."
    return Check(name="embedder", state="ok", found=text, details=result)


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
    hint = "Check that it runs, and that its url is right."
    if server.get("kind") == "stdio":
        hint = f"Look at what it says: toolgate servers logs {server['name']}"
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
        found=f"{trial['error']}" + (f" It last wrote: {last}" if last else ""),
        hint=f"Look at what it says: toolgate servers test {trial['name']}",
        details=trial,
    )


def _orphans(servers: Iterable[ServerSpec]) -> Iterable[Check]:
    """Children of a gateway that was killed; seen where the system shows processes as files."""
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
                found=f"Process {entry.name} is this server without a gateway.",
                hint=f"End it: kill {entry.name}",
                details={"pid": int(entry.name)},
            )


def _is_init(pid: str) -> bool:
    """Whether a process is one of those that orphans are given to."""
    if pid == "1":
        return True
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8").strip() in {"systemd", "init"}
    except OSError:
        return False


def _failed(name: str, error: ToolgateError) -> Check:
    hint = " ".join(part for part in (error.allowed, error.hint) if part)
    return Check(
        name=name, state="problem", found=error.failed, hint=hint, details={"code": error.code}
    )


def _store_folder(loaded: Settings) -> Path:
    path = _sqlite_path(store_url(loaded))
    return path.parent if path else settings.data_dir()


def _sqlite_path(url: str) -> Path | None:
    prefix = "sqlite:///"
    return Path(settings.expand_home(url.removeprefix(prefix))) if url.startswith(prefix) else None


def _existing_parent(path: Path) -> Path:
    return next((folder for folder in (path, *path.parents) if folder.exists()), Path.cwd())


def _megabytes(size_bytes: int) -> str:
    if size_bytes < 10 * 2**20:
        return f"{size_bytes / 2**20:.1f} MB"
    return f"{size_bytes / 2**20:,.0f} MB"
