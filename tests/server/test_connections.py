"""Clients that hold connections open, as many and as slowly as they can."""

import asyncio
import gc
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import anyio
import orjson
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from tests.limits import HANG_S
from tests.server.http_gateway import ListeningGateway, headers_for, listening, modern, post
from toolgate.server import connections
from toolgate.server.asgi.parsing import http_parser
from toolgate.server.connections import ClientConnections, ConnectionLimits

HALF = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100"


class Client:
    """A connection whose bytes are sent by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def rest(self) -> bytes:
        """What comes until the server closes."""
        with anyio.fail_after(HANG_S):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""


@asynccontextmanager
async def clients(
    place: ListeningGateway, count: int, sent: bytes = HALF
) -> AsyncIterator[list[Client]]:
    """ClientConnections over which the same bytes were sent."""
    opened: list[Client] = []
    try:
        for _ in range(count):
            client = Client(*await asyncio.open_connection("127.0.0.1", urlsplit(place.url).port))
            opened.append(client)
            client.writer.write(sent)
        yield opened
    finally:
        for client in opened:
            client.writer.transport.abort()


async def status_of(url: str) -> int:
    async with aiohttp.ClientSession() as http, http.get(url) as response:
        return response.status


async def test_many_half_sent_requests_leave_room_for_others() -> None:
    async with (
        listening(max_connections=40, max_connections_per_address=20) as place,
        clients(place, 150) as held,
    ):
        assert await status_of(f"{place.url}/healthz") == 200
        answer = await post(place.url, modern("tools/list"))
        assert answer.status == 200
        # The first had waited longest, and made room.
        assert [await client.rest() for client in held[:100]] == [b""] * 100


async def test_a_burst_of_half_sent_requests_leaves_room_for_others() -> None:
    """All wait to be accepted at the same time, more than may be open."""
    async with listening(max_connections=40, max_connections_per_address=20) as place:
        door = ("127.0.0.1", urlsplit(place.url).port)
        held = [socket.create_connection(door) for _ in range(300)]  # the gateway stands still
        for client in held:
            client.sendall(HALF)
        try:
            for path in ("/healthz", "/readyz", "/api/v1/servers"):
                assert await status_of(f"{place.url}{path}") == 200
            answer = await post(place.url, modern("tools/list"))
        finally:
            for client in held:
                client.close()

    assert answer.status == 200


async def test_above_the_limit_of_all_only_health_checks_are_answered() -> None:
    """ClientConnections with a running request never make room."""
    call = modern("tools/call", {"name": "slow", "arguments": {}})
    body = orjson.dumps(call)
    headers = {"Host": "127.0.0.1", "Content-Length": str(len(body)), **headers_for(call)}
    lines = ["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    request = "\r\n".join([*lines, "", ""]).encode() + body
    async with listening(max_connections=16) as place, clients(place, 16, request):
        with anyio.fail_after(HANG_S):
            while len(place.gateway.received) < 16:
                await anyio.sleep(0.01)

        assert await status_of(f"{place.url}/healthz") == 200
        assert await status_of(f"{place.url}/api/v1/servers") == 503
        place.gateway.release.set()


async def test_a_head_that_does_not_end_is_timed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_parser, "HEAD_TIMEOUT_S", 0.2)
    monkeypatch.setattr(connections, "_SWEEP_S", 0.05)
    async with (
        listening() as place,
        clients(place, 1) as [begun],
        clients(place, 1, b"") as [silent],
    ):
        assert (await begun.rest()).startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert await silent.rest() == b""


@pytest.mark.parametrize("start", [b"", b'{"jsonrpc": "2.0", "id": 1, '])
async def test_a_body_that_trickles_is_timed_out(
    start: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_parser, "BODY_WINDOW_S", 0.2)
    monkeypatch.setattr(connections, "_SWEEP_S", 0.05)
    head = HALF + b"0\r\nContent-Type: application/json\r\n\r\n"
    async with listening() as place, clients(place, 1, head + start) as [client]:
        assert (await client.rest()).startswith(b"HTTP/1.1 408 Request Timeout\r\n")


async def test_a_body_without_an_end_is_not_read_for_long_after_its_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It comes fast enough, but nobody needs it any more."""
    monkeypatch.setattr(http_parser, "BODY_WINDOW_S", 0.2)
    monkeypatch.setattr(http_parser, "MIN_BODY_BYTES_PER_S", 0)
    monkeypatch.setattr(connections, "_SWEEP_S", 0.05)
    head = b"POST /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with listening() as place, clients(place, 1, head) as [client]:
        with anyio.fail_after(HANG_S):
            answer = await client.reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 404 ")
            while not client.reader.at_eof():
                try:
                    await client.send(b"400\r\n" + b"a" * 1024 + b"\r\n")
                    answer += await asyncio.wait_for(client.reader.read(2**16), 0.01)
                except TimeoutError:
                    continue
                except ConnectionError:
                    break
    assert answer.count(b"HTTP/1.1") == 1, "one request, one answer"


