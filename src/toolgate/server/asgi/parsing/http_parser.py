"""HTTP parsing with `llhttp`, Node's parser: written in C, takes half the time of h11."""

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from toolgate.server.connections import (
    BODY_WINDOW_S,
    HEAD_TIMEOUT_S,
    MIN_BODY_BYTES_PER_S,
    ClientConnection,
    ClientConnections,
    only_health_checks,
)

if TYPE_CHECKING:
    from uvicorn.config import Config
    from uvicorn.server import ServerState

CONNECTION = "toolgate.connection"
"""Key of the data about the client connection in a scope."""

MAX_HEAD_BYTES = 256 * 2**10
"""Largest request line and headers in bytes, and most bytes in a row that only surround a chunk of
the body; the library has no limits of its own."""

_MAX_HEADERS = 1_000
"""Largest number of request headers. Chosen: ten times what clients send."""

_PIECE_BYTES = 2**10
"""Bytes parsed at a time, so that few pipelined requests are held in memory ahead of the running
one: each takes 2 KB, however short it is. Chosen: most requests fit in one piece."""

_SMALL_BYTES = 64 * 2**10
"""Bytes up to which a piece is copied, to send it together with the one before."""

_OF_AN_OFFER = frozenset({b"upgrade", b"connection", b"http2-settings"})
_BAD_REQUEST = "Invalid HTTP request received."
_HEAD_TOO_LONG = "The head of the request is too long."
_TIMEOUT = b"408 Request Timeout"


class _HeadTooLongError(Exception):
    """Raised in a parser callback; the parser chains it to its own error."""


class _BadTargetError(Exception):
    """Raised likewise: only OPTIONS may have the target `*`, the server (RFC 9112 3.2.4)."""


