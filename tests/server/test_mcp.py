"""MCP clients of both eras, through a real socket and the official client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as t
import pytest
from mcp import Client
from mcp.client.subscriptions import ToolsListChanged, listen
from mcp.shared.exceptions import MCPError

from tests.limits import HANG_S
from tests.server.fake_gateway import FakeGateway
from tests.server.http_gateway import (
    INITIALIZE,
    META,
    ListeningGateway,
    headers_for,
    listening,
    modern,
    post,
    texts,
    until,
)

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])


@asynccontextmanager
async def client(place: ListeningGateway, mode: Any, **options: Any) -> AsyncIterator[Client]:
    with anyio.fail_after(HANG_S):
        async with Client(f"{place.url}/mcp", mode=mode, **options) as connected:
            yield connected


@asynccontextmanager
async def reached(mode: Any, **options: Any) -> AsyncIterator[tuple[Client, FakeGateway]]:
    async with listening() as place, client(place, mode, **options) as connected:
        yield connected, place.gateway


async def handshake(place: ListeningGateway) -> dict[str, str]:
    """Headers of a fresh session of the handshake era."""
    opened = await post(place.url, INITIALIZE, {"Accept": "application/json, text/event-stream"})
    session = {
        "Mcp-Session-Id": opened.headers["Mcp-Session-Id"],
        "MCP-Protocol-Version": "2025-11-25",
    }
    await post(place.url, {"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
    return session


@ERAS
async def test_a_client_lists_and_calls_tools(mode: str) -> None:
    async with reached(mode) as (connected, gateway):
        listed = await connected.list_tools()
        result = await connected.call_tool("a__echo", {"text": "hi é中"})
    assert [tool.name for tool in listed.tools] == ["a__echo", "a__regional"]
    assert texts(result) == ["hi é中"]
    assert gateway.received[0][0].client == "mcp"


@ERAS
async def test_resources_prompts_and_completion_pass(mode: str) -> None:
    async with reached(mode) as (connected, _):
        assert [r.uri for r in (await connected.list_resources()).resources] == ["memo://1"]
        templates = (await connected.list_resource_templates()).resource_templates
        assert [r.uri_template for r in templates] == ["memo://{n}"]
        read = await connected.read_resource("memo://1")
        assert [entry.model_dump()["text"] for entry in read.contents] == ["body"]
        assert [p.name for p in (await connected.list_prompts()).prompts] == ["a__greet"]
        got = await connected.get_prompt("a__greet", {"who": "ada"})
        assert got.messages[0].content.model_dump()["text"] == "Hello ada"
        reference = t.PromptReference(type="ref/prompt", name="a__greet")
        completed = await connected.complete(reference, {"name": "who", "value": "a"})
        assert completed.completion.values == ["a!"]


@ERAS
async def test_the_gateway_introduces_itself(mode: str) -> None:
    async with reached(mode) as (connected, _):
        assert connected.server_info
        assert connected.server_info.name == "toolgate"
        assert connected.instructions == "Find tools, then run them."
        offered = connected.server_capabilities
        assert offered.tools
        assert offered.tools.list_changed
        assert offered.resources
        assert offered.resources.subscribe
        assert (offered.logging is not None) == (mode == "legacy")


async def test_unknown_fields_of_results_survive_in_both_eras() -> None:
    """Results travel as the server sent them; only what the era adds or lacks is different."""
    call = {"name": "a__echo", "arguments": {"text": "x", "structured": {"none": None, "n": 1.0}}}
    async with listening() as place:
        new = await post(place.url, modern("tools/call", call))
        session = await handshake(place)
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        old = await post(place.url, request, session)
    own = {
        "content": [{"type": "text", "text": "x", "x-block": {"n": None}}],
        "x-result": [1, None],
        "_meta": {"com.example/r": 1},
        "structuredContent": {"none": None, "n": 1.0},
    }
    assert old.result == own
    stamp = new.result["_meta"].pop(META + "serverInfo")
    assert stamp["name"] == "toolgate"
    assert new.result == {**own, "resultType": "complete"}


async def test_definitions_of_tools_survive_in_both_eras() -> None:
    async with listening() as place:
        new = await post(place.url, modern("tools/list"))
        session = await handshake(place)
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        old = await post(place.url, request, session)
    assert old.result == {"tools": place.gateway.listed}
    new.result.pop("_meta")
    assert new.result == {
        "tools": place.gateway.listed,
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
    }


async def test_marks_of_the_modern_era_are_taken_off_for_handshake_clients() -> None:
    async with listening() as place:
        session = await handshake(place)
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "stamped"}}
        answered = await post(place.url, request, session)
    assert answered.result == {"content": [], "_meta": {"com.example/r": 1}}


async def test_what_may_be_kept_is_private_whatever_the_server_says() -> None:
    async with listening() as place:
        answered = await post(place.url, modern("resources/read", {"uri": "memo://1"}))
    assert answered.result["cacheScope"] == "private"
    assert answered.result["ttlMs"] == 9
    assert answered.result["x"] is None


@ERAS
async def test_errors_of_servers_keep_code_message_and_data(mode: str) -> None:
    async with reached(mode) as (connected, _):
        with pytest.raises(MCPError) as caught:
            await connected.call_tool("rpc_error", {})
    assert caught.value.error.code == -31999
    assert caught.value.error.message == "boom"
    assert caught.value.error.data == {"why": "test", "none": None}


@pytest.mark.parametrize(
    ("name", "code", "word", "retryable"),
    [
        ("nothing", -32602, "unknown_tool", False),
        ("timed_out", -31013, "timed_out", False),
        ("lost", -31011, "connection_lost", False),
        ("broken", -32603, "internal", False),
    ],
)
@ERAS
async def test_own_errors_name_their_kind_and_the_request(
    mode: str, name: str, code: int, word: str, retryable: bool
) -> None:
    async with reached(mode) as (connected, _):
        with pytest.raises(MCPError) as caught:
            await connected.call_tool(name, {})
    error = caught.value.error
    assert (error.code, error.data["code"], error.data["retryable"]) == (code, word, retryable)
    assert len(error.data["requestId"]) == 32
    assert "secret" not in error.message


async def test_an_unknown_resource_has_the_code_of_its_era() -> None:
    async with listening() as place:
        for mode, code in (("auto", -32602), ("legacy", -32002)):
            async with client(place, mode) as connected:
                with pytest.raises(MCPError) as caught:
                    await connected.read_resource("memo://2")
                assert caught.value.error.code == code


@ERAS
async def test_progress_arrives_in_order_and_whole(mode: str) -> None:
    got: list[Any] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        got.append((progress, total, message))

    async with reached(mode) as (connected, _):
        await connected.call_tool("progress", {}, progress_callback=on_progress)
        await until(lambda: len(got) == 3)
    assert got == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


@pytest.mark.parametrize("level", [None, "debug", "error"])
@ERAS
async def test_logs_come_by_the_level_of_the_client(mode: str, level: str | None) -> None:
    """Modern: per request, none unasked. Handshake: by session; unset, the server decides."""
    got: list[Any] = []

    async def on_log(params: Any) -> None:
        got.append(params.level)

    options: dict[str, Any] = {"logging_callback": on_log}
    if mode == "auto" and level:
        options["log_level"] = level
    async with reached(mode, **options) as (connected, _):
        if mode == "legacy" and level:
            await connected.set_logging_level(level)  # pyright: ignore[reportArgumentType]
        result = await connected.call_tool("logs", {})
    everything = ["debug", "info", "error"]
    unasked = everything if mode == "legacy" else []
    assert got == {None: unasked, "debug": everything, "error": ["error"]}[level]
    assert texts(result) == [str(level)]


ELICITATION = {
    "method": "elicitation/create",
    "params": {"message": "name?", "requestedSchema": {"type": "object", "properties": {}}},
}


@ERAS
async def test_a_question_reaches_the_client_and_its_answer_the_server(mode: str) -> None:
    async def elicit(context: Any, params: Any) -> t.ElicitResult:
        return t.ElicitResult(action="accept", content={"name": "ada"})

    async with reached(mode, elicitation_callback=elicit) as (connected, gateway):
        result = await connected.call_tool("ask", ELICITATION)
    assert "'ada'" in texts(result)[0]
    assert gateway.peers[0] is not None
    assert "elicitation" in gateway.peers[0].capabilities


@pytest.mark.parametrize(
    "arguments",
    [
        ELICITATION,
        {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}},
        {"method": "roots/list", "params": {}},
    ],
    ids=["elicitation", "sampling", "roots"],
)
async def test_a_handshake_client_is_not_asked_what_it_did_not_declare(arguments: Any) -> None:
    async with reached("legacy") as (connected, _):
        with pytest.raises(MCPError) as caught:
            await connected.call_tool("ask", arguments)
    assert caught.value.error.code == -31015


@ERAS
async def test_a_cancelled_call_is_cancelled_in_the_gateway(mode: str) -> None:
    async with reached(mode) as (connected, gateway):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connected.call_tool, "slow", {})
            await gateway.started.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(HANG_S):
            await gateway.cancelled.wait()
        assert texts(await connected.call_tool("a__echo", {"text": "still here"})) == ["still here"]


async def test_a_modern_listener_hears_of_changes() -> None:
    async with reached("auto") as (connected, gateway):
        async with listen(
            connected.session, tools_list_changed=True, resource_subscriptions=["memo://1"]
        ) as changes:
            await until(lambda: gateway.subscribed == ["memo://1"])
            gateway.change("tools")
            assert isinstance(await anext(changes), ToolsListChanged)
            gateway.change("prompts")
            gateway.change("resource", "memo://2")
            gateway.change("resource", "memo://1")
            assert (await anext(changes)).uri == "memo://1"  # pyright: ignore[reportAttributeAccessIssue]
        await until(lambda: gateway.subscribed == [])


async def test_a_listener_may_name_a_resource_that_is_not_there() -> None:
    async with (
        reached("auto") as (connected, gateway),
        listen(
            connected.session,
            tools_list_changed=True,
            resource_subscriptions=["none://1", "memo://1"],
        ) as changes,
    ):
        await until(lambda: gateway.subscribed == ["memo://1"])
        gateway.change("tools")
        assert isinstance(await anext(changes), ToolsListChanged)


async def test_each_handshake_session_hears_of_changes_and_of_its_own_resources() -> None:
    heard: dict[str, list[str]] = {"one": [], "two": []}

    def listener(name: str) -> Any:
        async def on_message(message: Any) -> None:
            heard[name].append(getattr(message, "method", ""))

        return on_message

    async with listening() as place:
        async with (
            client(place, "legacy", message_handler=listener("one")) as one,
            client(place, "legacy", message_handler=listener("two")) as two,
        ):
            await one.subscribe_resource("memo://1")
            await one.subscribe_resource("memo://1")
            await two.subscribe_resource("memo://2")
            assert place.gateway.subscribed == ["memo://1", "memo://2"]
            with pytest.raises(MCPError):
                await one.subscribe_resource("none://1")
            # The stream for notices is opened after the handshake; what comes before is not kept.
            while not heard["one"] or not heard["two"]:
                place.gateway.change("tools")
                await anyio.sleep(0.01)
            place.gateway.change("resource", "memo://1")
            place.gateway.change("prompts")
            await until(lambda: "notifications/prompts/list_changed" in heard["two"])
            await until(lambda: "notifications/prompts/list_changed" in heard["one"])
            await one.unsubscribe_resource("memo://1")
            assert place.gateway.subscribed == ["memo://2"]
        await until(lambda: place.gateway.subscribed == [])
    assert "notifications/resources/updated" in heard["one"]
    assert "notifications/resources/updated" not in heard["two"]


@pytest.mark.parametrize(
    "method", ["ping", "logging/setLevel", "resources/subscribe", "initialize", "no/such"]
)
async def test_a_method_that_the_modern_era_does_not_have_is_not_found(method: str) -> None:
    async with listening() as place:
        answered = await post(place.url, modern(method, {"level": "debug", "uri": "memo://1"}))
    assert (answered.status, answered.error["code"]) == (404, -32601)


@pytest.mark.parametrize("method", ["server/discover", "subscriptions/listen", "no/such"])
async def test_a_method_that_the_handshake_era_does_not_have_is_not_found(method: str) -> None:
    async with listening() as place:
        session = await handshake(place)
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"notifications": {}}}
        answered = await post(place.url, request, session)
    assert answered.error["code"] == -32601


@pytest.mark.parametrize(
    ("method", "params", "named"),
    [
        ("tools/call", {}, "name"),
        ("tools/call", {"name": 7}, "name"),
        ("tools/call", {"name": "a__echo", "arguments": []}, "arguments"),
        ("tools/call", {"name": "a__echo", "arguments": "x"}, "arguments"),
        ("tools/call", {"name": "a__echo", "inputResponses": 1}, "inputResponses"),
        ("tools/call", {"name": "a__echo", "requestState": {}}, "requestState"),
        ("tools/call", {"name": "a__echo", "_meta": {"progressToken": 1.5}}, "progressToken"),
        ("tools/list", {"cursor": "x"}, "cursor"),
        ("resources/read", {"uri": None}, "uri"),
        ("prompts/get", {"name": []}, "name"),
        ("completion/complete", {"ref": "x"}, "ref"),
        ("completion/complete", {"ref": {}, "argument": {"name": "n"}}, "argument.value"),
    ],
)
async def test_parameters_of_the_wrong_kind_are_named_in_both_eras(
    method: str, params: Any, named: str
) -> None:
    async with listening() as place:
        request = modern(method, params)
        new = await post(place.url, request, headers_for(request))
        session = await handshake(place)
        old_request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        old = await post(place.url, old_request, session)
    assert old.error["code"] == -32602
    assert f"{named}'" in old.error["message"]
    assert new.status == 400
    if new.error["code"] != -32020:  # a name that is no text cannot equal its header
        assert new.error == old.error


async def test_a_wrong_log_level_is_refused_in_both_eras() -> None:
    async with listening() as place:
        request = modern("tools/call", {"name": "logs"}, logLevel="loud")
        new = await post(place.url, request)
        session = await handshake(place)
        set_level = {"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel"}
        old = await post(place.url, {**set_level, "params": {"level": "loud"}}, session)
    assert new.error["code"] == old.error["code"] == -32602
    assert "debug, info" in new.error["message"]


async def test_absent_members_may_be_sent_as_null() -> None:
    params = {"name": "a__echo", "arguments": None, "requestState": None}
    async with listening() as place:
        answered = await post(place.url, modern("tools/call", params))
    assert answered.status == 200
    assert "arguments" not in place.gateway.received[0][1]


async def test_a_request_before_the_handshake_is_refused() -> None:
    async with listening() as place:
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        answered = await post(place.url, request, {"MCP-Protocol-Version": "2025-11-25"})
    assert answered.status == 400


async def test_the_conversation_is_the_session_or_the_thread_that_the_client_names() -> None:
    call = {"name": "a__echo"}
    async with listening() as place:
        session = await handshake(place)
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        await post(place.url, request, session)
        message = modern("tools/call", call)
        await post(place.url, message)
        await post(place.url, message, {**headers_for(message), "X-Toolgate-Thread": "t-1"})
    conversations = [caller.conversation for caller, _ in place.gateway.received]
    signature = session["Mcp-Session-Id"].rpartition(".")[2]
    assert conversations == [signature, "tester", "t-1"]


async def test_a_question_in_a_modern_result_is_answered_by_a_second_request() -> None:
    async with listening() as place:
        first = await post(
            place.url, modern("tools/call", {"name": "ask", "arguments": ELICITATION})
        )
        again = {
            "name": "ask",
            "arguments": ELICITATION,
            "inputResponses": {"q": {"action": "decline"}},
            "requestState": first.result["requestState"],
        }
        second = await post(place.url, modern("tools/call", again, request_id=2))
    assert first.result["resultType"] == "input_required"
    assert "ttlMs" not in first.result
    assert second.result["content"][0]["text"] == "({'action': 'decline'}, 's1')"
