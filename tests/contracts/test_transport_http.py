"""The wire `http` keeps the contract, and the protocol's rules for streamable HTTP."""

import base64
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import aiohttp
import anyio
import pytest
from aiohttp import web

from tests.limits import HANG_S
from toolgate.errors import (
    ConnectionLostError,
    InvalidAnswerError,
    OptionError,
    RpcError,
    UnreachableError,
)
from toolgate.testing.contracts.upstream import (
    MAX_MESSAGE_BYTES,
    MakeWire,
    TextWireContract,
    WireRecorder,
    greet,
)
from toolgate.testing.echo_server import EchoServer, serve_http
from toolgate.testing.web_server import serve_application
from toolgate.types import LEGACY_VERSION, MODERN_VERSION, Json
from toolgate.upstream import Wire
from toolgate.upstream.transports.http import HttpWire, Options, build


def wire_to(http: aiohttp.ClientSession, url: str, **headers: str) -> HttpWire:
    return build(Options(url=url, headers=headers), http=http, max_message_bytes=MAX_MESSAGE_BYTES)


class TestHttp(TextWireContract):
    """All duties of a wire."""

    @pytest.fixture
    async def make_wire(self, http: aiohttp.ClientSession) -> AsyncGenerator[MakeWire]:
        async with serve_http(EchoServer()) as address:
            yield lambda: wire_to(http, address)

    @pytest.fixture
    def unreachable_wire(self, http: aiohttp.ClientSession) -> Wire:
        return wire_to(http, "http://127.0.0.1:9/mcp")


MODERN = {"mcp-protocol-version": MODERN_VERSION}
OLD = {"mcp-protocol-version": LEGACY_VERSION}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Scripted:
    """A server that answers as a test says, and remembers what came."""

    def __init__(self) -> None:
        self.seen: list[web.Request] = []
        self.bodies: list[Json] = []
        self.peers: set[object] = set()
        self.heard = anyio.Event()
        self.post: Handler = self.answer
        self.get: Handler = self.refuse
        self.address = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        self.peers.add(request.transport.get_extra_info("peername"))
        self.seen.append(request)
        body = await request.read()
        self.bodies.append(json.loads(body) if body else {})
        self.heard.set()
        self.heard = anyio.Event()
        handler = {"POST": self.post, "GET": self.get}.get(request.method, self.accept)
        return await handler(request)

    async def wait_for(self, count: int) -> None:
        with anyio.fail_after(HANG_S):
            while len(self.seen) < count:
                await self.heard.wait()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        message = json.loads(await request.read())
        if "id" not in message or "method" not in message:
            return web.Response(status=202)
        result = {"method": message["method"], "protocolVersion": LEGACY_VERSION}
        headers = {"mcp-session-id": "s1"} if message["method"] == "initialize" else {}
        return web.json_response(
            {"jsonrpc": "2.0", "id": message["id"], "result": result}, headers=headers
        )

    async def refuse(self, request: web.Request) -> web.StreamResponse:
        return web.Response(status=405)

    async def accept(self, request: web.Request) -> web.StreamResponse:
        return web.Response()


async def stream(request: web.Request, *parts: str) -> web.StreamResponse:
    """A stream of events; a request's own id stands for `{id}`."""
    body = await request.read()
    call_id = str(json.loads(body)["id"]) if body else "1"
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for part in parts:
        await response.write(part.replace("{id}", call_id).encode())
    return response


RESULT = 'data: {"jsonrpc":"2.0","id":{id},"result":{"fine":true}}\n\n'


@pytest.fixture
async def server() -> AsyncGenerator[Scripted]:
    scripted = Scripted()
    app = web.Application()
    app.router.add_route("*", "/{any:.*}", scripted.handle)
    async with serve_application(app) as scripted.address:
        yield scripted


@pytest.fixture
def recorder() -> WireRecorder:
    return WireRecorder()


