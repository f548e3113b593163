"""The HTTP door: what it lets in, what it refuses and how, and how it ends."""

import os
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiohttp
import anyio
import orjson
import pytest

from tests.limits import HANG_S
from tests.server.fake_gateway import FakeGateway, fake_app
from tests.server.http_gateway import INITIALIZE, headers_for, listening, modern, post, until
from toolgate.errors import PortTakenError, RpcError
from toolgate.server.asgi.running_requests import RunningRequests
from toolgate.server.http import serve
from toolgate.server.mcp import response_stream
from toolgate.server.mcp.sdk_loader import SdkLoader
from toolgate.types import Json, Peer

HANDSHAKE = {"MCP-Protocol-Version": "2025-11-25"}
MODERN = headers_for(modern("tools/list"))
DEEP = b'{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"x":%s%s}}'

BROKEN = {
    "cut off": (b'{"jsonrpc"', -32700, "no JSON"),
    "nothing": (b"", -32700, "no JSON"),
    "no text": (b'{"x": "\xff"}', -32700, "not UTF-8: byte 7"),
    "not a number": (b'{"x": NaN}', -32700, "NaN"),
    "infinity": (b'{"x": [-Infinity]}', -32700, "-Infinity"),
    "a float out of range": (b'{"x": 1e999}', -32700, "1e999 is too large"),
    "an endless integer": (b'{"x": ' + b"9" * 5000 + b"}", -32600, "more than 1000 digits"),
    "half a surrogate pair": (rb'{"x": "\ud800"}', -32700, "surrogate"),
    "half a pair as a key": (rb'{"\udc00": 1}', -32700, "surrogate"),
    "a bit too deep": (DEEP % (b"[" * 200, b"]" * 200), -32600, "200 levels"),
    "far too deep": (b"[" * 200_000 + b"]" * 200_000, -32600, "200 levels"),
    "a batch": (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, "batches"),
    "a text": (b'"tools/list"', -32600, "one JSON-RPC object"),
    "no version": (b'{"id":1,"method":"ping"}', -32600, "jsonrpc"),
    "an id that is no id": (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, "'id'"),
    "an id of true": (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, "'id'"),
    "an id of null": (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, "'id'"),
    "no method": (b'{"jsonrpc":"2.0","id":1}', -32600, "'method'"),
    "a method that is none": (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600, "'method'"),
    "a result that is no object": (b'{"jsonrpc":"2.0","id":1,"result":""}', -32600, "'result'"),
    "an error without a code": (b'{"jsonrpc":"2.0","id":1,"error":{}}', -32600, "'error'"),
    "a result and an error": (
        b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}',
        -32600,
        "not both",
    ),
    "parameters in a row": (
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}',
        -32600,
        "'params'",
    ),
}


@pytest.mark.parametrize("headers", [MODERN, HANDSHAKE], ids=["modern", "handshake"])
async def test_what_is_no_message_is_answered_with_the_reason(headers: dict[str, str]) -> None:
    async with listening() as place:
        for body, code, words in BROKEN.values():
            answered = await post(place.url, body, headers)
            assert answered.status == 400, answered.body
            assert answered.error["code"] == code, answered.body
            assert words in answered.error["message"], answered.body
            assert len(answered.headers["X-Request-Id"]) == 32
        deep = await post(place.url, BROKEN["a bit too deep"][0], headers)
        assert deep.only["id"] == 7
        assert (await post(place.url, modern("tools/list"))).status == 200


async def test_200_levels_are_accepted_and_arrive() -> None:
    levels: Any = "end"
    for _ in range(195):
        levels = [levels]
    call = {"name": "a__echo", "arguments": {"structured": levels}}
    async with listening() as place:
        answered = await post(place.url, modern("tools/call", call))
    assert answered.result["structuredContent"] == levels


