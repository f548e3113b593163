"""HTTP parsing with `llhttp`, the parser of Node: written in C, half the time of h11."""

import asyncio
from typing import TYPE_CHECKING, Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    from uvicorn.config import Config
    from uvicorn.server import ServerState

__all__ = ["CONNECTION", "MAX_HEAD_BYTES", "HttpParser"]

CONNECTION = "toolgate.connection"
"""Member of a scope: what is remembered of the connection that a request came over."""

MAX_HEAD_BYTES = 256 * 2**10
"""Bytes that request line and headers may have, which the library does not limit by itself."""

_SMALL_BYTES = 64 * 2**10
"""Up to this size a piece is copied to send it with the one before."""

_OF_AN_OFFER = frozenset({b"upgrade", b"connection", b"http2-settings"})


class HttpParser(HttpToolsProtocol):
    """Uvicorn's own, with the limits and the strictness of its other parser."""

    def __init__(
        self,
        config: "Config",
        server_state: "ServerState",
        app_state: dict[str, Any],
        _loop: Any = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._is_in_head = False
        self._head_bytes = 0
        self._is_offer = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - as uvicorn's own
        """A client connected."""
        super().connection_made(transport)
        self._connection: dict[str, Any] = {}
        self.transport = cast("asyncio.Transport", _CoalescingTransport(transport))

    def data_received(self, data: bytes) -> None:
        """Take what came, unless it is no request or its head is too long."""
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            self._decline(data[offer.args[0] :])
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        """A request begins."""
        self._is_in_head = True
        self._head_bytes = 0
        super().on_message_begin()
        self.scope[CONNECTION] = self._connection  # pyright: ignore[reportGeneralTypeIssues] - ours

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header without the blanks around it; those that come after the body are none."""
        if self._is_in_head:
            super().on_header(name, value.strip(b" \t"))

    def on_headers_complete(self) -> None:
        """The head is over."""
        self._is_in_head = False
        self._is_offer = self.parser.should_upgrade()
        if not self._is_offer:
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is whole."""
        if not self._is_offer:
            super().on_message_complete()

    def _decline(self, rest: bytes) -> None:
        """Answer a request that offers another protocol, such as HTTP/2, as it stands.

        The parser takes what follows such a head for the other protocol, so the head is read once
        more without the offer. Java's HTTP client makes one with its first request.
        """
        method = self.parser.get_method()
        if method == b"CONNECT":
            self.send_400_response("Invalid HTTP request received.")
            return
        lines = [b"%s %s HTTP/1.1" % (method, self.url)]
        lines += [b"%s: %s" % pair for pair in self.headers if pair[0] not in _OF_AN_OFFER]
        self.parser = httptools.HttpRequestParser(self)
        self.data_received(b"\r\n".join([*lines, b"", rest]))


class _CoalescingTransport:
    """A transport that sends the head of an answer together with what follows it at once.

    Uvicorn writes them one after the other; each is a system call and a packet, which costs more
    than all else that happens for a small answer.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._pending: bytes | None = None
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        """Send, the first piece not before the loop has turned."""
        if self._pending is None:
            self._pending = data
            self._loop.call_soon(self._flush)
        elif len(data) <= _SMALL_BYTES:
            self._pending += data
        else:
            self._flush()
            self._transport.write(data)

    def close(self) -> None:
        """Send what is held, then close."""
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _flush(self) -> None:
        if self._pending is not None:
            pending, self._pending = self._pending, None
            self._transport.write(pending)
