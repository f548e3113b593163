"""Serving over HTTP: socket, uvicorn, signals and shutdown."""

import asyncio
import logging
import signal
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio
import uvicorn
from anyio.abc import TaskStatus
from uvicorn.config import Config
from uvicorn.server import Server

from toolgate.app.app import App
from toolgate.errors import SettingError
from toolgate.server.application import HttpApplication
from toolgate.server.asgi.authentication import public_address
from toolgate.server.asgi.endpoints.metrics import OtherWorkers
from toolgate.server.asgi.parsing.http_parser import HttpParser
from toolgate.server.connections import (
    Acceptor,
    ClientConnection,
    ClientConnections,
    connection_limits,
)
from toolgate.server.listener import bind, listen
from toolgate.server.signals import received
from toolgate.settings import TlsSettings

log = logging.getLogger(__name__)

CLOSE_S = 2.0
"""Seconds to write the remaining responses once all calls are done; chosen."""

_POLL_S = 0.05
"""Seconds between checks of the connections while a gateway retires (chosen)."""


class Worker(OtherWorkers, Protocol):
    """This process as one of several gateways on a port of one machine."""

    @property
    def listener(self) -> socket.socket:
        """Socket on the port that all workers share."""
        ...

    @property
    def retirement(self) -> anyio.Event:
        """Event that is set when another process replaces this one on the same socket."""
        ...


def build_app(
    app: App, *, host: str | None = None, key: str = "", others: OtherWorkers | None = None
) -> HttpApplication:
    """Return the ASGI application for an opened gateway.

    Args:
        app: The opened gateway.
        host: Address the gateway listens on, to check `Host` against; by default that of the
            settings.
        key: Key that relays of the same user present; empty: there can be no relays.
        others: The other workers on the same port, whose metrics are included.
    """
    return HttpApplication(app, host=host or app.settings.serve.host, key=key, others=others)


async def serve(
    app: App,
    *,
    host: str | None = None,
    port: int | None = None,
    on_ready: Callable[[str], str | None] | None = None,
    on_reload: Callable[[], Awaitable[None]] | None = None,
    worker: Worker | None = None,
) -> bool:
    """Serve until SIGTERM or SIGINT, after which running calls get `serve.drain_s`.

    A second signal ends the process at once. Returns False if no signal ended it, but the gateway
    needs a restart.

    Args:
        app: The opened gateway.
        host: Address to listen on; by default that of the settings.
        port: Port to listen on, 0 for a free one; by default that of the settings.
        on_ready: Called with the address, such as `http://127.0.0.1:7420`, once clients can
            connect; returns the key that relays of the same user present, if there is one.
        on_reload: Awaited at SIGHUP.
        worker: This process as one of several on the port; None: it is the only one.

    Raises:
        PortTakenError: Another program listens on the port.
    """
    settings = app.settings.serve
    host, port = host or settings.host, settings.port if port is None else port
    tls = app.settings.tls
    if tls.cert:
        check_certificate(tls)
    listener = worker.listener if worker else bind(host, port)
    listen(listener)
    application = build_app(app, host=host, others=worker)
    config = Config(
        application,
        http=HttpParser,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",  # what goes wrong in a request is logged here
        access_log=False,
        server_header=False,
        proxy_headers=False,  # `ForwardedHeaders` reads them
        ssl_certfile=tls.cert or None,
        ssl_keyfile=tls.key or None,
        timeout_graceful_shutdown=CLOSE_S,  # pyright: ignore[reportArgumentType] - a number of s
    )
    limits = connection_limits(
        settings.max_connections,
        settings.max_connections_per_address,
        is_exempt=application.is_trusted_proxy,
    )
    server = _Server(config, ClientConnections(limits))
    stopper = _SignalHandler(application, server, drain_s=settings.drain_s, on_reload=on_reload)
    async with application.running(), anyio.create_task_group() as tasks:
        tasks.start_soon(stopper.run)
        tasks.start_soon(stopper.restart, app.needs_restart)
        if worker is not None:
            tasks.start_soon(stopper.retire, worker.retirement)
        server.open()
        tasks.start_soon(server.accept, listener)
        address = _address(host, listener, is_safe=bool(tls.cert))
        app.logins.links.base = public_address(app.settings, address)
        if on_ready is not None:
            application.use_local_key(on_ready(address) or "")
        app.expect_turns()
        try:
            await server.main_loop()
        finally:
            app.limit_shutdown()
            # Also when cancelled: no client may stay connected to a gateway that has ended.
            application.end()
            with anyio.CancelScope(shield=True):
                await server.close(listener)
        tasks.cancel_scope.cancel()
    return stopper.was_signalled


