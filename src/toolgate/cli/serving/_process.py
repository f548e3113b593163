"""Run a gateway for `serve` and `stdio`, without the libraries for tables and help."""

import contextlib
import json
import logging
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from time import monotonic
from urllib.parse import urlsplit

import anyio
from anyio.abc import TaskGroup

from toolgate import __version__, settings
from toolgate.app.app import App, open_app
from toolgate.base import logs
from toolgate.base.ids import utc_now
from toolgate.base.lazy_loading import cache_bytecode
from toolgate.base.processes import run_file
from toolgate.base.processes.memory import defer, give_back_freed_memory, set_aside, starting
from toolgate.base.processes.run_file import RunFile
from toolgate.cli.client._http_exchange import working_folder
from toolgate.cli.client._load_settings import load_settings, store_url
from toolgate.cli.client._open_gateway import configuration_of
from toolgate.cli.serving.workers.worker import SupervisedWorker
from toolgate.cli.terminal._context import shared_options
from toolgate.cli.terminal._ports import (
    local_address,
    refuse_open_access,
    refuse_port_of_gateway,
)
from toolgate.cli.terminal._sanitize import one_line, sanitize
from toolgate.cli.terminal._shutdown import ends_with_terminal, interrupt_on_sigterm
from toolgate.errors import SettingError, ToolgateError
from toolgate.server import http
from toolgate.server import stdio as pipe
from toolgate.settings import Settings
from toolgate.types import Caller, ServerStatus

log = logging.getLogger(__name__)

_IMPORTED_LATER = ("starlette", "mcp", "mcp_types")
"""Libraries that the first request of a handshake session imports."""

_POLL_S = 0.1
"""Seconds between two checks of the servers during the start (chosen)."""

_STARTUP_TIMEOUT_S = 60.0
"""Seconds after which servers that are still starting are reported as they are (chosen)."""

_STORE_WAIT_S = 30.0
"""Seconds to retry opening the store (chosen: a database may be starting too)."""

_STORE_WAIT_OF_CLIENT_S = 5.0
"""The same while a client waits for the response to `initialize` (chosen)."""


def serve(loaded: Settings, host: str | None, port: int | None) -> int:
    """Serve over HTTP until SIGINT or SIGTERM."""
    logs.set_up(loaded.log, verbose=shared_options().verbose)
    with interrupt_on_sigterm():
        while (restart_port := anyio.run(_serve, loaded, host, port)) is not None:
            port = restart_port
            try:
                loaded = load_settings()
            except SettingError as error:
                log.error("invalid configuration, keeping the previous one: %s", error)  # noqa: TRY400
    return 0


def serve_as_worker(host: str, worker: SupervisedWorker) -> int:
    """Serve on the port shared by all workers until the supervisor stops this one."""
    loaded = load_settings()
    logs.set_up(loaded.log, verbose=shared_options().verbose, worker=worker.number)
    with interrupt_on_sigterm():
        anyio.run(_serve_as_worker, loaded, host, worker)
    return 0


async def _serve(loaded: Settings, host: str | None, port: int | None) -> int | None:
    """Serve until a signal; return the port on which to start anew, if the store requires that."""
    run: RunFile | None = None
    listen_port: int | None = None
    began = utc_now()
    listen_host = host or loaded.serve.host
    refuse_port_of_gateway(listen_host, loaded.serve.port if port is None else port)

    refuse_open_access(listen_host, loaded)
    other_gateways = run_file.find_all(settings.run_dir(), store_url(loaded))

    async with _opened(loaded) as (app, tasks):

        def announce(address: str, key: str) -> None:
            nonlocal run
            try:
                run = run_file.write(
                    settings.run_dir(),
                    address=address,
                    store=store_url(loaded),
                    configuration=configuration_of(app.settings),
                    started_at=began,
                    version=__version__,
                    runs_in=str(working_folder()),
                    files=tuple(map(str, app.settings.files)),
                    key=key,
                )
            except OSError as error:
                log.warning(
                    "cannot write the run file, commands will not find this gateway: %s", error
                )

        def ready(address: str) -> str:
            nonlocal listen_port
            listen_port = urlsplit(address).port
            address = local_address(address)
            tasks.start_soon(_report_start, app, address, began, other_gateways)
            tasks.start_soon(_finish_start, app)
            app.connect()
            announce(address, "")
            return run.key if run is not None else ""

        def announce_files() -> None:
            # Commands with another store look for another gateway, or start one.
            if run is not None and store_url(app.settings) == store_url(loaded):
                announce(run.address, run.key)

        async def reload() -> None:
            if ends_with_terminal(had_terminal):
                signal.raise_signal(signal.SIGTERM)
            try:
                fresh = load_settings()
            except SettingError as error:
                fresh = error
            if await _apply_settings(app, fresh):
                announce_files()

        had_terminal = sys.stderr.isatty()
        tasks.start_soon(_watch_configuration, app, announce_files)
        try:
            is_over = await http.serve(app, host=host, port=port, on_ready=ready, on_reload=reload)
            return None if is_over else listen_port
        finally:
            if run is not None:
                run_file.remove(run)