@pytest.mark.parametrize("token", [None, "p"], ids=["in the lane", "through the SDK"])
async def test_integers_of_any_size_stay_exact(token: str | None) -> None:
    """orjson reads an integer beyond 64 bits as a float; the SDK's JSON does not."""
    number = 123456789012345678901234567890
    meta = {"progressToken": token} if token else {}
    call = modern("tools/call", {"name": "a__echo", "arguments": {"structured": 0}, "_meta": meta})
    body = orjson.dumps(call).replace(b'"structured":0', b'"structured":%d' % number)
    async with listening() as place:
        answered = await post(place.url, body, headers_for(call))
        assert place.gateway.received[0][1]["arguments"]["structured"] == number
    assert b"%d" % number in answered.body


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_the_limit_is_refused_and_the_limit_named(chunked: bool) -> None:
    call = modern("tools/call", {"name": "a__echo", "arguments": {"text": "x" * 2000}})
    body = orjson.dumps(call)

    async def in_pieces() -> Any:
        for start in range(0, len(body), 500):
            yield body[start : start + 500]

    async with listening(max_body_bytes=1000) as place, aiohttp.ClientSession() as http:
        data = in_pieces() if chunked else body
        async with http.post(f"{place.url}/mcp", data=data, headers=headers_for(call)) as response:
            assert response.status == 413
            error = (await response.json())["error"]
            assert "1000 bytes (setting serve.max_body_bytes)" in error["message"]
        assert (await post(place.url, modern("tools/list"))).status == 200


async def test_eight_megabytes_of_arguments_arrive() -> None:
    """The SDK's own limit would be 4 MiB."""
    text = "y" * 8_000_000
    call = modern("tools/call", {"name": "a__echo", "arguments": {"text": text}})
    async with listening() as place:
        answered = await post(place.url, call)
    assert answered.result["content"][0]["text"] == text


CALL = modern("tools/call", {"name": "a__echo", "arguments": {"text": "x"}})
REGIONAL = modern("tools/call", {"name": "a__regional", "arguments": {"region": "eu"}})
MISMATCH = {
    "another method": (CALL, {"Mcp-Method": "tools/list"}, ()),
    "another name": (CALL, {"Mcp-Name": "a__regional"}, ()),
    "no name": (CALL, {}, ("Mcp-Name",)),
    "no method": (CALL, {}, ("Mcp-Method",)),
    "an argument that is not mirrored": (REGIONAL, {}, ()),
    "an argument mirrored wrongly": (REGIONAL, {"Mcp-Param-Region": "us"}, ()),
    "a mirrored argument that is not there": (
        modern("tools/call", {"name": "a__regional", "arguments": {}}),
        {"Mcp-Param-Region": "eu"},
        (),
    ),
}


@pytest.mark.parametrize(("message", "changed", "drop"), MISMATCH.values(), ids=MISMATCH)
async def test_headers_that_differ_from_the_body_are_refused(
    message: Any, changed: dict[str, str], drop: tuple[str, ...]
) -> None:
    """https://modelcontextprotocol.io/specification/2026-07-28/basic/transports"""
    async with listening() as place:
        headers = {**headers_for(message), **changed}
        answered = await post(place.url, message, headers, drop=drop)
        assert (answered.status, answered.error["code"]) == (400, -32020)
        assert place.gateway.received == []


async def test_a_mirrored_argument_that_fits_passes() -> None:
    async with listening() as place:
        headers = {**headers_for(REGIONAL), "Mcp-Param-Region": "eu"}
        assert (await post(place.url, REGIONAL, headers)).status == 200


async def test_a_relay_with_the_key_mirrors_nothing() -> None:
    async with listening(key="k1") as place:
        headers = {**headers_for(REGIONAL), "Authorization": "Bearer k1"}
        assert (await post(place.url, REGIONAL, headers)).status == 200
        headers["Authorization"] = "Bearer k2"
        assert (await post(place.url, REGIONAL, headers)).status == 400


async def test_a_name_that_no_header_can_carry_comes_encoded() -> None:
    call = modern("tools/call", {"name": "é"})
    async with listening() as place:
        headers = {**headers_for(call), "Mcp-Name": "=?base64?w6k=?="}
        answered = await post(place.url, call, headers)
    assert "'é'" in answered.error["message"]