class HttpParser(HttpToolsProtocol):
    """Uvicorn's llhttp protocol with limits on size and time, as strict as its h11 one."""

    def __init__(
        self,
        config: "Config",
        server_state: "ServerState",
        connections: ClientConnections,
        opening: ClientConnection,
    ) -> None:
        super().__init__(config, server_state, {})
        self._open_connections = connections
        self._opening = opening
        self._is_in_head = False
        self._is_in_body = False
        self._heads_begun = 0
        self._has_chunks = False
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
        """Set up a new client connection."""
        super().connection_made(transport)
        self._connection: dict[str, Any] = {}
        self._sending = _CoalescingTransport(transport)
        self.transport = cast("asyncio.Transport", self._sending)
        self._since = monotonic()
        address = self.client[0] if self.client else ""
        if not self._open_connections.replace(self._opening, self):
            self.transport.abort()  # it had to make room for others
        elif self._open_connections.is_above_limit(address):
            self.app = only_health_checks(self.app)

    def connection_lost(self, exc: Exception | None) -> None:
        """Clean up after a closed connection."""
        self._open_connections.remove(self)
        super().connection_lost(exc)

    @property
    def waits_since(self) -> float | None:
        """Monotonic time since when the gateway waits for the client to send or to read.

        None while the client waits for a response.
        """
        if self._behind_since is not None:
            return self._behind_since
        return None if self._is_answering and not self._is_in_body else self._since

    def time_out(self, now: float) -> None:
        """Close the connection if its client is too slow with a head, a body or reading.

        What remains of a body after its answer has `BODY_WINDOW_S`, however fast it comes.
        """
        if self._is_unread(now):
            self.transport.abort()
        if self.transport.is_closing():
            return
        if self._is_in_body and not self._is_answering:
            # The rest of a body that was answered without it; closed at once, the client might not
            # read the answer.
            if now - self._since > BODY_WINDOW_S:
                self.transport.close()
        elif self._is_in_body:
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
        """Close the connection at once, even in the middle of a request."""
        self.transport.abort()

    def close_after_answer(self) -> None:
        """Close the connection after the current response, and announce that to the client."""
        if self._is_answering and not self.cycle.response_started:
            self.cycle.keep_alive = False

    def data_received(self, data: bytes) -> None:
        """Parse received data; hold back what follows a queued request."""
        self._unset_keepalive_if_required()
        if self._held:
            self._held += data
            self.flow.pause_reading()
        else:
            self._take(data)

    def _take(self, data: bytes) -> None:
        """Parse data piece by piece until a request is queued."""
        at = 0
        while at < len(data) and not self.transport.is_closing():
            if self.pipeline:
                self._held = data[at:]
                return
            self._take_piece(data[at : at + _PIECE_BYTES])
            at += _PIECE_BYTES

    def _take_piece(self, data: bytes) -> None:
        """Parse a piece; refuse it if it is malformed or its head is too long."""
        was_in_head, was_in_body = self._is_in_head, self._is_in_body
        if was_in_body:
            self._window_bytes += len(data)
        self._heads_begun = 0
        self._has_chunks = False
        rest: bytes | None = data
        while rest is not None and not self.transport.is_closing():
            rest = self._feed(rest)
        if self._is_in_body:
            # An extension of a chunk, or headers after the last one: reported at their ends.
            self._head_bytes = 0 if self._has_chunks else self._head_bytes + len(data)
        elif not self._is_in_head:
            return
        # A head after another request begins inside the piece, so only later pieces are counted.
        elif self._heads_begun == (0 if was_in_head else 1) and not was_in_body:
            self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response(_HEAD_TOO_LONG)

    def on_message_begin(self) -> None:
        """Start a request."""
        self._is_in_head = True
        self._heads_begun += 1
        self._head_bytes = self._header_bytes = 0
        self._since = monotonic()
        super().on_message_begin()
        self.scope[CONNECTION] = self._connection  # pyright: ignore[reportGeneralTypeIssues] - ours

    def on_url(self, url: bytes) -> None:
        """Add a part of the target."""
        self._count_header_bytes(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header, stripped of whitespace; trailers are ignored."""
        self._count_header_bytes(len(name) + len(value) + len(b": \r\n"))
        if self._is_in_head:
            if len(self.headers) >= _MAX_HEADERS:
                raise _HeadTooLongError
            super().on_header(name, value.strip(b" \t"))

    def on_headers_complete(self) -> None:
        """Finish the head."""
        self._is_in_head = False
        if self.url == b"*" and self.parser.get_method() != b"OPTIONS":
            raise _BadTargetError
        self._is_offer = self.parser.should_upgrade()
        if not self._is_offer:
            self._is_in_body = self._has_chunks = True
            self._open_window(monotonic())
            super().on_headers_complete()
            if self._open_connections.is_retiring:
                self.cycle.keep_alive = False

    def on_chunk_header(self) -> None:
        """Note that a chunk of the body begins; the last, empty one too."""
        self._has_chunks = True

    def on_body(self, body: bytes) -> None:
        """Add a part of the body."""
        self._has_chunks = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Finish the request."""
        self._is_in_body = False
        if not self._is_offer:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with the next request after a response is sent."""
        self._since = monotonic()
        super().on_response_complete()
        held, self._held = self._held, b""
        self._take(held)
        if self.pipeline and not self.transport.is_closing():
            self.flow.pause_reading()

    @property
    def _is_answering(self) -> bool:
        """Whether a request has arrived whose response is not sent completely."""
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None before the first request
        return cycle is not None and not cycle.response_complete

    def _is_unread(self, now: float) -> bool:
        """Whether the client reads the response too slowly."""
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
        """Parse data; return what to parse again after a declined upgrade."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            return self._without_offer(data[offer.args[0] :])
        except httptools.HttpParserError as error:
            is_too_long = isinstance(error.__context__, _HeadTooLongError)
            self.send_400_response(_HEAD_TOO_LONG if is_too_long else _BAD_REQUEST)
        return None

    def _without_offer(self, rest: bytes) -> bytes | None:
        """Return a request that offers another protocol, such as HTTP/2, without the offer.

        The parser treats what follows such a head as the other protocol, so the head is parsed
        again. Java's HTTP client offers an upgrade in its first request.
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
        """Start to measure the rate of the body."""
        self._window_since = now
        self._window_bytes = 0

    def _give_up(self, status: bytes, text: str) -> None:
        """Respond with an error unless a response has started, and close."""
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
    """A transport that sends the head of a response together with the start of its body.

    Uvicorn writes them one after the other; each write is a system call and a packet, which
    costs more than everything else for a small response.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._pending: bytes | None = None
        self.written_bytes = 0
        """Bytes of all responses, whether the client has read them or not."""
        self.get_write_buffer_size = transport.get_write_buffer_size
        """Bytes that the operating system has not accepted yet."""
        self.is_closing = transport.is_closing
        self.abort = transport.abort

    def write(self, data: bytes) -> None:
        """Send data; hold the first piece until the next turn of the event loop."""
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
        """Send the held data, then close."""
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _flush(self) -> None:
        if self._pending is not None:
            pending, self._pending = self._pending, None
            self._transport.write(pending)
