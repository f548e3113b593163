"""What serves once options are read: all of a gateway, but no rich and no typer."""

import contextlib
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from datetime import datetime
from time import monotonic

import anyio

from toolgate import __version__, settings
from toolgate.app.app import App, open_app
from toolgate.base import logs, run_file
from toolgate.base.ids import utc_now
from toolgate.base.process_memory import defer, give_back_freed_memory, set_aside
from toolgate.base.run_file import RunFile
from toolgate.cli.client._http_exchange import working_folder
from toolgate.cli.client._load_settings import load_settings, store_url
from toolgate.cli.client._open_gateway import configuration_of
from toolgate.cli.terminal._context import shared_options
from toolgate.cli.terminal._ports import can_listen, gateway_on, is_loopback, local_address
from toolgate.cli.terminal._sanitize import one_line, sanitize
from toolgate.cli.terminal._shutdown import interrupt_on_sigterm
from toolgate.errors import PortTakenError, SettingError, ToolgateError
from toolgate.server import http
from toolgate.server import stdio as pipe
from toolgate.settings import Settings
from toolgate.types import Caller, ServerStatus

__all__ = ["serve", "serve_pipe"]

log = logging.getLogger(__name__)

_POLL_S = 0.1

_STARTUP_TIMEOUT_S = 60.0
"""Seconds after which a server that is still starting is told of as it is."""


def serve(host: str | None, port: int | None) -> int:
    """Serve over HTTP until told to stop."""
    loaded = load_settings()
    logs.set_up(loaded.log, verbose=shared_options().verbose)
    with interrupt_on_sigterm():
        anyio.run(_serve, loaded, host, port)
    return 0


async def _serve(loaded: Settings, host: str | None, port: int | None) -> None:
    run: RunFile | None = None
    began = utc_now()
    listen_host = host or loaded.serve.host
    _refuse_port_of_gateway(listen_host, loaded.serve.port if port is None else port)

    _refuse_open_access(listen_host, loaded)
    other_gateways = run_file.find_all(settings.run_dir(), store_url(loaded))

    _limit_memory()
    async with open_app(loaded, hold=True) as app, anyio.create_task_group() as tasks:

        def ready(address: str) -> str:
            nonlocal run
            address = local_address(address)
            tasks.start_soon(_report_start, app, address, began, other_gateways)
            tasks.start_soon(_finish_start, app)
            try:
                run = run_file.write(
                    settings.run_dir(),
                    address=address,
                    store=store_url(loaded),
                    configuration=configuration_of(loaded),
                    started_at=began,
                    version=__version__,
                    runs_in=str(working_folder()),
                )
            except OSError as error:
                log.warning("commands will not find this gateway: %s", error)
                return ""
            return run.key

        async def reload() -> None:
            _stop_without_terminal(had_terminal)
            try:
                await _apply_settings(app, load_settings())
            except SettingError as error:
                await _apply_settings(app, error)

        had_terminal = sys.stderr.isatty()
        tasks.start_soon(_watch_configuration, app)
        try:
            await http.serve(
                app, host=host, port=port, on_ready=ready, on_loaded=app.connect, on_reload=reload
            )
        finally:
            if run is not None:
                run_file.remove(run)
            tasks.cancel_scope.cancel()


async def serve_pipe(loaded: Settings) -> None:
    """Serve on standard input and output with a gateway of its own."""
    _limit_memory()
    # Code of packs may print before the client's side is claimed.
    with contextlib.redirect_stdout(sys.stderr):
        async with open_app(loaded) as app, anyio.create_task_group() as tasks:
            tasks.start_soon(_watch_configuration, app)
            await pipe.serve_stdio(app)
            tasks.cancel_scope.cancel()


def _limit_memory() -> None:
    """Take no memory that serving does not need; before anything of the SDK is imported."""
    give_back_freed_memory()
    defer("mcp", "mcp.server")


async def _watch_configuration(app: App) -> None:
    """Take over what changes in the files of the configuration."""
    async for changed in settings.watch(app.settings, stop=anyio.Event()):
        await _apply_settings(app, changed)


async def _apply_settings(app: App, fresh: Settings | SettingError) -> None:
    """Use new settings; what cannot be used changes nothing."""
    if isinstance(fresh, SettingError):
        log.error("configuration cannot be used; the old one stays: %s", fresh)
        return
    if (fresh.serve, fresh.store) != (app.settings.serve, app.settings.store):
        log.warning("[serve] and [store] hold from the next start")
    if (fresh.auth, fresh.authn) != (app.settings.auth, app.settings.authn):
        log.warning("auth and [authn] hold from the next start")
    try:
        await app.reload(fresh)
    except ToolgateError as error:
        log.error("configuration cannot be used; the old one stays: %s", error)  # noqa: TRY400
        return
    log.info("configuration read again", extra={"servers": len(fresh.servers)})


