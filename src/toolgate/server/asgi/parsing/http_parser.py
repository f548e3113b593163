"""HTTP parsing with `llhttp`, the parser of Node: written in C, half the time of h11."""

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from toolgate.server.connections import (
    BODY_WINDOW_S,
    HEAD_TIMEOUT_S,
    MIN_BODY_BYTES_PER_S,
    ClientConnections,
    only_health_checks,
)

if TYPE_CHECKING:
    from uvicorn.config import Config
    from uvicorn.server import ServerState

__all__ = ["CONNECTION", "MAX_HEAD_BYTES", "HttpParser"]

CONNECTION = "toolgate.connection"
"""Member of a scope: what is remembered of the connection that a request came over."""

MAX_HEAD_BYTES = 256 * 2**10
"""Bytes that request line and headers may have, which the library does not limit by itself."""

_MAX_HEADERS = 1_000
"""Headers of a request. Chosen: ten times what clients send."""

_PIECE_BYTES = 2**10
"""Bytes that are parsed at once, so that few requests are kept ahead of the one that is answered:
each takes 2 KB of memory, however short it is. Chosen: most requests are one piece."""

_SMALL_BYTES = 64 * 2**10
"""Up to this size a piece is copied to send it with the one before."""

_OF_AN_OFFER = frozenset({b"upgrade", b"connection", b"http2-settings"})
_BAD_REQUEST = "Invalid HTTP request received."
_HEAD_TOO_LONG = "The head of the request is too long."
_TIMEOUT = b"408 Request Timeout"


class _HeadTooLongError(Exception):
    """Raised in a callback of the parser, which hands it on as the cause of its own error."""


class _BadTargetError(Exception):
    """Raised likewise: `*` stands for the server itself, for `OPTIONS` alone (RFC 9112 3.2.4)."""