@pytest.fixture
async def wire(
    server: Scripted, http: aiohttp.ClientSession, recorder: WireRecorder
) -> AsyncGenerator[HttpWire]:
    wire = wire_to(http, f"{server.address}/mcp?token=secret", **{"X-Team": "ünit"})
    await wire.open(recorder)
    yield wire
    await wire.aclose()


async def ask(wire: Wire, headers: dict[str, str] = OLD, **options: Any) -> Json:
    with anyio.fail_after(HANG_S):
        return await wire.request("any", {}, headers=headers, **options)


async def test_a_cancelled_modern_request_closes_its_stream_and_posts_nothing(
    http: aiohttp.ClientSession, recorder: WireRecorder
) -> None:
    """https://modelcontextprotocol.io/specification/2026-07-28/basic/utilities/cancellation"""
    echo = EchoServer()
    async with serve_http(echo) as address:
        wire = wire_to(http, address)
        await wire.open(recorder)
        slow: Json = {"name": "slow", "arguments": {"seconds": 60}}
        when: Json = {"name": "when", "arguments": {"what": "started", "times": 1}}
        with anyio.fail_after(HANG_S):
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: wire.request("tools/call", slow, headers=MODERN))
                await wire.request("tools/call", when, headers=MODERN)
                group.cancel_scope.cancel()
            when["arguments"]["what"] = "cancelled"
            await wire.request("tools/call", when, headers=MODERN)
        await wire.aclose()

    assert echo.counts["notifications/cancelled"] == 0


async def test_the_session_goes_with_every_request_and_is_deleted_at_the_end(
    server: Scripted, wire: HttpWire
) -> None:
    await greet(wire)
    await server.wait_for(3)
    await ask(wire)
    await wire.aclose()

    sessions = [(seen.method, seen.headers.get("mcp-session-id")) for seen in server.seen]
    assert sessions[0] == ("POST", None)
    assert set(sessions[1:]) == {("POST", "s1"), ("GET", "s1"), ("DELETE", "s1")}
    assert sessions[-1] == ("DELETE", "s1")


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (404, "Not Found"),
        (404, '{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Session not found"}}'),
        (400, '{"jsonrpc":"2.0","error":{"code":-32000,"message":"No valid session ID provided"}}'),
    ],
)
async def test_a_forgotten_session_is_told_as_such_and_ends_the_wire(
    server: Scripted, wire: HttpWire, status: int, text: str
) -> None:
    """The request did not run, so it can be sent again in a new session."""
    await greet(wire)
    server.post = lambda _: completed(web.Response(status=status, text=text))

    with pytest.raises(ConnectionLostError) as caught:
        await ask(wire)

    assert (caught.value.sent, caught.value.expired) == (False, True)
    assert await wire.closed() == "The server no longer knows the session."
    await wire.aclose()
    assert "DELETE" not in {seen.method for seen in server.seen}


async def completed(response: web.StreamResponse) -> web.StreamResponse:
    return response


async def test_an_unknown_method_of_a_session_is_no_forgotten_session(
    server: Scripted, wire: HttpWire
) -> None:
    await greet(wire)
    error = {"jsonrpc": "2.0", "id": 2, "error": {"code": -32601, "message": "Method not found"}}
    server.post = lambda _: completed(web.json_response(error, status=404))

    with pytest.raises(RpcError) as caught:
        await ask(wire)

    assert caught.value.rpc_code == -32601


async def test_configured_headers_go_with_every_request(server: Scripted, wire: HttpWire) -> None:
    await greet(wire)
    await server.wait_for(3)
    await wire.aclose()

    assert {seen.headers["x-team"] for seen in server.seen} == {"ünit"}
    assert all(seen.headers["user-agent"].startswith("toolgate/") for seen in server.seen)


