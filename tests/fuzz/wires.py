"""The other ways in: sockets with raw bytes, and clients on standard streams."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import orjson

from tests.fuzz.gateway import ANSWER_S, AttackedGateway
from tests.fuzz.inputs import FuzzInput
from tests.fuzz.oracles import fault_of_line
from tests.fuzz.seeds import socket_seeds, stdio_seeds
from tests.server.http_gateway import INITIALIZE
from toolgate.server.http import serve
from toolgate.server.mcp.pipes import LineReader, LineWriter
from toolgate.server.mcp.stdio_session import serve_lines
from toolgate.types import Json, json_object

_CLIENT_LEAVES_S: Final = 0.03
"""Seconds without an answer after which a client that has sent all it has closes its side."""


class Wires:
    """A listening gateway, and a stdio session that goes on however odd its lines are."""

    def __init__(self, port: int, token: str, stdio: "_StdioClient") -> None:
        self._port = port
        self._token = token
        self._stdio = stdio

    def socket_seeds(self) -> list[FuzzInput]:
        return socket_seeds()

    def stdio_seeds(self) -> list[FuzzInput]:
        return stdio_seeds()

    async def send_bytes(self, data: bytes) -> str:
        """Send bytes over a connection of their own; what is wrong with the answer.

        Raises:
            TimeoutError: The gateway keeps the connection although the client is done.
        """
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            async with asyncio.timeout(ANSWER_S):
                with suppress(ConnectionError):
                    writer.write(data)
                    await writer.drain()
                answer = await self._read(reader)
                with suppress(ConnectionError, OSError):
                    writer.write_eof()
                answer += await self._read(reader, until_end=True)
        finally:
            writer.close()
        return _fault_of_bytes(answer)

    async def _read(self, reader: asyncio.StreamReader, *, until_end: bool = False) -> bytes:
        received = bytearray()
        with suppress(ConnectionError, TimeoutError):
            while True:
                limit = None if until_end else (0.005 if received else _CLIENT_LEAVES_S)
                async with asyncio.timeout(limit):
                    piece = await reader.read(2**16)
                if not piece:
                    break
                received += piece
        return bytes(received)

    async def send_line(self, line: bytes) -> str:
        """Send a line of the stdio client."""
        return await self._stdio.send(line)

    async def fault_of_health(self) -> str:
        """Whether both still answer."""
        request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError as error:
            return f"afterwards no connection can be opened: {error}"
        try:
            async with asyncio.timeout(ANSWER_S):
                writer.write(request)
                answer = await reader.read()
        except (TimeoutError, OSError) as error:
            return f"afterwards no connection is answered: {error}"
        finally:
            writer.close()
        if not answer.startswith(b"HTTP/1.1 200"):
            return f"afterwards a connection is answered with {answer[:200]!r}"
        return await self._stdio.fault_of_health()


def _fault_of_bytes(answer: bytes) -> str:
    """Whether an answer begins as HTTP does, and has no status that it must not have."""
    if not answer:
        return ""
    status = answer.split(b" ", 2)[1:2]
    if not answer.startswith(b"HTTP/1.1 ") or not status[0][:3].isdigit():
        return f"no HTTP: {answer[:200]!r}"
    return f"status {status[0]!r}: {answer[:300]!r}" if status[0][:1] == b"5" else ""


class _StdioClient:
    """A client whose lines are answered in any order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.WriteTransport) -> None:
        self._reader = reader
        self._writer = writer
        self._numbers = count()
        self._ids: set[Any] = set()
        self._faults: list[str] = []
        self._awaited: dict[str, asyncio.Event] = {}
        self.ended = ""
        """Why the session ended; empty: it goes on."""

    async def send(self, line: bytes) -> str:
        """Send a line; what is wrong with what came since the one before."""
        pieces = [piece for piece in line.replace(b"\r", b"\n").split(b"\n") if piece.strip()]
        for piece in pieces:
            with suppress(ValueError, RecursionError):
                message_id = json_object(json.loads(piece)).get("id")
                if isinstance(message_id, str | int | float):
                    self._ids.add(message_id)
        self._writer.write(b"\n".join(pieces) + b"\n")
        return self._faults.pop() if self._faults else ""

    async def fault_of_health(self) -> str:
        """Whether a request is still answered."""
        name = f"health-{next(self._numbers)}"
        self._ids.add(name)
        self._awaited[name] = asyncio.Event()
        message: Json = {"jsonrpc": "2.0", "id": name, "method": "ping"}
        try:
            async with asyncio.timeout(ANSWER_S):
                self._writer.write(orjson.dumps(message) + b"\n")
                await self._awaited[name].wait()
        except TimeoutError:
            return self.ended or "afterwards the stdio session does not answer"
        finally:
            del self._awaited[name]
        return self._faults.pop() if self._faults else ""

    async def read(self) -> None:
        """Judge what comes until the session ends."""
        while line := await self._reader.readline():
            self._judge(line)

    def _judge(self, line: bytes) -> None:
        fault = fault_of_line(line, self._ids)
        if fault:
            self._faults.append(fault)
            return
        message_id = json_object(orjson.loads(line)).get("id")
        if isinstance(message_id, str) and message_id in self._awaited:
            self._awaited[message_id].set()


@asynccontextmanager
async def open_wires(attacked: AttackedGateway) -> AsyncGenerator[Wires]:
    """The same gateway behind a socket and on standard streams."""
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    from_client, to_gateway = os.pipe()
    from_gateway, to_client = os.pipe()
    token = attacked.values["{admin}"]
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=2**26)
    reading, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(from_gateway, "rb")
    )
    writing, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(to_gateway, "wb"))
    stdio = _StdioClient(reader, writing)

    async def serve_client() -> None:
        writer = LineWriter(to_client)
        settings = attacked.app.settings.serve
        lines = LineReader(from_client, max_bytes=settings.max_body_bytes)
        try:
            await serve_lines(attacked.app.gateway, lines, writer, settings, token=token)
            stdio.ended = "the stdio session ended although its client is there"
        finally:
            await writer.close()
            os.close(to_client)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_serve_http, attacked, address)
        tasks.start_soon(serve_client)
        tasks.start_soon(stdio.read)
        with anyio.fail_after(ANSWER_S):
            port = urlsplit(await address).port
        assert port is not None
        assert not await stdio.send(orjson.dumps(INITIALIZE))
        try:
            yield Wires(port, token, stdio)
        finally:
            writing.abort()
            tasks.cancel_scope.cancel()
    reading.close()


async def _serve_http(attacked: AttackedGateway, address: asyncio.Future[str]) -> None:
    await serve(attacked.app, port=0, on_ready=address.set_result)