async def _report_start(
    app: App, address: str, since: str, other_gateways: Sequence[RunFile]
) -> None:
    """Say where to connect, and how each server did as soon as that is known.

    Args:
        app: The gateway.
        address: Where it listens.
        since: When it was started, UTC, ISO 8601; servers that were listed after it are settled.
        other_gateways: Gateways that run over the same store.
    """
    began = monotonic()
    output = app.settings.log
    if output.format == "json" or output.file:
        log.info("serving", extra={"address": address, "version": __version__})
    if output.format == "json" and not output.file:
        return  # standard error is read by a program
    _print(f"Toolgate {__version__} serves {address}/mcp  (Ctrl-C ends it)")
    _print(f"  Claude Code   claude mcp add --transport http toolgate {address}/mcp")
    entry = {"mcpServers": {"toolgate": {"url": f"{address}/mcp"}}}
    _print(f"  other clients {json.dumps(entry)}")
    _print(f"  a browser     {address}/console")
    for notice in app.settings.notices:
        _print(f"  note: {notice}")
    for run in other_gateways:
        _print(
            f"  note: another gateway runs over the same store, at {run.address}"
            f" (process {run.pid}, {_configuration(run)});"
            " commands use the one of their own configuration"
        )
    servers = app.gateway.servers.statuses(Caller.local())
    if not servers:
        _print("There are no servers yet. Add some: toolgate init, or toolgate servers add")
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


async def _finish_start(app: App) -> None:
    """Put aside what a start has made, once it is over: answers do not wait for it then."""
    await app.gateway.servers.wait_ready(_STARTUP_TIMEOUT_S)
    if app.chat is not None:
        await app.chat.models.warm_up()
    set_aside()


def _configuration(run: RunFile) -> str:
    """What a gateway was configured with, in words."""
    config, *imports = run.configuration
    return " and ".join([config or "without configuration file", *imports])


def _is_settled(server: ServerStatus, since: str) -> bool:
    """Whether it is down or off, or was listed since a moment."""
    if server.state in {"down", "disabled"}:
        return True
    listed_at = server.listed_at
    return (
        server.state != "connecting"
        and listed_at is not None
        and datetime.fromisoformat(listed_at) >= datetime.fromisoformat(since)
    )


def _outcome(server: ServerStatus) -> str:
    if server.state in {"ready", "degraded"}:
        return f"{server.state}, {server.version or server.era}, {server.tools} tools"
    return f"{server.state}. {one_line(server.last_error or '')}".rstrip()


def _print(text: str) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more
        print(sanitize(text), file=sys.stderr, flush=True)


def _refuse_open_access(host: str, loaded: Settings) -> None:
    """Listen where other machines reach it only if they have to say who they are.

    Raises:
        SettingError: They would not have to.
    """
    if loaded.auth == "local" and not is_loopback(host):
        where = loaded.config_file or "toolgate.toml"
        raise SettingError(
            f"{host} can be reached from other machines, and whoever reaches it could use all"
            " tools.",
            allowed='With auth = "local" only this machine is listened on: 127.0.0.1, ::1.',
            hint=f'To ask for tokens, write at the top of {where}:\n  auth = "required"\n'
            "and make a token for each client:\n"
            "  toolgate tokens create NAME --role member",
        )


def _refuse_port_of_gateway(host: str, port: int) -> None:
    """Name the gateway that has the port, before anything is started."""
    run = gateway_on(host, port)
    if run is None or can_listen(host, port):
        return
    since = datetime.fromisoformat(run.started_at).astimezone().isoformat(" ", "seconds")
    raise PortTakenError(
        f"Port {port} on {host} is taken by the Toolgate gateway with process id {run.pid},"
        f" which has run since {since} over {run.store}.",
        hint=f"Connect to it at {run.address}/mcp, stop it (kill {run.pid}), or choose"
        " another port with --port.",
    )


def _stop_without_terminal(had_terminal: bool) -> None:
    """A closed terminal hangs up too; what it ran shall end then, not read its files again."""
    if not had_terminal:
        return
    try:
        os.tcgetpgrp(sys.stderr.fileno())
    except OSError:
        signal.raise_signal(signal.SIGTERM)
