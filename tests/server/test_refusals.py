"""Requests that the HTTP door refuses: with words, for the right request, and readably."""

import asyncio
import json
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import anyio
import orjson
import pytest

from tests.limits import HANG_S
from tests.server.fake_gateway import FakeGateway
from tests.server.http_gateway import INITIALIZE, headers_for, listening, modern, post
from toolgate.base.processes.loop_monitor import LoopMonitor

HANDSHAKE = {"MCP-Protocol-Version": "2025-11-25"}
BOTH = "application/json, text/event-stream"


async def open_session(url: str) -> dict[str, str]:
    opened = await post(url, INITIALIZE, {"Content-Type": "application/json"})
    return {"Mcp-Session-Id": opened.headers["Mcp-Session-Id"], **HANDSHAKE}


class LateLoop(LoopMonitor):
    """An event loop that is always five seconds late."""

    @property
    def lag_s(self) -> float:
        return 5.0


async def test_overload_is_refused_early_and_shared_fairly() -> None:
    """Who has most of the running requests waits; another caller is answered."""
    gateway = FakeGateway(loop_monitor=LateLoop())
    running = 32
    async with listening(gateway) as place, anyio.create_task_group() as tasks:

        async def call() -> None:
            await post(place.url, modern("tools/call", {"name": "slow"}))

        for _ in range(running):
            tasks.start_soon(call)
        with anyio.fail_after(HANG_S):
            while len(gateway.received) < running:
                await anyio.sleep(0.01)
        listing = modern("tools/list")
        refused = await post(place.url, listing)
        other = modern("tools/list", clientInfo={"name": "other", "version": "1"})
        answered = await post(place.url, other)
        gateway.release.set()
        assert (refused.status, refused.headers["Retry-After"]) == (503, "5")
        assert refused.error["data"] == {"code": "overloaded", "retryable": True}
        assert "Nothing was sent to a server" in refused.error["message"]
        assert answered.status == 200


async def test_few_requests_are_never_refused_for_overload() -> None:
    async with listening(FakeGateway(loop_monitor=LateLoop())) as place:
        assert (await post(place.url, modern("tools/list"))).status == 200


async def test_rest_requests_are_refused_in_their_form_when_overloaded() -> None:
    gateway = FakeGateway(loop_monitor=LateLoop())
    async with (
        listening(gateway) as place,
        aiohttp.ClientSession() as http,
        anyio.create_task_group() as tasks,
    ):

        async def execute() -> None:
            body = {"toolKey": "slow", "arguments": {}}
            async with http.post(f"{place.url}/api/v1/execute", json=body) as response:
                await response.read()

        for _ in range(32):
            tasks.start_soon(execute)
        with anyio.fail_after(HANG_S):
            while len(gateway.received) < 32:
                await anyio.sleep(0.01)
        async with http.get(f"{place.url}/api/v1/status") as response:
            answer = await response.json()
        gateway.release.set()
        assert (response.status, response.headers["Retry-After"]) == (503, "5")
        assert (answer["error"]["code"], answer["error"]["retryable"]) == ("overloaded", True)


async def test_an_id_that_is_in_use_in_the_session_is_refused() -> None:
    """The first request never ended. For the SDK 1 and "1" are one id."""
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "slow"}}
    async with listening() as place:
        session, other = await open_session(place.url), await open_session(place.url)
        first: list[Any] = []

        async def call() -> None:
            first.append(await post(place.url, request, session))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await place.gateway.started.wait()
            for twin in (1, "1"):
                second = await post(place.url, {**request, "id": twin}, session)
                assert (second.status, second.error["code"]) == (400, -32600)
                assert second.only["id"] == twin
                assert "is still running in this session" in second.error["message"]
            ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            assert (await post(place.url, ping, other)).result == {}
            place.gateway.release.set()
        assert first[0].result["content"][0]["text"] == "done"
        assert (await post(place.url, request, session)).status == 200