@pytest.mark.parametrize("value", ["ünï", " edge", "line\nend", "", "a\0b"])
async def test_values_that_http_cannot_carry_are_encoded(
    server: Scripted, wire: HttpWire, value: str
) -> None:
    """https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#value-encoding"""
    await ask(wire, {**MODERN, "mcp-name": value})

    sent = server.seen[0].headers["mcp-name"]
    if sent.startswith("=?base64?"):
        sent = base64.b64decode(sent.removeprefix("=?base64?").removesuffix("?=")).decode()
    assert sent == value


async def test_a_redirect_within_the_origin_is_followed_once_and_remembered(
    server: Scripted, wire: HttpWire
) -> None:
    """Frameworks send `/mcp` to `/mcp/`."""

    async def redirect(request: web.Request) -> web.StreamResponse:
        if request.path == "/mcp":
            return web.Response(status=307, headers={"location": "/mcp/"})
        return await server.answer(request)

    server.post = redirect

    await ask(wire)
    await ask(wire)

    assert [seen.path for seen in server.seen] == ["/mcp", "/mcp/", "/mcp/"]
    assert all(body["method"] == "any" for body in server.bodies)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("http://127.0.0.1:1/mcp", "redirects to another one, http://127.0.0.1:1"),
        ("/mcp?token=secret", "redirects in a loop"),
    ],
)
async def test_no_other_redirect_is_followed(
    server: Scripted, wire: HttpWire, place: str, message: str
) -> None:
    """Credentials stay where they were configured for."""
    server.post = lambda _: completed(web.Response(status=307, headers={"location": place}))

    with pytest.raises(UnreachableError, match=message):
        await ask(wire)


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        (401, UnreachableError, "answered 401 Unauthorized: why not"),
        (403, UnreachableError, "answered 403 Forbidden: why not"),
        (429, UnreachableError, "answered 429 Too Many Requests: why not"),
        (503, UnreachableError, "answered 503 Service Unavailable: why not"),
        (502, ConnectionLostError, "answered 502 Bad Gateway: why not"),
        (500, InvalidAnswerError, "answered 500 Internal Server Error: why not"),
        (404, InvalidAnswerError, "answered 404 Not Found: why not"),
        (299, InvalidAnswerError, "answered 299 with text/plain instead of a message: why not"),
        (499, InvalidAnswerError, "answered 499: why not"),
    ],
)
async def test_a_refusal_says_what_came_and_no_secret(
    server: Scripted, wire: HttpWire, status: int, error: type[Exception], message: str
) -> None:
    server.post = lambda _: completed(web.Response(status=status, text="why\nnot " + "x" * 500))

    with pytest.raises(error) as caught:
        await ask(wire)

    assert f"The server at {server.address}/mcp {message}" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("status", [400, 404, 500])
async def test_an_error_of_the_protocol_with_an_error_status_keeps_its_code(
    server: Scripted, wire: HttpWire, status: int
) -> None:
    """Modern servers answer so; the era probe needs the code."""
    error = {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}}
    body = {"jsonrpc": "2.0", "id": None, "error": error}
    server.post = lambda _: completed(web.json_response(body, status=status))

    with pytest.raises(RpcError) as caught:
        await ask(wire, MODERN)

    assert (caught.value.rpc_code, caught.value.data) == (-32022, {"supported": ["2026-07-28"]})


@pytest.mark.parametrize(
    "response",
    [
        lambda: web.Response(status=202),
        lambda: web.Response(text="<html>", content_type="text/html"),
        lambda: web.json_response({"jsonrpc": "2.0", "id": 77, "result": {}}),
        lambda: web.json_response({"jsonrpc": "2.0", "method": "notifications/x"}),
        lambda: web.json_response([]),
        lambda: web.Response(body=b"", content_type="application/json"),
    ],
    ids=["accepted", "html", "other id", "notification", "nothing", "empty"],
)
async def test_a_response_without_the_answer_is_an_invalid_answer(
    server: Scripted, wire: HttpWire, response: Callable[[], web.Response]
) -> None:
    server.post = lambda _: completed(response())

    with pytest.raises(InvalidAnswerError):
        await ask(wire)


