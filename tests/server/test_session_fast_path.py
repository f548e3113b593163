"""Plain calls of handshake-era sessions, which are answered without the SDK."""

import asyncio
from typing import Any, Never

import aiohttp
import anyio
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.limits import HANG_S
from tests.server.http_gateway import INITIALIZE, ListeningGateway, listening, post
from toolgate.server.mcp import sdk_loader
from toolgate.types import Json


async def opened(place: ListeningGateway, capabilities: Json | None = None) -> dict[str, str]:
    """Open a session; gives the headers of its requests."""
    params = {**INITIALIZE["params"], "capabilities": capabilities or {}}
    hello = await post(place.url, {**INITIALIZE, "params": params}, headers={"X-Test": "1"})
    headers = {
        "Mcp-Session-Id": hello.headers["Mcp-Session-Id"],
        "MCP-Protocol-Version": "2025-11-25",
    }
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await post(place.url, ready, headers)).status == 202
    return headers


def call(name: str, arguments: Json | None = None, *, request_id: Any = 1, **meta: Any) -> Json:
    params: Json = {"name": name, "arguments": arguments or {}}
    if meta:
        params["_meta"] = meta
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


async def test_a_session_is_opened_used_and_ended_without_the_sdk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def load(module: str) -> Never:
        pytest.fail(f"{module} was loaded")

    monkeypatch.setattr(sdk_loader, "load", load)
    async with listening() as place:
        headers = await opened(place, {"roots": {"listChanged": True}, "sampling": {}})
        ping = {"jsonrpc": "2.0", "id": "p", "method": "ping"}
        assert (await post(place.url, ping, headers)).only == {
            "jsonrpc": "2.0",
            "id": "p",
            "result": {},
        }
        assert (await post(place.url, call("a__echo", {"text": "hi"}), headers)).status == 200
        async with (
            aiohttp.ClientSession() as http,
            http.delete(f"{place.url}/mcp", headers=headers) as ended,
        ):
            assert (ended.status, await ended.read()) == (200, b"")
    (caller, _), *_ = place.gateway.received
    assert caller.client == "tester"


async def test_an_ended_session_is_gone() -> None:
    async with listening() as place:
        headers = await opened(place)
        async with aiohttp.ClientSession() as http:
            await http.delete(f"{place.url}/mcp", headers=headers)
        answer = await post(place.url, call("a__echo", {"text": "hi"}), headers)

    assert (answer.status, answer.error["message"]) == (404, "Session not found")
    assert place.gateway.received == []


@pytest.mark.parametrize(
    "version", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2026-07-28", "1999-01-01"]
)
async def test_a_session_opens_as_the_sdk_opens_it(version: str) -> None:
    message = {**INITIALIZE, "params": {**INITIALIZE["params"], "protocolVersion": version}}
    async with listening() as place:
        plain = await post(place.url, message, {"X-Test": "1"})
        by_sdk = await post(place.url, message, {"Accept": "*/*"})  # which only the SDK answers

    assert plain.headers["Content-Type"] == "application/json"
    assert by_sdk.headers["Content-Type"] == "text/event-stream"
    assert plain.only == by_sdk.only


WRONG = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3) | st.lists(st.text())


@given(
    name=st.sampled_from(["protocolVersion", "clientInfo", "capabilities"]),
    inner=st.sampled_from(["", "name", "version", "title", "roots", "sampling", "experimental"]),
    wrong=WRONG,
)
@settings(max_examples=30)
def test_wrong_parameters_are_refused_as_the_sdk_refuses_them(
    name: str, inner: str, wrong: object
) -> None:
    params: Json = dict(INITIALIZE["params"])
    params[name] = {**params[name], inner: wrong} if inner and name != "protocolVersion" else wrong
    message = {**INITIALIZE, "params": params}

    async def answers() -> tuple[Json, Json]:
        async with listening() as place:
            plain = await post(place.url, message, {"X-Test": "1"})
            return plain.only, (await post(place.url, message, {"Accept": "*/*"})).only

    plain, by_sdk = anyio.run(answers)
    assert plain == by_sdk


