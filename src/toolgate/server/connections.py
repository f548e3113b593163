"""Accepts connections within limits: how many in total and per client, and how long they may idle.

Otherwise clients that connect and never finish a request could use up all descriptors of the
process without logging in.
"""

import asyncio
import errno
import logging
import socket
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from ssl import SSLContext
from time import monotonic
from typing import Any, Protocol

import anyio
import anyio.lowlevel

from toolgate.security.addresses import client_network

log = logging.getLogger(__name__)

HEAD_TIMEOUT_S = 10.0
"""Seconds that a client has for the head of a request, and for a TLS handshake; chosen."""

MIN_BODY_BYTES_PER_S = 1024
"""Lowest rate of a body, and of a client reading a response, measured over `BODY_WINDOW_S`;
slower than any network over which people work. Chosen."""

BODY_WINDOW_S = 10.0
"""Seconds over which the rate of a body or a response is measured; chosen."""

_SWEEP_S = 1.0
"""Seconds between checks for slow connections; chosen: limits are whole seconds."""
# Connections above the limit: health checks are served, all else gets status 503. Chosen.
_RESERVED = 16
# Seconds without accepting while the process has no free descriptors: after one was closed, and
# when none can be closed. Chosen: a hundred clients a second still get their turn.
_CLOSE_PAUSE_S = 0.01
_ACCEPT_PAUSE_S = 0.25
"""Seconds without accepting when no descriptor can be freed; chosen: people do not notice."""
# Seconds between two log lines about refused connections. Chosen.
_LOG_INTERVAL_S = 60.0
# Connections accepted before other tasks get a turn of the event loop. Chosen.
_ACCEPTED_AT_ONCE = 32
_HEALTH_PATHS = ("/healthz", "/readyz")
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class ClientConnection(Protocol):
    """What the limits need to know of a connection."""

    @property
    def waits_since(self) -> float | None:
        """Monotonic time since when the gateway waits for the client to send or to read.

        None while the client waits for a response.
        """
        ...

    def time_out(self, now: float) -> None:
        """Close the connection if its client is too slow; `now` is monotonic, in seconds."""
        ...

    def abort(self) -> None:
        """Close the connection at once."""
        ...

    def close_after_answer(self) -> None:
        """Close the connection after the response that its client waits for."""
        ...


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """Limits on the number of connections."""

    total: int
    """Connections of all clients together."""

    per_address: int
    """Connections of one IPv4 address or IPv6 network (/64)."""

    is_exempt: Callable[[str], bool] = lambda _: False
    """Whether an address is exempt from `per_address`, such as a reverse proxy."""


