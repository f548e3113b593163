"""The transport `socket`: MCP servers that listen on a TCP port or a Unix domain socket.

Messages are JSON-RPC, one per line, as over standard streams. `DuplexWire` matches responses with
requests; this module moves the bytes.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from toolgate.errors import OptionError, UnreachableError
from toolgate.upstream import (
    DuplexWire,
    LineFramer,
    OverlongMessage,
    PendingRequest,
    Wire,
    WireEvents,
    read_big_message,
)

_READ_BYTES = 2**16
"""Bytes read at a time (chosen)."""

_MAX_UNSENT_BYTES = 4 * 2**20
"""Bytes waiting to be sent beyond which small messages are dropped (chosen)."""

_NOTIFY_S = 2.0
"""Seconds that a notification waits for a server that does not read (chosen)."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Table `[server.NAME.options]`."""

    url: str
    """`tcp://HOST:PORT` or `unix:///PATH`."""

    def __post_init__(self) -> None:
        """Check the address.

        Raises:
            OptionError: It is neither form.
        """
        _parsed(self.url)


def build(options: Options, *, max_message_bytes: int) -> "SocketWire":
    """Return the wire for these options; nothing is connected yet."""
    return SocketWire(options.url, max_message_bytes)


class SocketWire(DuplexWire):
    """A connection to a server."""

    def __init__(self, url: str, max_message_bytes: int) -> None:
        super().__init__(max_message_bytes)
        self._url = url
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    async def open(self, events: WireEvents) -> None:
        """Connect.

        Raises:
            UnreachableError: No server listens there.
        """
        self._events = events
        address = _parsed(self._url)
        try:
            if address.scheme == "unix":
                reader, self._writer = await asyncio.open_unix_connection(address.path)
            else:
                reader, self._writer = await asyncio.open_connection(address.hostname, address.port)
        except OSError as error:
            raise UnreachableError(
                f"No connection to {self._url}: {error.strerror or error}.",
                hint="Start the server, or correct options.url.",
            ) from error
        self._reading = asyncio.create_task(self._read(reader), name="toolgate-socket")

    async def aclose(self) -> None:
        """Close the connection; messages that were not sent are dropped."""
        self._end("The connection was closed.")
        await self._finish_questions()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._writer is not None:
            self._writer.transport.abort()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        framer = LineFramer(max_bytes=self._max_message_bytes)
        try:
            while chunk := await reader.read(_READ_BYTES):
                for line in framer.feed(chunk):
                    if isinstance(line, OverlongMessage):
                        self._take_overlong(line)
                    elif line.strip():
                        await self._take(await read_big_message(line))
            self._end("The server closed the connection.")
        except OSError as error:
            self._end(f"The connection broke: {error.strerror or error}.")

    async def _send_call(
        self,
        text: bytes,
        call: PendingRequest,
        headers: Mapping[str, str],  # noqa: ARG002 -- contract
    ) -> None:
        writer = self._open_writer()
        call.sent = True
        await self._write(writer, text)

    async def _send(self, text: bytes, headers: Mapping[str, str]) -> None:  # noqa: ARG002 -- contract
        try:
            async with asyncio.timeout(_NOTIFY_S):
                await self._write(self._open_writer(), text)
        except TimeoutError:
            return  # it is in the buffer, and is sent when the server reads again

    def _send_soon(self, text: bytes, headers: Mapping[str, str]) -> None:  # noqa: ARG002 -- contract
        writer = self._writer
        if writer is None or self._end_reason is not None:
            return
        if writer.transport.get_write_buffer_size() < _MAX_UNSENT_BYTES:
            writer.writelines((text, b"\n"))

    def _open_writer(self) -> asyncio.StreamWriter:
        if self._writer is None or self._end_reason is not None:
            raise self._lost(sent=False)
        return self._writer

    async def _write(self, writer: asyncio.StreamWriter, text: bytes) -> None:
        writer.writelines((text, b"\n"))
        try:
            await writer.drain()
        except OSError as error:  # `_end` tells whoever waits for a response
            self._end(f"The connection broke: {error.strerror or error}.")


def _parsed(url: str) -> SplitResult:
    try:
        address = urlsplit(url)
        is_tcp = address.scheme == "tcp" and bool(address.hostname and address.port)
    except ValueError:  # the port is not a number
        pass
    else:
        is_unix = address.scheme == "unix" and not address.netloc and len(address.path) > 1
        if is_tcp or is_unix:
            return address
    raise OptionError("url is no address.", allowed="Allowed: tcp://HOST:PORT, unix:///PATH.")


_: type[Wire] = SocketWire