async def test_a_broken_stream_is_continued_where_the_server_can(
    server: Scripted, wire: HttpWire, recorder: WireRecorder
) -> None:
    """SEP-1699: the server ends the stream early and says when to come back."""
    server.post = lambda request: stream(
        request,
        "id: e1\nretry: 1\ndata:\n\n",
        'id: e2\ndata: {"jsonrpc":"2.0","method":"notifications/message","params":{"n":1}}\n\n',
    )
    continuations = [
        ['id: e3\ndata: {"jsonrpc":"2.0","method":"notifications/message","params":{"n":2}}\n\n'],
        [": nothing new\n\n"],
        [RESULT],
    ]
    server.get = lambda request: stream(request, *continuations.pop(0))

    answer = await ask(wire, sink=recorder)

    assert answer == {"fine": True}
    assert [params["n"] for _, params in recorder.seen] == [1, 2]
    assert [seen.headers.get("last-event-id") for seen in server.seen] == [None, "e2", "e3", "e3"]
    assert {seen.headers["mcp-protocol-version"] for seen in server.seen} == {LEGACY_VERSION}


async def test_a_stream_that_brings_nothing_new_is_given_up(
    server: Scripted, wire: HttpWire
) -> None:
    server.post = lambda request: stream(request, "id: e1\nretry: 1\n\n")
    server.get = lambda request: stream(request)

    with pytest.raises(ConnectionLostError) as caught:
        await ask(wire)

    assert caught.value.sent
    assert len(server.seen) == 6


@pytest.mark.parametrize(
    ("headers", "part"), [(OLD, ": no id\n\n"), (MODERN, "id: e1\nretry: 1\n\n")]
)
async def test_a_broken_stream_that_cannot_be_continued_fails_its_request_alone(
    server: Scripted, wire: HttpWire, headers: dict[str, str], part: str
) -> None:
    """The modern era has no resumption."""
    server.post = lambda request: stream(request, part)

    with pytest.raises(ConnectionLostError) as caught:
        await ask(wire, headers)

    assert caught.value.sent
    server.post = server.answer
    assert (await ask(wire, headers))["method"] == "any"


async def test_a_body_that_breaks_off_fails_its_request(server: Scripted, wire: HttpWire) -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        headers = {"content-type": "application/json", "content-length": "1000"}
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        await response.write(b'{"jsonrpc":"2.0",')
        assert request.transport is not None
        request.transport.close()
        return response

    server.post = cut

    with pytest.raises(ConnectionLostError) as caught:
        await ask(wire)

    assert caught.value.sent


async def test_what_the_server_says_unasked_arrives_for_as_long_as_the_session_lives(
    server: Scripted, wire: HttpWire, recorder: WireRecorder
) -> None:
    """And a question there gets its answer, with the session."""
    recorder.answers["roots/list"] = {"roots": []}
    parts = [
        [
            "id: g1\nretry: 1\n"
            'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n'
        ],
        ['data: {"jsonrpc":"2.0","id":"q","method":"roots/list"}\n\n'],
    ]

    async def get(request: web.Request) -> web.StreamResponse:
        if not parts:
            await anyio.sleep_forever()
        return await stream(request, *parts.pop(0))

    server.get = get
    with anyio.fail_after(HANG_S):
        await greet(wire)
        while not any(body.get("id") == "q" for body in server.bodies):
            await server.heard.wait()

    assert recorder.seen[0] == ("notifications/tools/list_changed", {})
    places = [seen.headers.get("last-event-id") for seen in server.seen if seen.method == "GET"]
    assert places[:2] == [None, "g1"]
    answer = next(body for body in server.bodies if body.get("id") == "q")
    assert answer == {"jsonrpc": "2.0", "id": "q", "result": {"roots": []}}
    sent = server.seen[server.bodies.index(answer)]
    assert sent.headers["mcp-session-id"] == "s1"
    assert sent.headers["mcp-protocol-version"] == LEGACY_VERSION