def connection_limits(
    total: int, per_address: int, *, is_exempt: Callable[[str], bool]
) -> ConnectionLimits:
    """Return the limits from the settings and from the descriptors the process may open.

    A quarter of the descriptors stays free for servers, store and files.
    """
    if sys.platform != "win32":
        import resource  # noqa: PLC0415 - POSIX only

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY:
            total = max(_RESERVED, min(total, soft * 3 // 4 - _RESERVED))
    return ConnectionLimits(total=total, per_address=min(per_address, total), is_exempt=is_exempt)


class ClientConnections:
    """The open connections of a server."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._connections: dict[ClientConnection, str] = {}
        self._counts: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._logged_at = -_LOG_INTERVAL_S
        self.is_retiring = False
        """Whether each connection closes after its next response."""

    def __len__(self) -> int:
        return len(self._connections)

    def add(self, connection: ClientConnection, address: str) -> None:
        """Register a connection."""
        network = client_network(address)
        self._connections[connection] = network
        self._counts[network] += 1

    def replace(self, opening: ClientConnection, connection: ClientConnection) -> bool:
        """Register a connection instead of the one that stood for it while it was opened.

        Returns:
            False if that one was closed to make room: the connection has to be closed too.
        """
        network = self._connections.pop(opening, None)
        if network is None:
            return False
        self._connections[connection] = network
        return True

    def remove(self, connection: ClientConnection) -> None:
        """Unregister a closed connection."""
        network = self._connections.pop(connection, None)
        if network is not None:
            self._counts[network] -= 1
            if not self._counts[network]:
                del self._counts[network]

    def admit(self, address: str) -> bool:
        """Whether a new connection is accepted.

        At a limit, connections that have waited longest for their clients are closed: those of
        the same address at the limit per address, any at the total limit.
        """
        network = client_network(address)
        # Several where connections above the limit, reserved for health checks, are idle by now.
        while self._is_over(network, address, further=1) and self._make_room(network):
            pass
        while len(self) >= self.limits.total and self._make_room():
            pass
        if self._is_over(network, address, further=1 - _RESERVED):
            return self._refuse("limit of its address", address)
        if len(self) >= self.limits.total + _RESERVED:
            return self._refuse("limit of all addresses", address)
        return True

    def is_above_limit(self, address: str) -> bool:
        """Whether a new connection is over a limit, so that it may only check health."""
        return len(self) > self.limits.total or self._is_over(client_network(address), address)

    def note_exhaustion(self, error: OSError) -> bool:
        """Close a waiting connection, if any, because the process has no free descriptors."""
        self._refuse(error.strerror or str(error), "")
        return self._make_room()

    def retire(self) -> None:
        """Close each connection after its next response."""
        self.is_retiring = True
        for connection in list(self._connections):
            connection.close_after_answer()

    def has_waiting(self) -> bool:
        """Whether a client may still send a request over an open connection."""
        return any(connection.waits_since is not None for connection in self._connections)

    def time_out_slow(self) -> None:
        """Close the connections of clients that are too slow."""
        now = monotonic()
        for connection in list(self._connections):
            connection.time_out(now)

    def _is_over(self, network: str, address: str, *, further: int = 0) -> bool:
        """Whether a client with `further` more connections exceeds its limit."""
        count = self._counts[network] + further
        return count > self.limits.per_address and not self.limits.is_exempt(address)

    def _make_room(self, network: str | None = None) -> bool:
        waiting = [
            (since, connection)
            for connection, owner in self._connections.items()
            if network in {None, owner} and (since := connection.waits_since) is not None
        ]
        if not waiting:
            return False
        _, longest = min(waiting, key=lambda item: item[0])
        self.remove(longest)  # its own end is reported later
        longest.abort()
        return True

    def _refuse(self, reason: str, address: str) -> bool:
        """Return False; log refusals, at most once a minute however many there are."""
        self._refused[reason] += 1
        if monotonic() >= self._logged_at + _LOG_INTERVAL_S:
            self._logged_at = monotonic()
            log.warning(
                "connections refused",
                extra={"counts": dict(self._refused), "last_address": address, "open": len(self)},
            )
            self._refused.clear()
        return False


class Acceptor:
    """Accepts the connections of a listening socket.

    Replaces asyncio's own server, which logs a traceback for each waiting connection whenever
    the process has no descriptor left: thousands a second.
    """

    def __init__(
        self,
        connections: ClientConnections,
        make_protocol: Callable[[ClientConnection], asyncio.Protocol],
        *,
        tls: SSLContext | None,
    ) -> None:
        self._connections = connections
        self._make_protocol = make_protocol
        self._tls = tls
        self._opening: set[asyncio.Task[None]] = set()

    async def accept(self, listener: socket.socket) -> None:
        """Accept connections until cancelled."""
        loop = asyncio.get_running_loop()
        accepted = 0
        while True:
            try:
                # Accepted directly, without an awaiting task: a client accepted at the moment of a
                # cancellation would be lost.
                client, address = listener.accept()
                client.setblocking(False)
            except BlockingIOError:
                await anyio.wait_readable(listener)
                continue
            except OSError as error:
                pause_s = 0.0  # the client was gone before it was accepted
                if error.errno in _EXHAUSTED:
                    has_room = self._connections.note_exhaustion(error)
                    pause_s = _CLOSE_PAUSE_S if has_room else _ACCEPT_PAUSE_S
                await anyio.sleep(pause_s)
                continue
            if self._connections.admit(str(address[0])):
                opening = _OpeningConnection(client)
                self._connections.add(opening, str(address[0]))
                task = loop.create_task(self._open(client, opening))
                self._opening.add(task)
                task.add_done_callback(self._opening.discard)
            else:
                client.close()
            accepted += 1
            if accepted % _ACCEPTED_AT_ONCE == 0:  # accepting alone would never yield
                await anyio.lowlevel.checkpoint()

    async def close_slow_connections(self) -> None:
        """Close connections of slow clients until cancelled."""
        while True:
            await anyio.sleep(_SWEEP_S)
            self._connections.time_out_slow()

    async def _open(self, client: socket.socket, opening: "_OpeningConnection") -> None:
        loop = asyncio.get_running_loop()
        further: dict[str, Any] = {}
        if self._tls is not None:
            further = {"ssl": self._tls, "ssl_handshake_timeout": HEAD_TIMEOUT_S}

        try:
            await loop.connect_accepted_socket(
                lambda: self._make_protocol(opening), client, **further
            )
        except (OSError, TimeoutError) as error:  # an SSLError is an OSError
            log.debug("no connection", extra={"error": str(error)})
            client.close()
        finally:
            self._connections.remove(opening)


class _OpeningConnection:
    """An accepted connection until its protocol takes over, after a TLS handshake if any."""

    def __init__(self, client: socket.socket) -> None:
        self._client = client
        self.waits_since: float | None = monotonic()

    def time_out(self, now: float) -> None:
        """Do nothing: the handshake has its own timeout."""

    def abort(self) -> None:
        """Shut the socket down, which aborts the handshake."""
        with suppress(OSError):
            self._client.shutdown(socket.SHUT_RDWR)

    def close_after_answer(self) -> None:
        """Do nothing: the protocol that takes over does this."""


def only_health_checks(app: Any) -> Any:
    """Return an ASGI application that serves only health checks, and 503 otherwise."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"].rstrip("/").endswith(_HEALTH_PATHS):
            await app(scope, receive, send)
            return
        headers = [
            (b"content-type", b"text/plain"),
            (b"retry-after", b"10"),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": 503, "headers": headers})
        await send({"type": "http.response.body", "body": b"Too many open connections."})

    return answer
