"""The wire `sse` keeps the contract, and the rules of the old transport."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable

import aiohttp
import anyio
import pytest
from aiohttp import web

from tests.limits import HANG_S
from toolgate.errors import ConnectionLostError, InvalidAnswerError, UnreachableError
from toolgate.testing.contracts.upstream import (
    MAX_MESSAGE_BYTES,
    MakeWire,
    TextWireContract,
    WireRecorder,
)
from toolgate.testing.echo_server import EchoServer, serve_sse
from toolgate.testing.web_server import serve_application
from toolgate.types import Json
from toolgate.upstream import Wire
from toolgate.upstream.transports.sse import Options, SseWire, build


def wire_to(http: aiohttp.ClientSession, url: str, **headers: str) -> SseWire:
    return build(Options(url=url, headers=headers), http=http, max_message_bytes=MAX_MESSAGE_BYTES)


class TestSse(TextWireContract):
    """All duties of a wire."""

    @pytest.fixture
    async def make_wire(self, http: aiohttp.ClientSession) -> AsyncGenerator[MakeWire]:
        async with serve_sse(EchoServer()) as address:
            yield lambda: wire_to(http, address)

    @pytest.fixture
    def unreachable_wire(self, http: aiohttp.ClientSession) -> Wire:
        return wire_to(http, "http://127.0.0.1:9/sse")


class Scripted:
    """A server whose stream and whose answers to messages a test says."""

    def __init__(self) -> None:
        self.first = b"event: endpoint\ndata: /post?s=1\n\n"
        self.post: Callable[[web.Request], Awaitable[web.Response]] = self.accept
        self.content_type = "text/event-stream"
        self.status = 200
        self.ended = anyio.Event()
        self.later: asyncio.Queue[bytes] = asyncio.Queue()
        self.address = ""

    async def get(self, request: web.Request) -> web.StreamResponse:
        headers = {"content-type": self.content_type}
        response = web.StreamResponse(status=self.status, headers=headers)
        await response.prepare(request)
        await response.write(self.first)
        while self.content_type == "text/event-stream" and (part := await self.later.get()):
            await response.write(part)
        return response

    async def take(self, request: web.Request) -> web.StreamResponse:
        return await self.post(request)

    async def accept(self, request: web.Request) -> web.Response:
        message = json.loads(await request.read())
        result = {"jsonrpc": "2.0", "id": message.get("id"), "result": {"fine": True}}
        self.later.put_nowait(f"data: {json.dumps(result)}\n\n".encode())
        return web.Response(status=202)


@pytest.fixture
async def server() -> AsyncGenerator[Scripted]:
    scripted = Scripted()
    app = web.Application()
    app.router.add_get("/sse", scripted.get)
    app.router.add_post("/post", scripted.take)
    async with serve_application(app) as scripted.address:
        yield scripted


@pytest.fixture
async def wire(server: Scripted, http: aiohttp.ClientSession) -> AsyncGenerator[SseWire]:
    wire = wire_to(http, f"{server.address}/sse")
    yield wire
    await wire.aclose()


async def ask(wire: Wire) -> Json:
    with anyio.fail_after(HANG_S):
        return await wire.request("any", {}, headers={})


async def say(status: int, text: str = "") -> web.Response:
    return web.Response(status=status, text=text)


@pytest.mark.parametrize(
    "place",
    ["http://127.0.0.1:1/post", "//other.example/post", "https://127.0.0.1/post", "http://["],
)
async def test_messages_go_to_no_other_origin(server: Scripted, wire: SseWire, place: str) -> None:
    """Configured credentials stay where they belong."""
    server.first = f"event: endpoint\ndata: {place}\n\n".encode()

    with pytest.raises(UnreachableError, match="another origin"), anyio.fail_after(HANG_S):
        await wire.open(WireRecorder())


async def test_a_server_that_never_names_its_address_is_given_up_by_the_caller(
    server: Scripted, wire: SseWire
) -> None:
    """The wire has no deadline of its own and leaves nothing behind."""
    server.first = b": nothing\n\n"

    with anyio.move_on_after(0.1) as scope:
        await wire.open(WireRecorder())

    assert scope.cancelled_caught


async def test_a_stream_that_ends_before_it_began_says_so(server: Scripted, wire: SseWire) -> None:
    server.first = b": nothing\n\n"
    server.later.put_nowait(b"")

    with pytest.raises(UnreachableError, match="closed the stream"), anyio.fail_after(HANG_S):
        await wire.open(WireRecorder())


async def test_what_is_no_stream_of_events_says_what_it_is(server: Scripted, wire: SseWire) -> None:
    server.content_type = "text/html"

    with pytest.raises(UnreachableError, match="answered 200 with text/html instead of a stream"):
        await wire.open(WireRecorder())


async def test_a_refused_stream_says_why(server: Scripted, wire: SseWire) -> None:
    server.status, server.content_type, server.first = 401, "text/plain", b"who are you"

    with pytest.raises(UnreachableError, match="answered 401 Unauthorized: who are you"):
        await wire.open(WireRecorder())


@pytest.mark.parametrize(("status", "sent"), [(404, False), (410, False), (500, True)])
async def test_a_message_that_fails_ends_the_connection(
    server: Scripted, wire: SseWire, status: int, sent: bool
) -> None:
    """The server has forgotten the stream, whatever comes on it."""
    await wire.open(WireRecorder())
    server.post = lambda _: say(status, "Could not find session")

    with pytest.raises(ConnectionLostError) as caught:
        await ask(wire)

    assert (caught.value.sent, caught.value.expired) == (sent, not sent)
    assert "Could not find session" in await wire.closed()


async def test_a_message_that_is_refused_for_itself_fails_alone(
    server: Scripted, wire: SseWire
) -> None:
    await wire.open(WireRecorder())
    server.post = lambda _: say(413, "too much")

    with pytest.raises(InvalidAnswerError, match="413"):
        await ask(wire)

    server.post = server.accept
    # Its request is the second one of this wire, and the server answers with the id it got.
    assert await ask(wire) == {"fine": True}


async def test_an_answer_may_come_before_its_message_was_acknowledged(
    server: Scripted, wire: SseWire
) -> None:
    """Some servers end the POST when all work is done."""
    done = anyio.Event()

    async def answer_first(request: web.Request) -> web.Response:
        response = await server.accept(request)
        await done.wait()
        return response

    server.post = answer_first
    await wire.open(WireRecorder())

    assert await ask(wire) == {"fine": True}
    done.set()


async def test_a_lost_stream_ends_the_connection(server: Scripted, wire: SseWire) -> None:
    await wire.open(WireRecorder())
    server.later.put_nowait(b"")

    with anyio.fail_after(HANG_S):
        assert await wire.closed() == "The server closed the stream of events."
    with pytest.raises(ConnectionLostError) as caught:
        await ask(wire)
    assert caught.value.sent is False
