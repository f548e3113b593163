"""Sessions of the handshake era that clients open and abandon."""

import asyncio
from typing import Any

import aiohttp
import anyio

from tests.limits import HANG_S
from tests.server.http_gateway import listening, post
from toolgate.base.signing import Signer
from toolgate.server.asgi.parsing.messages import Receive, Scope, Send
from toolgate.server.mcp.handshake.sessions import HandshakeSessions, ParkingLimits
from toolgate.types import Json

PLAIN = {"Accept": "application/json, text/event-stream"}
LIMIT = ParkingLimits().max_idle_per_caller


def initialize(**capabilities: Any) -> Json:
    return {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "clientInfo": {"name": "tester", "version": "1"},
        },
    }


async def open_session(url: str, **capabilities: Any) -> dict[str, str]:
    answer = await post(url, initialize(**capabilities), PLAIN)
    headers = PLAIN | {
        "Mcp-Session-Id": answer.headers["Mcp-Session-Id"],
        "MCP-Protocol-Version": "2025-11-25",
    }
    await post(url, {"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)
    return headers


async def ask(url: str, headers: dict[str, str], method: str, **params: Any) -> Any:
    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    return await post(url, message, headers)


async def test_a_session_works_after_many_others_were_opened_and_abandoned() -> None:
    async with listening() as place:
        first = await open_session(place.url)
        for _ in range(LIMIT + 5):
            await open_session(place.url)
        for _ in range(2):
            answer = await ask(place.url, first, "tools/list")
            assert answer.status == 200
            assert answer.result["tools"]
            assert answer.headers.get("Mcp-Session-Id", "") in ("", first["Mcp-Session-Id"])


async def test_a_session_with_large_capabilities_keeps_a_signed_id() -> None:
    async with listening() as place:
        session = await open_session(
            place.url, sampling={"tools": {"x": "y" * 50_000}}, experimental={"z": "y" * 50_000}
        )
        assert 100 < len(session["Mcp-Session-Id"]) < 1_000
        assert (await ask(place.url, session, "tools/list")).status == 200


async def test_an_ended_session_stays_ended() -> None:
    async with listening() as place:
        session = await open_session(place.url)
        async with (
            aiohttp.ClientSession() as http,
            http.delete(f"{place.url}/mcp", headers=session) as response,
        ):
            assert response.status == 200
        assert (await ask(place.url, session, "tools/list")).status == 404


class Sdk:
    """Answers as the SDK does, and counts its sessions."""

    def __init__(self) -> None:
        self.open: set[str] = set()
        self.opened = 0
        self.changed = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sent = dict(scope["headers"]).get(b"mcp-session-id", b"").decode()
        status, headers = 200, list[tuple[bytes, bytes]]()
        if not sent:
            self.opened += 1
            sent = f"sdk-{self.opened}"
            self.open.add(sent)
            headers = [(b"mcp-session-id", sent.encode())]
        elif sent not in self.open:
            status = 404
        elif scope["method"] == "DELETE":
            self.open.discard(sent)
        self.changed.set()
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}"})


class Client:
    """Opens sessions and uses them, as the endpoint does."""

    def __init__(self, sessions: HandshakeSessions, sdk: Sdk) -> None:
        self.sessions, self.sdk = sessions, sdk
        self.session_id = ""

    async def _take(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            for _, value in message["headers"]:
                self.session_id = value.decode()

    async def _receive(self) -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def open(self, caller: str) -> str:
        scope: Scope = {"type": "http", "method": "POST", "headers": []}
        params = initialize()["params"]
        send = self.sessions.assign_id(self._take, params, caller)
        await self.sdk(scope, self._receive, send)
        return self.session_id

    async def use(self, session_id: str, message: Json | None = None, method: str = "POST") -> int:
        headers = [(b"mcp-session-id", session_id.encode())]
        scope: Scope = {"type": "http", "method": method, "headers": headers}
        async with self.sessions.entered(session_id, scope, self._take, message) as send:
            await self.sdk(scope, self._receive, send)
        return self.status


async def until(sdk: Sdk, count: int) -> None:
    with anyio.fail_after(HANG_S):
        while len(sdk.open) > count:
            sdk.changed.clear()
            await sdk.changed.wait()


def client_with(**limits: Any) -> Client:
    sdk = Sdk()
    return Client(HandshakeSessions(Signer(bytes(32)), sdk, limits=ParkingLimits(**limits)), sdk)


async def test_idle_sessions_are_parked_in_time_and_opened_again() -> None:
    client = client_with(after_s=0.01)
    ids = [await client.open("anna") for _ in range(3)]
    await until(client.sdk, 0)
    assert client.sessions.idle_count == 0
    assert [await client.use(session_id) for session_id in ids] == [200, 200, 200]
    await until(client.sdk, 0)


async def test_the_longest_idle_session_is_parked_first() -> None:
    client = client_with(max_idle=2)
    first, second, _ = [await client.open(caller) for caller in ("anna", "ben", "eva")]
    await until(client.sdk, 2)
    assert client.sdk.open == {"sdk-2", "sdk-3"}
    await client.use(second)
    await client.use(first)
    await until(client.sdk, 2)
    assert "sdk-3" not in client.sdk.open
    client.sessions.close()


async def test_a_caller_with_many_sessions_parks_only_its_own() -> None:
    client = client_with(max_idle_per_caller=2)
    await client.open("ben")
    for _ in range(5):
        await client.open("anna")
    await until(client.sdk, 3)
    assert client.sdk.open == {"sdk-1", "sdk-5", "sdk-6"}
    client.sessions.close()


async def test_a_session_with_an_open_stream_is_not_parked() -> None:
    client = client_with(after_s=0.01, max_idle=1, max_idle_per_caller=1)
    streaming = await client.open("anna")
    scope: Scope = {"type": "http", "method": "GET", "headers": []}
    async with client.sessions.entered(streaming, scope, client._take, None):
        for _ in range(3):
            await client.open("anna")
        await until(client.sdk, 1)
        assert client.sdk.open == {"sdk-1"}
    await until(client.sdk, 0)


async def test_level_and_subscriptions_are_told_to_the_session_that_is_opened_again() -> None:
    told: list[str] = []

    class Listening(Sdk):
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            body = (await receive()).get("body", b"")
            told.append(body.decode())
            await super().__call__(scope, receive, send)

    sdk = Listening()
    limits = ParkingLimits(after_s=0.01)
    client = Client(HandshakeSessions(Signer(bytes(32)), sdk, limits=limits), sdk)
    session_id = await client.open("anna")
    for uri in ("a:1", "a:2", "a:1"):
        await client.use(session_id, {"method": "resources/subscribe", "params": {"uri": uri}})
    await client.use(session_id, {"method": "resources/unsubscribe", "params": {"uri": "a:2"}})
    await client.use(session_id, {"method": "logging/setLevel", "params": {"level": "info"}})
    for number in range(200):  # beyond what is kept
        uri = f"b:{number:0200}"
        await client.use(session_id, {"method": "resources/subscribe", "params": {"uri": uri}})
    await until(sdk, 0)
    told.clear()
    assert await client.use(session_id) == 200
    methods = [text for text in told if text]
    assert '"initialize"' in methods[0]
    assert '"notifications/initialized"' in methods[1]
    assert any('"a:1"' in text for text in methods)
    assert not any('"a:2"' in text for text in methods)
    assert any('"info"' in text for text in methods)
    assert sum(len(text) for text in methods) < 10_000
    client.sessions.close()


async def test_messages_that_the_end_of_their_session_overtakes_are_answered() -> None:
    """Found by fuzzing: an internal error, or a stream without an answer, and a traceback."""

    async def end(url: str, session: dict[str, str]) -> None:
        async with (
            aiohttp.ClientSession() as http,
            http.delete(f"{url}/mcp", headers=session) as response,
        ):
            assert response.status in {200, 404}

    async with listening() as place:
        answers: list[Any] = []

        async def send(session: dict[str, str], message: Json) -> None:
            answers.append(await post(place.url, message, session))

        for _ in range(10):
            session = await open_session(place.url)
            async with anyio.create_task_group() as tasks:
                for number in range(6):
                    request = {"jsonrpc": "2.0", "id": number, "method": "tools/list"}
                    tasks.start_soon(send, session, request)
                    response: Json = {"jsonrpc": "2.0", "id": 100 + number, "result": {}}
                    tasks.start_soon(send, session, response)
                    if number == 2:
                        tasks.start_soon(end, place.url, session)

    assert {answer.status for answer in answers} <= {200, 202, 404}
    assert all(answer.messages or answer.status == 202 for answer in answers)
    texts = [answer.error["message"] for answer in answers if answer.status == 404]
    assert set(texts) <= {"Session not found"}