async def test_a_server_that_refuses_the_version_of_the_gateway_refuses_no_client() -> None:
    """The error is the server's own: a client would take its code for its own version."""

    class Refused(FakeGateway):
        async def run_a__echo(self, arguments: Json, peer: Peer | None, params: Json) -> Json:
            raise RpcError(-32022, "no such version", {"supported": ["2025-11-25"]})

    call = modern("tools/call", {"name": "a__echo"})
    async with listening(Refused()) as place:
        answered = await post(place.url, call, headers_for(call))
    assert (answered.status, answered.error["code"]) == (200, -31019)
    assert answered.error["message"] == "no such version"
    assert answered.error["data"]["rpc"] == {"code": -32022, "data": {"supported": ["2025-11-25"]}}


async def test_a_capability_that_the_client_lacks_is_told_as_the_server_says_it() -> None:
    """Toolgate declares what its client declares, so this code is meant for the client."""

    class Lacking(FakeGateway):
        async def run_a__echo(self, arguments: Json, peer: Peer | None, params: Json) -> Json:
            raise RpcError(-32021, "sampling is needed", {"requiredCapabilities": {"sampling": {}}})

    call = modern("tools/call", {"name": "a__echo"})
    async with listening(Lacking()) as place:
        answered = await post(place.url, call, headers_for(call))
    assert (answered.status, answered.error["code"]) == (400, -32021)
    assert answered.error["data"] == {"requiredCapabilities": {"sampling": {}}}


async def test_an_unknown_version_is_answered_with_those_that_are_served() -> None:
    call = modern("tools/list", protocolVersion="2030-01-01")
    async with listening() as place:
        headers = {**headers_for(call), "MCP-Protocol-Version": "2030-01-01"}
        answered = await post(place.url, call, headers)
    assert (answered.status, answered.error["code"]) == (400, -32022)
    assert answered.error["data"] == {"supported": ["2026-07-28"], "requested": "2030-01-01"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example.com"}, 421),
        ({"Host": "evil.example.com:7420"}, 421),
        ({"Host": "192.168.1.5:7420"}, 421),
        ({"Origin": "https://evil.example.com"}, 403),
        ({"Origin": "http://localhost.evil.example.com"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "localhost:1"}, 200),
        ({"Host": "[::1]:1"}, 200),
        ({"Origin": "http://localhost:5173"}, 200),
        ({"Host": "gate.example.org:80"}, 200),
        ({"Host": "gate.example.org:443", "Origin": "https://gate.example.org:443"}, 200),
        ({"Origin": "https://app.example.org"}, 200),
    ],
    ids=str,
)
async def test_only_known_hosts_and_origins_get_in(headers: dict[str, str], status: int) -> None:
    """Against DNS rebinding and requests that pages of others send."""
    settings: dict[str, Any] = {
        "allowed_hosts": ("gate.example.org:*",),
        "allowed_origins": ("https://app.example.org",),
    }
    async with listening(**settings) as place, aiohttp.ClientSession() as http:
        message = modern("tools/list")
        assert (
            await post(place.url, message, {**headers_for(message), **headers})
        ).status == status
        async with http.get(f"{place.url}/api/v1/status", headers=headers) as response:
            assert response.status == status


async def test_a_page_that_the_settings_allow_may_read_answers_and_no_other() -> None:
    """A browser asks before it sends JSON to another origin, and hides answers without a word."""
    page = {"Origin": "https://app.example.org"}
    asking = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "mcp-x"}
    message = modern("tools/list")
    settings: dict[str, Any] = {"allowed_origins": ("https://app.example.org",)}
    async with listening(**settings) as place, aiohttp.ClientSession() as http:
        async with http.options(f"{place.url}/mcp", headers={**page, **asking}) as response:
            assert response.status == 204
            assert response.headers["Access-Control-Allow-Origin"] == page["Origin"]
            assert response.headers["Access-Control-Allow-Headers"] == "mcp-x"
        answered = await post(place.url, message, {**headers_for(message), **page})
        assert answered.headers["Access-Control-Allow-Origin"] == page["Origin"]
        assert "Mcp-Session-Id" in answered.headers["Access-Control-Expose-Headers"]
        local = {"Origin": "http://localhost:3000"}
        async with http.options(f"{place.url}/mcp", headers={**local, **asking}) as response:
            assert response.status == 405
            assert "Access-Control-Allow-Origin" not in response.headers


