"""The stdio entry point: runs its own gateway, or relays to a running one.

Importing this module imports neither the SDK nor an HTTP client: each mode loads what it needs.
"""

import signal
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import anyio

from toolgate.server.asgi.telemetry import record_telemetry
from toolgate.server.mcp.pipes import LineReader, LineWriter, claim_standard_streams
from toolgate.server.signals import received
from toolgate.settings import ServeSettings, own_credentials

if TYPE_CHECKING:
    from toolgate.app.app import App


async def serve_stdio(app: "App") -> None:
    """Serve the client on standard input until it closes it or a signal ends the process.

    Only messages are written to standard output, whatever this process or its children print.
    """
    settings = app.settings.serve
    lines: Any = await anyio.to_thread.run_sync(import_module, "toolgate.server.mcp.stdio_session")

    async def work(reader: LineReader, writer: LineWriter) -> None:
        token, project = own_credentials()
        async with record_telemetry(app, is_scraped=False):
            await lines.serve_lines(
                app.gateway,
                reader,
                writer,
                settings,
                token=token,
                project=project,
                logs_requests=app.settings.log.names_requests,
            )

    await _with_client(work, settings.max_body_bytes)


async def attach_stdio(url: str, key: str, *, folder: str = "") -> None:
    """Relay between standard input and a running gateway until the client closes its side.

    Relays both eras, notifications and requests to the client. If the gateway goes away,
    requests fail with an error, and the next one connects to the gateway that then runs at the
    address.

    Args:
        url: Address of the gateway, such as `http://127.0.0.1:7420`.
        key: Key in the gateway's run file.
        folder: Working directory of the client; that of the gateway may differ.
    """
    limits = ServeSettings()
    relay: Any = await anyio.to_thread.run_sync(import_module, "toolgate.server.mcp.relay")

    async def work(reader: LineReader, writer: LineWriter) -> None:
        token, project = own_credentials()
        await relay.relay(
            url, key, reader, writer, limits, token=token, project=project, folder=folder
        )

    await _with_client(work, limits.max_body_bytes)


async def _with_client(
    work: Callable[[LineReader, LineWriter], Awaitable[None]], max_bytes: int
) -> None:
    with claim_standard_streams() as (reading, writing):
        writer = LineWriter(writing)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_until_signal, tasks.cancel_scope)
                tasks.start_soon(_until_gone, writer, tasks.cancel_scope)
                await work(LineReader(reading, max_bytes=max_bytes), writer)
                tasks.cancel_scope.cancel()
        finally:
            await writer.close()


async def _until_signal(scope: anyio.CancelScope) -> None:
    with received(signal.SIGTERM, signal.SIGINT) as signals:
        await signals.get()
        scope.cancel()


async def _until_gone(writer: LineWriter, scope: anyio.CancelScope) -> None:
    await writer.gone.wait()
    scope.cancel()