async def _serve_as_worker(loaded: Settings, host: str, worker: SupervisedWorker) -> None:
    began = utc_now()
    other_gateways = run_file.find_all(settings.run_dir(), store_url(loaded))
    async with _opened(loaded) as (app, tasks):
        tasks.start_soon(_watch_configuration, app)

        def ready(address: str) -> str:
            address = local_address(address)
            if worker.reports_start:
                tasks.start_soon(_report_start, app, address, began, other_gateways, worker.count)
            tasks.start_soon(_finish_start, app)
            app.connect()
            tasks.start_soon(worker.report_serving, address)
            return worker.key

        await worker.connect()
        tasks.start_soon(worker.follow)
        if not worker.listens_at_once:
            # Another worker serves until then: its clients must not reach servers that are still
            # starting.
            app.connect()
            with anyio.move_on_after(_STARTUP_TIMEOUT_S):
                await _wait_settled(app, began)
        await http.serve(app, host=host, on_ready=ready, worker=worker)


@asynccontextmanager
async def _opened(loaded: Settings) -> AsyncGenerator[tuple[App, TaskGroup]]:
    """Open a gateway that does not connect to servers yet, and a task group for it."""
    limit_memory()
    async with AsyncExitStack() as stack:
        with starting():
            app = await stack.enter_async_context(
                open_app(loaded, hold=True, store_wait_s=_STORE_WAIT_S)
            )
        tasks = await stack.enter_async_context(anyio.create_task_group())
        try:
            yield app, tasks
        finally:
            tasks.cancel_scope.cancel()