async def test_a_session_that_is_gone_while_nobody_asks_ends_the_wire(
    server: Scripted, wire: HttpWire
) -> None:
    """So a restarted server is greeted again before a client meets it."""
    server.get = lambda _: completed(web.Response(status=404))

    with anyio.fail_after(HANG_S):
        await greet(wire)
        assert await wire.closed() == "The server no longer knows the session."


async def test_a_question_on_a_requests_own_stream_is_for_its_sink(
    server: Scripted, wire: HttpWire, recorder: WireRecorder
) -> None:
    recorder.answers["elicitation/create"] = {"action": "decline"}
    answered = anyio.Event()

    async def post(request: web.Request) -> web.StreamResponse:
        message = json.loads(await request.read())
        if message.get("id") == "q":
            answered.set()
            return web.Response(status=202)
        question = '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"x":1}}'
        response = await stream(request, f"data: {question}\n\n")
        await answered.wait()
        await response.write(RESULT.replace("{id}", str(message["id"])).encode())
        return response

    server.post = post

    await ask(wire, sink=recorder)

    assert recorder.seen == [("elicitation/create", {"x": 1})]
    assert server.bodies[1]["result"] == {"action": "decline"}


async def test_a_result_does_not_wait_for_a_question_that_nobody_answered(
    server: Scripted, wire: HttpWire
) -> None:
    """The server has given its question up."""
    asked, left = anyio.Event(), anyio.Event()

    class Slow(WireRecorder):
        async def ask(self, method: str, params: Json) -> Json:
            asked.set()
            try:
                await anyio.sleep_forever()
            finally:
                left.set()
            return {}

    async def post(request: web.Request) -> web.StreamResponse:
        question = 'data: {"jsonrpc":"2.0","id":"q","method":"elicitation/create"}\n\n'
        response = await stream(request, question)
        await asked.wait()
        await response.write(RESULT.replace("{id}", "1").encode())
        return response

    server.post = post

    assert await ask(wire, sink=Slow()) == {"fine": True}
    with anyio.fail_after(HANG_S):
        await left.wait()


async def test_connections_are_used_again_after_answers_of_both_kinds(
    server: Scripted, wire: HttpWire
) -> None:
    for number in range(6):
        server.post = server.answer if number % 2 else lambda request: stream(request, RESULT)
        await ask(wire)

    assert len(server.peers) <= 2  # a stream may still be ending when the next request starts


async def test_an_event_of_many_megabytes_arrives(server: Scripted, wire: HttpWire) -> None:
    """The library's own client refuses more than 1 MiB."""
    big = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"text": "x" * 5_000_000}})
    server.post = lambda request: stream(request, f"data: {big}\n\n")

    assert len((await ask(wire))["text"]) == 5_000_000


async def test_where_nobody_listens_the_wire_ends_with_the_reason(
    http: aiohttp.ClientSession, recorder: WireRecorder
) -> None:
    wire = wire_to(http, "http://127.0.0.1:9/mcp")
    await wire.open(recorder)

    with pytest.raises(ConnectionLostError) as caught:
        await ask(wire)

    assert caught.value.sent is False
    assert await wire.closed() == "No connection to http://127.0.0.1:9/mcp: Connection refused."
    await wire.aclose()


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        ("ftp://host/x", {}),
        ("no address", {}),
        ("http://", {}),
        ("http://[::1", {}),
        ("http://host", {"a b": "c"}),
        ("http://host", {"Content-Length": "3"}),
        ("http://host", {"a": "b\r\nc: d"}),
    ],
)
def test_addresses_and_headers_that_cannot_be_used_are_refused(
    url: str, headers: dict[str, str]
) -> None:
    with pytest.raises(OptionError):
        Options(url=url, headers=headers)