async def test_a_session_goes_on_in_the_sdk_where_it_is_needed() -> None:
    """A stream for notifications, a request that only the SDK answers, then plain calls again."""
    async with listening() as place:
        headers = await opened(place)
        async with aiohttp.ClientSession() as http:
            accept = {"Accept": "text/event-stream"}
            async with http.get(f"{place.url}/mcp", headers={**headers, **accept}) as stream:
                assert stream.status == 200
                level = {"jsonrpc": "2.0", "id": 2, "method": "logging/setLevel"}
                level["params"] = {"level": "error"}
                assert (await post(place.url, level, headers)).result == {}
                assert (await post(place.url, call("a__echo", {"text": "x"}), headers)).result
            async with http.delete(f"{place.url}/mcp", headers=headers) as ended:
                assert ended.status == 200
        assert (await post(place.url, call("a__echo"), headers)).status == 404


async def test_a_plain_call_is_answered_by_plain_json() -> None:
    async with listening() as place:
        headers = await opened(place)
        answer = await post(place.url, call("a__echo", {"text": "hi"}), headers)

    assert answer.headers["Content-Type"] == "application/json"
    assert answer.only["id"] == 1
    assert answer.result["content"][0]["text"] == "hi"
    (caller, _), *_ = place.gateway.received
    assert caller.client == "tester"
    assert caller.conversation == headers["Mcp-Session-Id"].rpartition(".")[2]


async def test_a_listing_is_answered_by_plain_json() -> None:
    async with listening() as place:
        message = {"jsonrpc": "2.0", "id": "x", "method": "tools/list"}
        answer = await post(place.url, message, await opened(place))

    assert answer.headers["Content-Type"] == "application/json"
    assert answer.only == {"jsonrpc": "2.0", "id": "x", "result": {"tools": place.gateway.listed}}


async def test_an_error_keeps_code_message_and_data() -> None:
    async with listening() as place:
        answer = await post(place.url, call("rpc_error"), await opened(place))

    assert answer.status == 200
    error = {"code": -31999, "message": "boom", "data": {"why": "test", "none": None}}
    assert answer.error == error


async def test_progress_is_streamed_before_the_result() -> None:
    async with listening() as place:
        message = call("progress", progressToken="t")
        answer = await post(place.url, message, await opened(place))

    assert answer.headers["Content-Type"] == "text/event-stream"
    *steps, result = answer.messages
    assert [step["params"]["progress"] for step in steps] == [1, 2, 3]
    assert {step["params"]["progressToken"] for step in steps} == {"t"}
    assert result["result"] == {"content": []}


async def test_a_level_that_the_session_has_set_holds_for_its_calls() -> None:
    async with listening() as place:
        headers = await opened(place)
        level: Json = {"method": "logging/setLevel", "params": {"level": "error"}}
        await post(place.url, {"jsonrpc": "2.0", "id": 1, **level}, headers)
        answer = await post(place.url, call("logs"), headers)

    *logs, _ = answer.messages
    assert [message["params"]["level"] for message in logs] == ["error"]


async def asked(
    place: ListeningGateway, headers: dict[str, str], *replies: tuple[dict[str, str], Json]
) -> Json:
    """The result of a call whose question is answered with these replies, by their headers."""
    question: Json = {"method": "sampling/createMessage", "params": {"maxTokens": 1}}
    sent = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    async with (
        aiohttp.ClientSession(headers={**sent, **headers}) as http,
        http.post(f"{place.url}/mcp", data=orjson.dumps(call("ask", question))) as response,
    ):
        async for line in response.content:
            if not line.startswith(b"data:"):
                continue
            message = orjson.loads(line[5:])
            if "method" not in message:
                return message["result"]
            assert message["method"] == question["method"]
            for sender, result in replies:
                answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
                assert (await post(place.url, answer, sender)).status == 202
    raise AssertionError("the stream ended without a result")


