"""The socket that a gateway listens on."""

import errno
import socket
import sys

from toolgate.errors import PortTakenError

_BACKLOG = 2048
"""Connections that the operating system queues before the process accepts them; uvicorn's
default."""


def bind(host: str, port: int, *, is_shared: bool = False) -> socket.socket:
    """Return a socket bound to this address, which does not listen yet.

    Args:
        host: Address of this machine.
        port: Port, 0 for a free one.
        is_shared: Whether several processes of this user listen on the port, and the system
            distributes new connections among them (`SO_REUSEPORT`, Linux).

    Raises:
        PortTakenError: Another program has the port, or this user may not use it.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio disables Nagle's algorithm on accepted sockets only if the protocol is set.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform != "win32":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if is_shared:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host.strip("[]"), port))
    except OSError as error:
        listener.close()
        raise _no_listener(host, port, error) from error
    listener.setblocking(False)
    return listener


def listen(listener: socket.socket) -> None:
    """Start to listen.

    Raises:
        PortTakenError: Another program has started to listen there.
    """
    host, port = listener.getsockname()[:2]
    try:
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise _no_listener(host, port, error) from error


def _no_listener(host: str, port: int, error: OSError) -> PortTakenError:
    if error.errno == errno.EADDRINUSE:
        return PortTakenError(
            f"Port {port} on {host} is used by another program.",
            hint="Stop it, or choose another port with --port or serve.port; 0 takes a free one.",
        )
    return PortTakenError(
        f"Cannot listen on {host}, port {port}: {error.strerror or error}.",
        hint="Set serve.host and serve.port, or --host and --port, to an address of this machine"
        " and a port that you may use.",
    )
