"""A proxy in front of PostgreSQL that can stop forwarding, as a broken network does."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Final

_READY: Final = b"Z\x00\x00\x00\x05I"
"""ReadyForQuery: the server has accepted a login, or executed a statement."""


class StallingProxy:
    """Forwards connections to a socket of PostgreSQL, in threads, until it stalls."""

    def __init__(self, listener: socket.socket, target: str) -> None:
        self.port: int = listener.getsockname()[1]
        """Its port on 127.0.0.1."""
        self._listener = listener
        self._target = target
        self._is_stalled = False
        self._sockets: list[socket.socket] = []

    def stall(self) -> None:
        """Break all connections. New ones can log in, and get no further answer."""
        self._is_stalled = True
        self.break_connections()

    def break_connections(self) -> None:
        """Break all connections."""
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def accept(self) -> None:
        """Accept connections until the listener is shut down."""
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._target)
                self._sockets += [client, server]
                is_logged_in = Event()
                for work in (self._forward_requests, self._forward_answers):
                    Thread(target=work, args=(client, server, is_logged_in), daemon=True).start()

    def _forward_requests(
        self, client: socket.socket, server: socket.socket, is_logged_in: Event
    ) -> None:
        with suppress(OSError):
            while data := client.recv(2**16):
                if not (self._is_stalled and is_logged_in.is_set()):
                    server.sendall(data)
            server.shutdown(socket.SHUT_RDWR)

    def _forward_answers(
        self, client: socket.socket, server: socket.socket, is_logged_in: Event
    ) -> None:
        with suppress(OSError):
            while data := server.recv(2**16):
                if _READY in data:
                    is_logged_in.set()
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)


@contextmanager
def stalling_proxy(target: str) -> Iterator[StallingProxy]:
    """Listen on a free port of 127.0.0.1 in front of a socket in the file system."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = StallingProxy(listener, target)
        accepting = Thread(target=proxy.accept, daemon=True)
        accepting.start()
        try:
            yield proxy
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()
            proxy.break_connections()