async def test_a_body_that_does_not_say_it_is_json_is_refused() -> None:
    message = modern("tools/list")
    async with listening() as place:
        for kind in ("text/plain", "application/x-www-form-urlencoded"):
            headers = {**headers_for(message), "Content-Type": kind}
            assert (await post(place.url, message, headers)).status == 415


async def test_a_client_that_accepts_no_stream_is_told_so() -> None:
    message = modern("tools/list")
    async with listening() as place:
        headers = {**headers_for(message), "Accept": "application/json"}
        assert (await post(place.url, message, headers)).status == 406


async def test_other_methods_and_places_are_refused() -> None:
    async with listening() as place, aiohttp.ClientSession() as http:
        async with http.get(f"{place.url}/mcp", headers=MODERN) as response:
            assert response.status == 405
        async with http.delete(f"{place.url}/mcp", headers={"Mcp-Session-Id": "x"}) as response:
            assert response.status == 404
        async with http.get(f"{place.url}/elsewhere") as response:
            assert response.status == 404
            assert "/mcp" in (await response.json())["error"]["message"]


async def test_health_and_readiness_need_no_identity() -> None:
    async with listening() as place, aiohttp.ClientSession() as http:
        for path, body in (("healthz", {"status": "ok"}), ("readyz", {"ready": True})):
            async with http.get(f"{place.url}/{path}", headers={"Host": "10.0.0.9"}) as response:
                assert (response.status, await response.json()) == (200, body)


@pytest.mark.parametrize("token", [None, "p"], ids=["in the lane", "through the SDK"])
async def test_a_client_that_leaves_ends_its_call(token: str | None) -> None:
    meta = {"progressToken": token} if token else {}
    async with listening() as place:
        call = modern("tools/call", {"name": "slow", "_meta": meta})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(post, place.url, call)
            await place.gateway.started.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(HANG_S):
            await place.gateway.cancelled.wait()


async def test_a_long_silent_call_shows_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_stream, "WATCH_AFTER_S", 0.001)
    monkeypatch.setattr(response_stream, "STREAM_AFTER_S", 0.01)
    call = modern("tools/call", {"name": "slow"})
    async with (
        listening() as place,
        aiohttp.ClientSession() as http,
        http.post(f"{place.url}/mcp", json=call, headers=headers_for(call)) as response,
    ):
        assert response.content_type == "text/event-stream"
        assert await response.content.readline() == b": ping\r\n"
        place.gateway.release.set()
        rest = await response.read()
    assert b"event: message\r\ndata: {" in rest
    assert b'"done"' in rest


async def test_the_lane_and_the_sdk_answer_alike() -> None:
    """A progress token sends a request through the SDK; nothing else may be different."""
    calls: list[Any] = [
        {"name": "a__echo", "arguments": {"text": "x", "structured": [None, 1, "é"]}},
        {"name": "stamped"},
        {"name": "rpc_error"},
        {"name": "nothing"},
        {"name": 5},
    ]
    async with listening() as place:
        for call in calls:
            short = modern("tools/call", call)
            long = modern("tools/call", {**call, "_meta": {"progressToken": 1}})
            one = await post(place.url, short)
            two = await post(place.url, long)
            for answered in (one, two):
                data = answered.messages[0].get("error", {}).get("data")
                if isinstance(data, dict):
                    data.pop("requestId", None)
            assert (one.status, one.messages) == (two.status, two.messages)
        for method in ("tools/list", "server/discover"):
            one = await post(place.url, modern(method))
            two = await post(place.url, modern(method, {"_meta": {"progressToken": 1}}))
            assert one.messages == two.messages


async def test_the_request_id_of_the_client_is_kept_where_it_is_harmless() -> None:
    message = modern("tools/call", {"name": "nothing"})
    async with listening() as place:
        given = {**headers_for(message), "X-Request-Id": "abc-123"}
        kept = await post(place.url, message, given)
        strange = await post(place.url, message, {**given, "X-Request-Id": "a b;c"})
    assert kept.headers["X-Request-Id"] == kept.error["data"]["requestId"] == "abc-123"
    assert len(strange.headers["X-Request-Id"]) == 32


