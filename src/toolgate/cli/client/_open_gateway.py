"""Find the running gateway, or start one for a single command.

Both respond through the REST API, over HTTP or in the process, so `--json` prints the same for
both. Settings are read only if the run file of a gateway does not contain enough: reading them
takes longer than a search.
"""

from __future__ import annotations

import http.client
import os
from collections.abc import AsyncGenerator, Collection, Iterable
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from toolgate import settings
from toolgate.base.ids import utc_now
from toolgate.base.pack_files import packs_at
from toolgate.base.processes import run_file
from toolgate.base.processes.run_file import RunFile
from toolgate.cli.client._gateway_client import STARTUP_TIMEOUT_S, GatewayClient
from toolgate.cli.client._http_exchange import CONNECT_TIMEOUT_S, over_http, working_folder
from toolgate.cli.client._load_settings import load_settings, store_url
from toolgate.cli.terminal._context import shared_options
from toolgate.errors import UnreachableError

if TYPE_CHECKING:
    from toolgate.settings import Settings

Connect: TypeAlias = Literal["all", "unknown"] | Collection[str]
"""Servers that a command needs: all, those never listed before, or these names."""


def configuration_of(loaded: Settings) -> tuple[str, ...]:
    """Return the configuration that a gateway with these settings writes to its run file."""
    return _configuration(loaded.config_file, loaded.imports)


def _configuration(config: Path | None, imports: Iterable[str | Path]) -> tuple[str, ...]:
    """Return real paths, so that every process that reads these files gets the same value."""
    resolved = [os.path.realpath(settings.expand_home(str(path))) for path in imports]
    return (os.path.realpath(config) if config else "", *resolved)


async def find_running(loaded: Settings) -> GatewayClient | None:
    """Return the gateway with the same store and configuration on this machine, if one responds.

    Packs in the working folder are part of the configuration: a gateway that runs in another
    folder does not have them.
    """
    folder = working_folder()
    return await _connect(
        run_file.find(
            settings.run_dir(),
            store_url(loaded),
            configuration_of(loaded),
            runs_in=str(folder) if packs_at(folder) else None,
        )
    )


async def _find_running_unread() -> GatewayClient | None:
    """Do the same as `find_running` without settings; None where the settings are needed.

    A gateway that uses the default store, and whose files still have the contents that it read,
    is the one that the settings would lead to. A file that is broken now differs from what it
    read.
    """
    options = shared_options()
    if options.imports:
        return None
    configuration = _configuration(settings.find_config(options.config), ())
    folder = working_folder()
    run = run_file.find(
        settings.run_dir(),
        settings.default_store_url(),
        configuration,
        runs_in=str(folder) if packs_at(folder) else None,
    )
    if run is None or not run.digest or run.digest != run_file.digest_of(run.files):
        return None
    return await _connect(run)


async def find_running_by_file() -> GatewayClient | None:
    """Return the gateway started with this configuration file, even if the file has changed."""
    configuration = _configuration(settings.find_config(shared_options().config), ())
    for run in run_file.find_all(settings.run_dir(), None):
        if run.configuration[:1] == configuration and (gateway := await _connect(run)) is not None:
            return gateway
    return None


async def _connect(run: RunFile | None) -> GatewayClient | None:
    if run is None:
        return None
    try:
        status, _ = await over_http(run, timeout_s=CONNECT_TIMEOUT_S)("GET", "/healthz", None)
    except UnreachableError:
        return None  # stale run file: the process id may belong to another program by now
    return GatewayClient(over_http(run), run) if status == http.client.OK else None


@asynccontextmanager
async def open_gateway(
    loaded: Settings | None = None,
    *,
    connect: Connect = "unknown",
    force_local: bool = False,
) -> AsyncGenerator[GatewayClient]:
    """Open the running gateway, or else one in this process that stops with the block.

    Args:
        loaded: Settings of the command; None reads them only if needed.
        connect: Servers that a gateway in this process connects; the last known tools of all
            other servers are available too.
        force_local: Start a gateway even if one runs, because that one has other settings.
    """
    remote = None
    if loaded is None and not force_local:
        remote = await _find_running_unread()
    if remote is None:
        loaded = loaded or load_settings()
        remote = None if force_local else await find_running(loaded)
        if remote is None:
            async with _started_here(loaded, connect) as local:
                yield local
            return
    yield remote


@asynccontextmanager
async def _started_here(loaded: Settings, connect: Connect) -> AsyncGenerator[GatewayClient]:
    started_at = utc_now()
    local: Any = import_module("toolgate.cli.client._local_gateway")
    async with local.open_local(loaded, connect=connect, wait_s=STARTUP_TIMEOUT_S) as exchange:
        yield GatewayClient(exchange, None, started_at=started_at)