class HttpParser(HttpToolsProtocol):
    """Uvicorn's own, with limits on size and time, and the strictness of its other parser."""

    def __init__(
        self,
        config: "Config",
        server_state: "ServerState",
        app_state: dict[str, Any],
        connections: ClientConnections,
    ) -> None:
        super().__init__(config, server_state, app_state)
        self._open_connections = connections
        self._is_in_head = False
        self._is_in_body = False
        self._heads_begun = 0
        self._head_bytes = 0
        self._header_bytes = 0
        self._is_offer = False
        self._since = 0.0
        self._window_since = 0.0
        self._window_bytes = 0
        self._held = b""
        self._behind_since: float | None = None
        self._unread_since = 0.0
        self._sent_before = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - as uvicorn's own
        """A client connected."""
        super().connection_made(transport)
        self._connection: dict[str, Any] = {}
        self._sending = _CoalescingTransport(transport)
        self.transport = cast("asyncio.Transport", self._sending)
        self._since = monotonic()
        address = self.client[0] if self.client else ""
        self._open_connections.add(self, address)
        if self._open_connections.is_above_limit(address):
            self.app = only_health_checks(self.app)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        self._open_connections.remove(self)
        super().connection_lost(exc)

    @property
    def waits_since(self) -> float | None:
        """Monotonic time since when the client has a request to finish or an answer to read.

        None while it waits for an answer.
        """
        if self._behind_since is not None:
            return self._behind_since
        return None if self._is_answering and not self._is_in_body else self._since

    def time_out(self, now: float) -> None:
        """Close the connection if its client takes too long for a head, a body or an answer."""
        if self._is_unread(now):
            self.transport.abort()
        if self.transport.is_closing():
            return
        if self._is_in_body:
            if self.flow.read_paused:
                self._open_window(now)
            elif now - self._window_since >= BODY_WINDOW_S:
                if self._window_bytes < BODY_WINDOW_S * MIN_BODY_BYTES_PER_S:
                    self._give_up(_TIMEOUT, "The body of the request comes too slowly.")
                self._open_window(now)
        elif not self._is_answering and now - self._since > HEAD_TIMEOUT_S:
            if self._is_in_head:
                self._give_up(_TIMEOUT, "The head of the request takes too long.")
            else:
                self.transport.close()

    def abort(self) -> None:
        """Close the connection at once, whatever is under way."""
        self.transport.abort()

    def close_after_answer(self) -> None:
        """Close the connection after the answer that is under way, and tell the client so."""
        if self._is_answering and not self.cycle.response_started:
            self.cycle.keep_alive = False

    def data_received(self, data: bytes) -> None:
        """Take what came, but hold back what is behind a request that waits for its turn."""
        self._unset_keepalive_if_required()
        if self._held:
            self._held += data
            self.flow.pause_reading()
        else:
            self._take(data)

    def _take(self, data: bytes) -> None:
        """Parse data piece by piece until a request waits for its turn."""
        at = 0
        while at < len(data) and not self.transport.is_closing():
            if self.pipeline:
                self._held = data[at:]
                return
            self._take_piece(data[at : at + _PIECE_BYTES])
            at += _PIECE_BYTES

    def _take_piece(self, data: bytes) -> None:
        """Parse a piece, unless it is no request or its head is too long."""
        was_in_head, was_in_body = self._is_in_head, self._is_in_body
        if was_in_body:
            self._window_bytes += len(data)
        self._heads_begun = 0
        rest: bytes | None = data
        while rest is not None and not self.transport.is_closing():
            rest = self._feed(rest)
        if not self._is_in_head:
            return
        # Behind another request, a head begins somewhere in the data: then it counts from the next.
        if self._heads_begun == (0 if was_in_head else 1) and not was_in_body:
            self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response(_HEAD_TOO_LONG)

    def on_message_begin(self) -> None:
        """A request begins."""
        self._is_in_head = True
        self._heads_begun += 1
        self._head_bytes = self._header_bytes = 0
        self._since = monotonic()
        super().on_message_begin()
        self.scope[CONNECTION] = self._connection  # pyright: ignore[reportGeneralTypeIssues] - ours

    def on_url(self, url: bytes) -> None:
        """Keep a part of the address."""
        self._count_header_bytes(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header without the blanks around it; those that come after the body are none."""
        self._count_header_bytes(len(name) + len(value) + len(b": \r\n"))
        if self._is_in_head:
            if len(self.headers) >= _MAX_HEADERS:
                raise _HeadTooLongError
            super().on_header(name, value.strip(b" \t"))

    def on_headers_complete(self) -> None:
        """The head is over."""
        self._is_in_head = False
        if self.url == b"*" and self.parser.get_method() != b"OPTIONS":
            raise _BadTargetError
        self._is_offer = self.parser.should_upgrade()
        if not self._is_offer:
            self._is_in_body = True
            self._open_window(monotonic())
            super().on_headers_complete()
            if self._open_connections.is_retiring:
                self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._is_in_body = False
        if not self._is_offer:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """The answer is sent; the client may send its next request."""
        self._since = monotonic()
        super().on_response_complete()
        held, self._held = self._held, b""
        self._take(held)
        if self.pipeline and not self.transport.is_closing():
            self.flow.pause_reading()

    @property
    def _is_answering(self) -> bool:
        """Whether a request has come whose answer is not sent yet."""
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None before the first request
        return cycle is not None and not cycle.response_complete

    def _is_unread(self, now: float) -> bool:
        """Whether the client takes the answer more slowly than it may."""
        waiting = self._sending.get_write_buffer_size()
        sent = self._sending.written_bytes - waiting
        if not waiting:
            self._behind_since = None
        elif self._behind_since is None:
            self._behind_since = self._unread_since = now
            self._sent_before = sent
        elif now - self._unread_since >= BODY_WINDOW_S:
            if sent - self._sent_before < BODY_WINDOW_S * MIN_BODY_BYTES_PER_S:
                return True
            self._unread_since, self._sent_before = now, sent
        return False

    def _feed(self, data: bytes) -> bytes | None:
        """Parse data; gives what must be parsed anew after a declined upgrade."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            return self._without_offer(data[offer.args[0] :])
        except httptools.HttpParserError as error:
            is_too_long = isinstance(error.__context__, _HeadTooLongError)
            self.send_400_response(_HEAD_TOO_LONG if is_too_long else _BAD_REQUEST)
        return None

    def _without_offer(self, rest: bytes) -> bytes | None:
        """A request that offers another protocol, such as HTTP/2, without the offer.

        The parser takes what follows such a head for the other protocol, so the head is read once
        more. Java's HTTP client makes an offer with its first request.
        """
        method = self.parser.get_method()
        if method == b"CONNECT":
            self.send_400_response(_BAD_REQUEST)
            return None
        lines = [b"%s %s HTTP/1.1" % (method, self.url)]
        lines += [b"%s: %s" % pair for pair in self.headers if pair[0] not in _OF_AN_OFFER]
        self.parser = httptools.HttpRequestParser(self)
        return b"\r\n".join([*lines, b"", rest])

    def _count_header_bytes(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > MAX_HEAD_BYTES:
            raise _HeadTooLongError

    def _open_window(self, now: float) -> None:
        """Begin to measure how fast the body comes."""
        self._window_since = now
        self._window_bytes = 0

    def _give_up(self, status: bytes, text: str) -> None:
        """Answer with an error if nothing was answered yet, and close."""
        if not (self._is_answering and self.cycle.response_started):
            lines = [
                b"HTTP/1.1 " + status,
                b"content-type: text/plain; charset=utf-8",
                b"content-length: %d" % len(text),
                b"connection: close",
                b"",
                text.encode("ascii"),
            ]
            self.transport.write(b"\r\n".join(lines))
        self.transport.close()


class _CoalescingTransport:
    """A transport that sends the head of an answer together with what follows it at once.

    Uvicorn writes them one after the other; each is a system call and a packet, which costs more
    than all else that happens for a small answer.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._pending: bytes | None = None
        self.written_bytes = 0
        """Bytes of all answers, whether the client has read them or not."""
        self.get_write_buffer_size = transport.get_write_buffer_size
        """Bytes that the system has not taken yet."""
        self.is_closing = transport.is_closing
        self.abort = transport.abort

    def write(self, data: bytes) -> None:
        """Send, the first piece not before the loop has turned."""
        self.written_bytes += len(data)
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