async def test_a_taken_port_is_named_with_what_to_do() -> None:
    async with listening() as place:
        port = int(place.url.rpartition(":")[2])
        with pytest.raises(PortTakenError) as caught:
            await serve(fake_app(FakeGateway()), port=port)
    assert str(caught.value) == (
        f"Port {port} on 127.0.0.1 is used by another program. Stop it, or choose another port"
        " with --port or serve.port; 0 takes a free one."
    )


async def test_running_calls_end_well_at_shutdown_and_new_ones_are_refused() -> None:
    async with listening() as place:
        slow: list[Any] = []

        async def call() -> None:
            slow.append(await post(place.url, modern("tools/call", {"name": "slow"})))

        async with anyio.create_task_group() as tasks, aiohttp.ClientSession() as http:
            tasks.start_soon(call)
            await place.gateway.started.wait()
            os.kill(os.getpid(), signal.SIGTERM)
            ready: list[int] = []
            while 503 not in ready:
                async with http.get(f"{place.url}/readyz") as response:
                    ready.append(response.status)
            refused = await post(place.url, modern("tools/list"))
            assert (refused.status, refused.error["code"]) == (503, -31040)
            async with http.get(f"{place.url}/api/v1/status") as response:
                assert response.status == 503
            place.gateway.release.set()
            with anyio.fail_after(HANG_S):
                await place.ended.wait()
    assert slow[0].result["content"][0]["text"] == "done"


async def test_open_streams_do_not_delay_the_shutdown() -> None:
    async with listening() as place:
        session = await post(place.url, INITIALIZE, {"Content-Type": "application/json"})
        headers = {"Mcp-Session-Id": session.headers["Mcp-Session-Id"], **HANDSHAKE}
        listen = modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        async with aiohttp.ClientSession() as http:
            accept = {"Accept": "text/event-stream"}
            async with (
                http.post(f"{place.url}/mcp", json=listen, headers=headers_for(listen)) as one,
                http.get(f"{place.url}/mcp", headers={**headers, **accept}) as two,
            ):
                assert b"event" in await one.content.readline()
                os.kill(os.getpid(), signal.SIGTERM)
                assert b'"result"' in await one.content.read()
                await two.content.read()
        with anyio.fail_after(HANG_S):
            await place.ended.wait()


@pytest.mark.parametrize("token", [None, "p"], ids=["in the lane", "through the SDK"])
@pytest.mark.parametrize("signals", [1, 2])
async def test_calls_that_do_not_end_are_ended_and_say_so(token: str | None, signals: int) -> None:
    """After `drain_s`, or at once with a second signal."""
    meta = {"progressToken": token} if token else {}
    async with listening(drain_s=0.05 if signals == 1 else 60.0) as place:
        slow: list[Any] = []

        async def call() -> None:
            message = modern("tools/call", {"name": "slow", "_meta": meta})
            slow.append(await post(place.url, message))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await place.gateway.started.wait()
            for _ in range(signals):
                os.kill(os.getpid(), signal.SIGTERM)
            with anyio.fail_after(HANG_S):
                await place.ended.wait()
        assert place.gateway.cancelled.is_set()
    assert (slow[0].status, slow[0].only["id"]) == (503, 1)
    assert "took effect is unknown" in slow[0].error["message"]


async def test_a_call_of_a_session_that_does_not_end_is_ended() -> None:
    async with listening(drain_s=0.05) as place:
        opened = await post(place.url, INITIALIZE, {"Content-Type": "application/json"})
        session = {"Mcp-Session-Id": opened.headers["Mcp-Session-Id"], **HANDSHAKE}
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "slow"}}

        slow: list[Any] = []

        async def call() -> None:
            slow.append(await post(place.url, request, session))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await place.gateway.started.wait()
            os.kill(os.getpid(), signal.SIGTERM)
            with anyio.fail_after(HANG_S):
                await place.ended.wait()
        assert place.gateway.cancelled.is_set()
    assert slow[0].only["id"] == 1
    assert "took effect is unknown" in slow[0].error["message"]