async def serve_pipe(loaded: Settings) -> None:
    """Serve a gateway on standard input and output."""
    limit_memory()
    # Pack code may print before standard output is reserved for the protocol.
    with contextlib.redirect_stdout(sys.stderr):
        async with (
            open_app(loaded, store_wait_s=_STORE_WAIT_OF_CLIENT_S) as app,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(_watch_configuration, app)
            await pipe.serve_stdio(app)
            tasks.cancel_scope.cancel()


def limit_memory() -> None:
    """Save memory; must run before any part of the SDK is imported."""
    give_back_freed_memory()
    defer("mcp", "mcp.server")


async def _watch_configuration(app: App, on_applied: Callable[[], object] = lambda: None) -> None:
    """Apply changes in the configuration files."""
    async for changed in settings.watch(app.settings, stop=anyio.Event()):
        if await _apply_settings(app, changed):
            on_applied()


async def _apply_settings(app: App, fresh: Settings | SettingError) -> bool:
    """Apply new settings; return False for invalid ones, which change nothing."""
    if isinstance(fresh, SettingError):
        log.error("invalid configuration, keeping the previous one: %s", fresh)
        return False
    if (fresh.serve, fresh.store) != (app.settings.serve, app.settings.store):
        log.warning("changes of [serve] and [store] need a restart")
    if (fresh.auth, fresh.authn) != (app.settings.auth, app.settings.authn):
        log.warning("changes of auth and [authn] need a restart")
    try:
        await app.reload(fresh)
    except ToolgateError as error:
        log.error("invalid configuration, keeping the previous one: %s", error)  # noqa: TRY400
        return False
    log.info("configuration reloaded", extra={"servers": len(fresh.servers)})
    return True


async def _report_start(
    app: App, address: str, since: str, other_gateways: Sequence[RunFile], workers: int = 1
) -> None:
    """Print where to connect, and the state of each server as soon as it is known.

    Args:
        app: The gateway.
        address: Its URL.
        since: Start time in ISO 8601; servers listed since then are ready.
        other_gateways: Gateways that use the same store.
        workers: Number of processes that serve the address.
    """
    began = monotonic()
    output = app.settings.log
    if output.format == "json" or output.file:
        log.info("serving", extra={"address": address, "version": __version__})
    if output.format == "json" and not output.file:
        return  # a program reads standard error
    _print(f"Toolgate {__version__} serves {address}/mcp  (Ctrl-C stops it)")
    _print(f"  Claude Code   claude mcp add --transport http toolgate {address}/mcp")
    entry = {"mcpServers": {"toolgate": {"url": f"{address}/mcp"}}}
    _print(f"  other clients {json.dumps(entry)}")
    _print(f"  web console   {address}/console")
    if workers > 1:
        _print(f"  workers       {workers}, each with its own connections to the servers below")
    if app.store_problem:
        _print(f"  WARNING: nothing is kept until the store works again: {app.store_problem}")
    for notice in app.settings.notices:
        _print(f"  note: {notice}")
    for run in other_gateways:
        _print(
            f"  note: another gateway uses the same store, at {run.address}"
            f" (process {run.pid}, {_configuration(run)});"
            " commands use the gateway with their own configuration"
        )
    servers = app.gateway.servers.statuses(Caller.local())
    if not servers:
        _print("There are no servers yet. Add some: toolgate init, or toolgate add")
        return
    _print(f"Servers ({len(servers)}):")
    reported: set[str] = set()
    width = max(len(server.name) for server in servers)
    while True:
        statuses = app.gateway.servers.statuses(Caller.local())
        for server in statuses:
            is_late = monotonic() - began > _STARTUP_TIMEOUT_S
            if server.name not in reported and (is_late or _is_settled(server, since)):
                reported.add(server.name)
                _print(f"  {server.name:<{width}}  {_outcome(server)}  {monotonic() - began:.1f} s")
        if all(server.name in reported for server in statuses):
            return
        await anyio.sleep(_POLL_S)


async def _wait_settled(app: App, since: str) -> None:
    """Wait until each server was listed since then, or cannot be listed."""
    while True:
        statuses = app.gateway.servers.statuses(Caller.local())
        if all(_is_settled(server, since) for server in statuses):
            return
        await anyio.sleep(_POLL_S)


async def _finish_start(app: App) -> None:
    """Freeze objects after the start, and write no bytecode of modules from then on."""
    await app.gateway.servers.wait_ready(_STARTUP_TIMEOUT_S)
    await app.warm_up_chat()
    set_aside()
    # On a full disk, Python before 3.12.8 writes half of the bytecode of an imported module, and
    # can never import that module again (CPython issue 126606).
    writes_bytecode, sys.dont_write_bytecode = not sys.dont_write_bytecode, True
    if writes_bytecode:
        await anyio.to_thread.run_sync(cache_bytecode, *_IMPORTED_LATER)


def _configuration(run: RunFile) -> str:
    """Describe the configuration files of a gateway."""
    config, *imports = run.configuration
    return " and ".join([config or "no configuration file", *imports])


def _is_settled(server: ServerStatus, since: str) -> bool:
    """Whether a server has failed, is disabled, or was listed since then."""
    if server.state in {"degraded", "down", "disabled", "asleep"}:
        return True
    listed_at = server.listed_at
    return (
        server.state != "connecting"
        and listed_at is not None
        and datetime.fromisoformat(listed_at) >= datetime.fromisoformat(since)
    )


def _outcome(server: ServerStatus) -> str:
    if server.state == "ready":
        return f"ready, protocol {server.version}, {server.tools} tools"
    if server.state == "asleep":
        return f"asleep, {server.tools} tools; the first call starts it"
    return f"{server.state}. {one_line(server.last_error or '')}".rstrip()


def _print(text: str) -> None:
    with contextlib.suppress(OSError):  # standard error is closed
        print(sanitize(text), file=sys.stderr, flush=True)