async def test_a_question_is_asked_on_the_stream_of_its_call() -> None:
    async with listening() as place:
        headers = await opened(place, {"sampling": {}})
        with anyio.fail_after(HANG_S):
            result = await asked(place, headers, (headers, {"role": "user"}))

    assert result["content"][0]["text"] == "{'role': 'user'}"


async def test_an_answer_of_another_session_is_not_taken() -> None:
    async with listening() as place:
        headers = await opened(place, {"sampling": {}})
        foreign = await opened(place)
        replies = (foreign, {"role": "thief"}), (headers, {"role": "user"})
        with anyio.fail_after(HANG_S):
            result = await asked(place, headers, *replies)

    assert result["content"][0]["text"] == "{'role': 'user'}"


async def test_a_call_that_its_client_cancels_ends_with_an_error() -> None:
    async with listening() as place:
        headers = await opened(place)
        task = asyncio.ensure_future(post(place.url, call("slow", request_id=7), headers))
        with anyio.fail_after(HANG_S):
            await place.gateway.started.wait()
            gone = {"requestId": 7, "reason": "no longer needed"}
            message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": gone}
            assert (await post(place.url, message, headers)).status == 202
            answer = await task

    assert answer.error["code"] == -32800
    assert place.gateway.cancelled.is_set()


async def test_a_client_that_leaves_does_not_end_its_call() -> None:
    async with listening() as place:
        headers = await opened(place)
        task = asyncio.ensure_future(post(place.url, call("slow"), headers))
        with anyio.fail_after(HANG_S):
            await place.gateway.started.wait()
            task.cancel()
            await asyncio.wait({task})
            await anyio.sleep(0.2)  # longer than it takes to notice that the client is gone
            assert not place.gateway.cancelled.is_set()
            place.gateway.release.set()


async def test_the_end_of_a_session_ends_its_calls() -> None:
    async with listening() as place:
        headers = await opened(place)
        task = asyncio.ensure_future(post(place.url, call("slow"), headers))
        with anyio.fail_after(HANG_S):
            await place.gateway.started.wait()
            async with (
                aiohttp.ClientSession() as http,
                http.delete(f"{place.url}/mcp", headers=headers) as response,
            ):
                assert response.status == 200
            await task
            answer = await post(place.url, call("a__echo"), headers)

    assert place.gateway.cancelled.is_set()
    assert answer.status == 404


@pytest.mark.parametrize("altered", ["", "x", "a.b.c"])
async def test_an_id_that_was_not_signed_here_is_no_session(altered: str) -> None:
    async with listening() as place:
        headers = await opened(place)
        headers["Mcp-Session-Id"] = f"{headers['Mcp-Session-Id']}{altered}" if altered else "none"
        answer = await post(place.url, call("a__echo"), headers)

    assert answer.status == 404
    assert not place.gateway.received


async def test_the_id_of_a_running_call_is_refused_to_another() -> None:
    async with listening() as place:
        headers = await opened(place)
        task = asyncio.ensure_future(post(place.url, call("slow", request_id="1"), headers))
        with anyio.fail_after(HANG_S):
            await place.gateway.started.wait()
            again = await post(place.url, call("a__echo", request_id=1), headers)
            place.gateway.release.set()
            first = await task

    assert again.status == 400
    assert "still running" in again.error["message"]
    assert first.result["content"][0]["text"] == "done"


async def test_a_null_argument_counts_as_absent_and_a_wrong_kind_is_named() -> None:
    async with listening() as place:
        headers = await opened(place)
        message = call("a__echo")
        message["params"]["arguments"] = None
        plain = await post(place.url, message, headers)
        message["params"]["arguments"] = [1]
        wrong = await post(place.url, message, headers)

    assert "result" in plain.only
    assert wrong.error["code"] == -32602
    assert "'arguments' must be an object" in wrong.error["message"]