async def test_a_stream_of_the_lane_ends_with_an_error_at_shutdown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A call that runs for more than 15 s has become a stream, which was cut."""
    monkeypatch.setattr(response_stream, "WATCH_AFTER_S", 0.001)
    monkeypatch.setattr(response_stream, "STREAM_AFTER_S", 0.01)
    call = modern("tools/call", {"name": "slow"}, request_id="s")
    async with (
        listening(drain_s=0.05) as place,
        aiohttp.ClientSession() as http,
        http.post(f"{place.url}/mcp", json=call, headers=headers_for(call)) as response,
    ):
        assert await response.content.readline() == b": ping\r\n"
        os.kill(os.getpid(), signal.SIGTERM)
        with anyio.fail_after(HANG_S):
            events = (await response.read()).split(b"event: message\r\ndata: ")
    answer = orjson.loads(events[-1])
    assert answer["id"] == "s"
    assert answer["error"]["data"]["code"] == "shutting_down"


async def test_a_rest_call_that_does_not_end_is_answered_in_the_form_of_rest() -> None:
    async with listening(drain_s=0.05) as place, aiohttp.ClientSession() as http:
        answers: list[Any] = []

        async def call() -> None:
            body = {"toolKey": "slow", "arguments": {}}
            async with http.post(f"{place.url}/api/v1/execute", json=body) as response:
                answers.append((response.status, (await response.json())["error"]["code"]))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await place.gateway.started.wait()
            os.kill(os.getpid(), signal.SIGTERM)
            with anyio.fail_after(HANG_S):
                await place.ended.wait()
    assert answers == [(503, "shutting_down")]


async def test_a_hangup_reads_the_settings_again() -> None:
    async with listening() as place:
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: place.reloads)
        assert (await post(place.url, modern("tools/list"))).status == 200


async def test_a_session_that_ends_right_after_a_message_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The SDK answers the message, then finds its session gone and answers again."""
    note = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
    async with listening() as place, aiohttp.ClientSession() as http:
        for _ in range(20):
            opened = await post(place.url, INITIALIZE, {"Content-Type": "application/json"})
            session = {"Mcp-Session-Id": opened.headers["Mcp-Session-Id"], **HANDSHAKE}
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(post, place.url, note, session)
                async with http.delete(f"{place.url}/mcp", headers=session) as response:
                    assert response.status == 200
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_gateway_that_was_never_asked_ends_cleanly() -> None:
    gateway = FakeGateway()
    async with listening(gateway) as place:
        os.kill(os.getpid(), signal.SIGTERM)
        with anyio.fail_after(HANG_S):
            await place.ended.wait()
    assert gateway.listeners == []


class OnlyWorker:
    """A worker without others."""

    number = 1

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.retirement = anyio.Event()

    def offer_metrics(self, give: Callable[[], Awaitable[str]]) -> None:
        del give

    async def metrics(self) -> Mapping[int, str]:
        return {}


async def test_a_worker_that_retires_answers_a_request_that_has_arrived_but_not_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    has_arrived, may_start = anyio.Event(), anyio.Event()
    end_streams = SdkLoader.end_streams

    async def wait_to_start(_: RunningRequests) -> None:
        has_arrived.set()
        await may_start.wait()

    def start(loader: SdkLoader) -> None:
        end_streams(loader)
        may_start.set()

    monkeypatch.setattr(RunningRequests, "wait_to_start", wait_to_start)
    monkeypatch.setattr(SdkLoader, "end_streams", start)
    worker = OnlyWorker()
    answers: list[int] = []

    async with (
        listening(worker=worker, drain_s=HANG_S) as place,
        anyio.create_task_group() as tasks,
    ):

        async def ask() -> None:
            answers.append((await post(place.url, modern("tools/list"))).status)

        tasks.start_soon(ask)
        await has_arrived.wait()
        worker.retirement.set()
        await place.ended.wait()

    assert answers == [200]