class _Server(Server):
    """Uvicorn with its own acceptor and without its signal handling.

    Call `open` first, then run `accept` in parallel with `main_loop`, then `close`.
    """

    def __init__(self, config: Config, connections: ClientConnections) -> None:
        super().__init__(config)
        self._open_connections = connections
        self._accepting = anyio.CancelScope()
        self._has_stopped_accepting = anyio.Event()

    def open(self) -> None:
        """Prepare to accept connections."""
        # `uvicorn.lifespan.off` takes the class from the top-level package, which would otherwise
        # import uvicorn's command line with click: a twentieth of the start.
        uvicorn.Config = Config
        if not self.config.loaded:
            self.config.load()
        self.lifespan = self.config.lifespan_class(self.config)
        self.servers: list[asyncio.Server] = []
        self.started = True

    async def accept(self, listener: socket.socket) -> None:
        """Accept connections until `close` is called."""

        def protocol(opening: ClientConnection) -> HttpParser:
            return HttpParser(self.config, self.server_state, self._open_connections, opening)

        acceptor = Acceptor(self._open_connections, protocol, tls=self.config.ssl)
        try:
            with self._accepting:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(acceptor.close_slow_connections)
                    await acceptor.accept(listener)
        finally:
            self._has_stopped_accepting.set()

    async def finish_connections(self) -> None:
        """Stop accepting, and wait until no client can send another request.

        Each connection closes after its next response, or once its client has been idle for the
        usual time.
        """
        self._accepting.cancel()
        await self._has_stopped_accepting.wait()
        self._open_connections.retire()
        await _poll_until(lambda: not self._open_connections.has_waiting())

    async def wait_closed(self) -> None:
        """Wait until no connection is open."""
        await _poll_until(lambda: not len(self._open_connections))

    async def close(self, listener: socket.socket) -> None:
        """Stop accepting, and close all connections."""
        self._accepting.cancel()
        await self._has_stopped_accepting.wait()
        await self.shutdown([listener])


async def _poll_until(condition: Callable[[], bool]) -> None:
    while True:
        if condition():
            return
        await anyio.sleep(_POLL_S)


class _SignalHandler:
    """Drains and stops at SIGTERM and SIGINT, reloads at SIGHUP; a second signal stops at once."""

    def __init__(
        self,
        application: HttpApplication,
        server: _Server,
        *,
        drain_s: float,
        on_reload: Callable[[], Awaitable[None]] | None,
    ) -> None:
        self._application = application
        self._server = server
        self._drain_s = drain_s
        self._on_reload = on_reload
        self._stop_signals = 0

    @property
    def was_signalled(self) -> bool:
        """Whether the process is to end."""
        return self._stop_signals > 0

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Handle signals until cancelled."""
        signals_handled = [signal.SIGTERM, signal.SIGINT]
        if sys.platform != "win32":
            signals_handled.append(signal.SIGHUP)
        async with anyio.create_task_group() as tasks:
            with received(*signals_handled) as signals:
                task_status.started()
                while True:
                    number = await signals.get()
                    if sys.platform != "win32" and number == signal.SIGHUP:
                        tasks.start_soon(self._reload)
                        continue
                    self._stop_signals += 1
                    if self._stop_signals == 1:
                        tasks.start_soon(self._stop)
                    else:
                        log.warning("ending at once")
                        self._application.end()
                        self._server.should_exit = True

    async def retire(self, begin: anyio.Event) -> None:
        """Leave new connections to another process once `begin` is set, and stop gracefully.

        Running calls finish, however long that takes.
        """
        await begin.wait()
        await self._server.finish_connections()
        await self._application.wait_until_idle()
        # A request that has arrived may not count as running yet: it would be refused.
        self._application.end_streams()
        with anyio.move_on_after(self._drain_s):
            await self._server.wait_closed()
        if not self._stop_signals:
            self._stop_signals += 1
            await self._stop()

    async def restart(self, begin: anyio.Event) -> None:
        """Stop gracefully once `begin` is set, so that the caller can start the gateway anew."""
        await begin.wait()
        if not self._stop_signals:
            await self._stop()

    async def _stop(self) -> None:
        log.info("shutting down", extra={"drain_s": self._drain_s})
        if not await self._application.drain(self._drain_s):
            log.warning("calls were still running")
        self._application.end()
        self._server.should_exit = True

    async def _reload(self) -> None:
        if self._on_reload is None:
            return
        try:
            await self._on_reload()
        except Exception:
            log.exception("reload failed; the old settings stay")


def check_certificate(tls: TlsSettings) -> None:
    """Check the certificate before the gateway listens.

    Raises:
        SettingError: The certificate cannot be used.
    """
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.cert, tls.key or None)
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        raise SettingError(
            f"tls.cert {tls.cert!r} cannot be used:"
            f" {getattr(error, 'strerror', None) or getattr(error, 'reason', None) or error}.",
            allowed="Expected: a certificate and its key, both in PEM form.",
            hint="Correct tls.cert and tls.key.",
        ) from error


def _address(host: str, listener: socket.socket, *, is_safe: bool = False) -> str:
    port = listener.getsockname()[1]
    scheme = "https" if is_safe else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
