"""The checks of `toolgate doctor`: their order, and those of the installation and the store."""

import importlib.metadata
import platform
import shutil
import sys
from collections.abc import AsyncIterator, Iterable
from importlib import import_module
from pathlib import Path
from typing import cast

from toolgate import __version__, settings
from toolgate.base.installation import current_installation
from toolgate.base.processes import run_file
from toolgate.cli.client._gateway_client import GatewayClient
from toolgate.cli.client._load_settings import load_settings, store_url
from toolgate.cli.client._open_gateway import find_running
from toolgate.cli.setup._check import Check, failed_check
from toolgate.cli.setup._content_checks import (
    check_connections,
    check_documents,
    check_embedder,
    check_packs,
)
from toolgate.cli.setup._server_checks import (
    check_commands,
    check_orphans,
    check_overrides,
    check_pinned_tools,
    check_quarantine,
    check_servers,
)
from toolgate.cli.terminal._output import plural
from toolgate.cli.terminal._ports import (
    OTHER_GATEWAY,
    can_listen,
    gateway_on,
    is_gateway,
)
from toolgate.errors import ToolgateError
from toolgate.settings import Settings
from toolgate.types import Json, json_object

LOW_SPACE_BYTES = 500 * 2**20
"""Free bytes below which there is a warning (chosen)."""

CRITICAL_SPACE_BYTES = 50 * 2**20
"""Free bytes below which the store may fail soon (chosen)."""


async def run_checks(*, handshakes: bool = True) -> AsyncIterator[Check]:
    """Run all checks, in the order in which they depend on each other."""
    yield _versions()
    yield _terminal()
    try:
        loaded = load_settings()
    except ToolgateError as error:
        yield failed_check("configuration", error)
        return
    is_usable = True
    async for check in _configuration(loaded):
        is_usable &= check.state != "problem"
        yield check
    yield _disk(loaded)
    store = await _store(loaded)
    yield store
    for check in _run_files():
        yield check
    remote = await find_running(loaded)
    yield _port(loaded, remote)
    for check in check_orphans(loaded.servers):
        yield check
    reported: set[str] = set()
    for check in check_commands(loaded.servers):
        reported.update(check.details.get("servers", ()))
        yield check
    if handshakes:
        async for check in check_servers(loaded, remote, leave_out=frozenset(reported)):
            yield check
    async for check in check_pinned_tools(loaded, remote):
        yield check
    async for check in check_overrides(remote):
        yield check
    async for check in check_quarantine(remote):
        yield check
    async for check in check_packs(loaded, remote):
        yield check
    if json_object(store.details.get("sizes")).get("document_collections"):
        async for check in check_documents(loaded):
            yield check
    if loaded.connections:
        async for check in check_connections(loaded):
            yield check
    embeds = loaded.optimization in {"hybrid", "cloud", "llm"}
    if is_usable and embeds and loaded.search.embedder != "bundled":
        yield await check_embedder(loaded)


def versions() -> Json:
    """Return the versions that a bug report needs."""
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
            found=f"Missing libraries: {', '.join(missing)}.",
            hint=f"Reinstall Toolgate: {current_installation().reinstall_command()}",
            details=installed,
        )
    text = f"Toolgate {__version__}, Python {installed['python']}, {installed['platform']}."
    return Check(name="versions", state="ok", found=text, details=installed)


def _terminal() -> Check:
    encoding = sys.stdout.encoding or "unknown"
    if not sys.stdout.isatty():
        text = "The output goes to a file or a program."
        return Check(name="terminal", state="ok", found=text)
    if encoding.lower().replace("-", "") == "utf8":
        return Check(name="terminal", state="ok", found="The terminal supports UTF-8.")
    return Check(
        name="terminal",
        state="warning",
        found=f"The encoding of the terminal is {encoding}: other characters are shown as '?'.",
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
            hint="Import the servers of your clients: toolgate init. "
            "Or add a server: toolgate add NAME -- COMMAND",
            details=details,
        )
    problems = {server.problem for server in loaded.servers}  # reported with their servers
    for notice in loaded.notices:
        if notice in problems:
            continue
        yield Check(name="configuration", state="warning", found=notice)
    for error in import_module("toolgate.app.factories.plugin_checks").plugin_problems(loaded):
        yield failed_check("configuration", error)


async def _count_stored(loaded: Settings) -> int:
    """Count servers in the store; 0 if it is unreadable, which another check reports."""
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
        hint="Free some space, or move the store with store.url.",
        details=details,
    )


async def _store(loaded: Settings) -> Check:
    url = store_url(loaded)
    shown_url = run_file.without_password(url)
    path = _sqlite_path(url)
    retention = (
        f"audit log kept {loaded.store.audit_days:g} days or {loaded.store.audit_max_mb} MB,"
        f" results {loaded.store.results_max_mb} MB,"
        f" the usage log {loaded.store.usage_days:g} days or {loaded.store.usage_max_mb} MB,"
        f" schemas {loaded.store.schema_days:g} days or {loaded.store.schema_max_mb} MB,"
        f" replaced tools {loaded.store.tool_version_days:g} days or"
        f" {loaded.store.tool_version_max_mb} MB"
    )
    if path is not None and not path.exists():
        text = f"{shown_url} does not exist yet; it is created at the first start ({retention})."
        return Check(name="store", state="ok", found=text, details={"url": shown_url})
    try:
        store = import_module("toolgate.store").make_store(url)
        await store.open()
        try:
            sizes = cast("dict[str, int]", await store.sizes())
        finally:
            await store.close()
    except ToolgateError as error:
        return failed_check("store", error)
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
                found=f"{run.path} contains a key and is readable by other users.",
                hint=f"Run: chmod 600 {run.path}, and restart the gateway.",
            )
    if stale:
        yield Check(
            name="run file",
            state="ok",
            found=f"{plural(len(stale), 'run file')} left by killed gateways; the next command"
            " removes them.",
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
                hint=f"This is Toolgate {__version__}: restart the gateway.",
                details=details,
            )
        return Check(name="port", state="ok", found=text, details=details)
    if not port:
        return Check(name="port", state="ok", found=f"Each start takes a free port on {host}.")
    if can_listen(host, port):
        return Check(name="port", state="ok", found=f"Port {port} on {host} is free.")
    run = gateway_on(host, port)
    hint = "Stop it, or choose another port with serve.port or --port."
    if run is not None:
        owner = f"the gateway with process id {run.pid}, store {run.store}"
    elif is_gateway(host, port):
        owner, hint = OTHER_GATEWAY, "Choose another port with serve.port or --port."
    else:
        owner = "another program"
    return Check(
        name="port",
        state="problem",
        found=f"Port {port} on {host} is in use by {owner}.",
        hint=hint,
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
