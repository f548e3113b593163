"""Run `toolgate stdio`: relay to the running gateway, or start one.

Every client has its own relay process as long as it runs, so a relay imports nothing of the
gateway.
"""

import logging
from importlib import import_module

import anyio

from toolgate.base import logs
from toolgate.cli.client._http_exchange import working_folder
from toolgate.cli.client._load_settings import load_settings
from toolgate.cli.client._open_gateway import find_running
from toolgate.cli.terminal._context import shared_options
from toolgate.cli.terminal._shutdown import interrupt_on_sigterm
from toolgate.server.stdio import attach_stdio
from toolgate.settings import Settings

log = logging.getLogger(__name__)


def stdio(*, standalone: bool) -> int:
    """Serve on standard input and output until the client closes them."""
    loaded = load_settings()
    logs.set_up(loaded.log, verbose=shared_options().verbose)
    with interrupt_on_sigterm():
        anyio.run(_stdio, loaded, standalone)
    return 0


async def _stdio(loaded: Settings, standalone: bool) -> None:
    running = None if standalone else await find_running(loaded)
    if running is not None and running.running is not None:
        log.info("attached", extra={"address": running.running.address})
        at = running.running
        await attach_stdio(at.address, at.key, folder=str(working_folder()))
        return
    await import_module("toolgate.cli.serving._process").serve_pipe(loaded)