@pytest.mark.parametrize("era", ["modern", "handshake"])
@pytest.mark.parametrize(
    ("changed", "status", "words"),
    [
        ({"Accept": "text/html"}, 406, f"The Accept header is 'text/html'. It must allow: {BOTH}"),
        ({"Content-Type": "text/plain"}, 415, "The Content-Type is 'text/plain'. Allowed: app"),
    ],
    ids=["accept", "content type"],
)
async def test_a_refusal_says_what_came_and_what_is_allowed(
    era: str, changed: dict[str, str], status: int, words: str
) -> None:
    message = modern("tools/list", request_id="x")
    async with listening() as place:
        headers = headers_for(message) if era == "modern" else await open_session(place.url)
        answered = await post(place.url, message, {**headers, **changed})
    assert (answered.status, answered.error["code"]) == (status, -32600)
    assert answered.only["id"] == "x"
    assert words in answered.error["message"]


async def test_other_methods_are_refused_in_words() -> None:
    headers = {"MCP-Protocol-Version": "2026-07-28"}
    async with listening() as place, aiohttp.ClientSession() as http:
        async with http.get(f"{place.url}/mcp", headers=headers) as response:
            assert (response.status, response.headers["Allow"]) == (405, "POST")
            assert "GET is not possible here" in (await response.json())["error"]["message"]
        session = await open_session(place.url)
        accept = {"Accept": "application/json"}
        async with http.get(f"{place.url}/mcp", headers={**session, **accept}) as response:
            assert response.status == 406
            words = "It must allow: text/event-stream."
            assert words in (await response.json())["error"]["message"]


@pytest.mark.parametrize("path", ["/mcp", "/api/v1/discover"])
@pytest.mark.parametrize("framing", ["Content-Length: 8000000", "Transfer-Encoding: chunked"])
async def test_a_client_that_sends_all_first_can_read_that_it_was_too_much(
    path: str, framing: str
) -> None:
    """Closing the connection before the body is read makes a reset of the answer."""
    async with listening(max_body_bytes=1000) as place:
        address = urlsplit(place.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{framing}\r\n"
        writer.write(head.encode() + b"Content-Type: application/json\r\n\r\n")
        piece = b"y" * 100_000
        with anyio.fail_after(HANG_S):
            for _ in range(80):
                writer.write(b"186a0\r\n%b\r\n" % piece if "chunked" in framing else piece)
                await writer.drain()
            writer.write(b"0\r\n\r\n" if "chunked" in framing else b"")
            answer = await reader.read()
        writer.close()
    head_bytes, _, body = answer.partition(b"\r\n\r\n")
    assert head_bytes.startswith(b"HTTP/1.1 413")
    assert "1000 bytes" in orjson.loads(body)["error"]["message"]


async def test_a_client_that_asks_before_it_sends_is_told_no() -> None:
    async with listening(max_body_bytes=1000) as place:
        address = urlsplit(place.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(
            b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 8000000\r\n"
            b"Content-Type: application/json\r\nExpect: 100-continue\r\n\r\n"
        )
        with anyio.fail_after(HANG_S):
            answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("request_id", [2**64, -(2**63) - 1, 10**400, True, None, [1], {}])
async def test_an_id_that_not_every_client_can_read_is_refused(request_id: Any) -> None:
    """Source: fuzzing; an answer repeated an id of 400 digits, which orjson cannot read."""
    message = json.dumps({"jsonrpc": "2.0", "id": request_id, "method": "ping"}).encode()
    async with listening() as place:
        answer = await post(place.url, message)
        widest = await post(place.url, modern("tools/list", request_id=2**64 - 1))

    assert (answer.status, answer.only["id"], answer.error["code"]) == (400, None, -32600)
    assert widest.only["id"] == 2**64 - 1


@pytest.mark.parametrize("hosts", [("127.0.0.1", "evil.example"), ("evil.example", "127.0.0.1")])
@pytest.mark.parametrize("path", ["/mcp", "/.well-known/oauth-protected-resource"])
async def test_a_request_with_two_hosts_is_refused(path: str, hosts: tuple[str, str]) -> None:
    """RFC 9112 section 3.2: a proxy may have looked at the other one."""
    async with listening() as place:
        address = urlsplit(place.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        lines = [f"GET {path} HTTP/1.1", *(f"Host: {host}" for host in hosts), "", ""]
        writer.write("\r\n".join(lines).encode())
        with anyio.fail_after(HANG_S):
            status = await reader.readline()
        writer.close()

    assert status.split()[1] == b"400", status