async def test_a_slow_answer_is_not_timed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the client's own slowness counts."""
    for name in ("HEAD_TIMEOUT_S", "BODY_WINDOW_S"):
        monkeypatch.setattr(http_parser, name, 0.05)
    monkeypatch.setattr(connections, "_SWEEP_S", 0.01)
    async with listening() as place:
        answers: list[Any] = []

        async def call() -> None:
            answers.append(
                await post(place.url, modern("tools/call", {"name": "slow", "arguments": {}}))
            )

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            with anyio.fail_after(HANG_S):
                await place.gateway.started.wait()
            await anyio.sleep(0.2)  # several times what a client would have
            place.gateway.release.set()

    assert answers[0].status == 200


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"204"),
        (b"GET * HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 1_001 + b"\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nA: " + b"b" * 300_000 + b"\r\n\r\n", b"400"),
        (b"GET /" + b"b" * 300_000 + b" HTTP/1.1\r\n\r\n", b"400"),
    ],
    ids=["options", "star", "many headers", "long header", "long address"],
)
async def test_odd_heads_get_an_answer(request_bytes: bytes, status: bytes) -> None:
    async with listening() as place, clients(place, 1, request_bytes) as [client]:
        with anyio.fail_after(HANG_S):
            assert (await client.reader.readline()).split()[1] == status


async def test_a_thousand_offers_of_another_protocol_in_a_row_are_answered() -> None:
    offer = (
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    )
    async with listening() as place, clients(place, 1, offer * 1_000) as [client]:
        for _ in range(1_000):
            with anyio.fail_after(HANG_S):
                head = await client.reader.readuntil(b"\r\n\r\n")
                assert head.split()[1] == b"200"
                await client.reader.readuntil(b"}")


def kept_requests() -> list[RequestResponseCycle]:
    """All requests of this process whose heads were parsed."""
    return [each for each in gc.get_objects() if isinstance(each, RequestResponseCycle)]


async def test_requests_sent_ahead_are_read_when_their_turn_comes() -> None:
    """Regression: each was kept in memory as 2 KB or more, of a hundred clients 1 GB in all."""
    call = modern("tools/call", {"name": "slow", "arguments": {}})
    body = orjson.dumps(call)
    lines = [f"{name}: {value}" for name, value in headers_for(call).items()]
    head = ["POST /mcp HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}", *lines]
    slow = "\r\n".join([*head, "", ""]).encode() + body
    before = {id(each) for each in kept_requests()}
    ahead = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 5_000
    async with listening() as place, clients(place, 1, slow + ahead) as [client]:
        with anyio.fail_after(HANG_S):
            await place.gateway.started.wait()
            while client.writer.transport.get_write_buffer_size():
                await status_of(f"{place.url}/healthz")  # the server has its turns
        kept = len({id(each) for each in kept_requests()} - before)
        place.gateway.release.set()
        with anyio.fail_after(HANG_S):
            for _ in range(5_001):
                read = await client.reader.readuntil(b"\r\n\r\n")
                assert read.split()[1] == b"200"
                length = read.lower().partition(b"content-length: ")[2].split()[0]
                await client.reader.readexactly(int(length))

    assert kept < 100


UNREAD = b"GET /console/static/htmx.min.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 400
"""Requests whose answers are more than the system keeps for a client that does not read them."""


def opened(place: ListeningGateway) -> int:
    """Connections that a gateway of this process has."""
    port = urlsplit(place.url).port
    held = psutil.Process().net_connections("tcp")
    return sum(each.laddr.port == port and each.status == "ESTABLISHED" for each in held)


async def test_a_client_that_does_not_read_its_answers_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Regression: a few hundred of them shut everybody else out for as long as they liked."""
    monkeypatch.setattr(http_parser, "BODY_WINDOW_S", 0.2)
    monkeypatch.setattr(connections, "_SWEEP_S", 0.05)
    async with listening() as place, clients(place, 1, UNREAD):
        with anyio.fail_after(HANG_S):
            while not opened(place):
                await anyio.sleep(0.02)
            while opened(place):
                await anyio.sleep(0.02)


async def test_clients_that_do_not_read_their_answers_make_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "_SWEEP_S", 0.05)
    async with listening(max_connections=16) as place, clients(place, 16, UNREAD):
        with anyio.fail_after(HANG_S):
            while opened(place) < 16:
                await anyio.sleep(0.02)
            while await status_of(f"{place.url}/api/v1/servers") != 200:
                await anyio.sleep(0.02)


class Waiting:
    """A connection that waits, or answers."""

    def __init__(self, since: float | None) -> None:
        self.waits_since = since
        self.is_open = True

    def time_out(self, now: float) -> None:
        del now

    def abort(self) -> None:
        self.is_open = False

    def close_after_answer(self) -> None:
        pass


@given(
    events=st.lists(
        st.tuples(st.integers(0, 3), st.none() | st.floats(0, 100), st.booleans()), max_size=80
    )
)
async def test_limits_hold_whoever_comes_and_goes(events: list[tuple[int, Any, bool]]) -> None:
    limits = ConnectionLimits(total=6, per_address=3, is_exempt=lambda address: address == "::3")
    open_connections = ClientConnections(limits)
    made: list[tuple[str, Waiting]] = []
    for host, since, leaves in events:
        address = f"::{host}" if host == 3 else f"10.0.0.{host}"
        if leaves and made:
            _, gone = made.pop(0)
            gone.abort()
            open_connections.remove(gone)
        elif open_connections.admit(address):
            connection = Waiting(since)
            made.append((address, connection))
            open_connections.add(connection, address)
        is_open = [(owner, connection) for owner, connection in made if connection.is_open]
        assert len(open_connections) == len(is_open) <= limits.total + 16
        for number in range(3):
            assert [owner for owner, _ in is_open].count(f"10.0.0.{number}") <= 3 + 16
