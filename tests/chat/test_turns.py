"""Whole turns through the HTTP door, asserted on what the model was sent."""

import json

import anyio
import pytest

from tests.chat.chat_gateway import (
    ChatGateway,
    chatting,
    check_pairs,
    contents,
    offered,
    roles,
    streamed_text,
)
from tests.limits import HANG_S
from toolgate.store import AuditFilter
from toolgate.telemetry.cost import cost_report
from toolgate.testing import FakeUpstream, text_result
from toolgate.testing.fake_upstream import Tool
from toolgate.types import Caller, Json


def weather(**tools: object) -> FakeUpstream:
    return FakeUpstream(tools={"forecast": lambda _: text_result("Sunny, 21 degrees")})


CALL = {"tool_calls": [{"name": "weather__forecast", "arguments": {"city": "Bonn"}}]}


@pytest.mark.parametrize("engine", ["plain", "langgraph"])
async def test_a_tool_is_found_called_and_its_result_is_sent_on(engine: str) -> None:
    async with chatting(
        CALL, {"text": "It is sunny."}, servers={"weather": weather()}, chat={"engine": engine}
    ) as place:
        text = await place.text("What is the weather forecast in Bonn?")

        assert text == "It is sunny."
        assert "weather__forecast" in offered(place.model.chats[0])
        assert roles(place.model.last) == ["system", "user", "assistant", "tool"]
        assert contents(place.model.last, "tool") == ["Sunny, 21 degrees"]


@pytest.mark.parametrize("execute", [False, True], ids=["by its name", "by tool_execute"])
async def test_a_call_is_recorded_before_it_is_made_unless_it_only_reads(execute: bool) -> None:
    """A killed process forgets no call that may have changed something; others cost less."""
    recorded: dict[str, list[str]] = {}
    gateway: list[ChatGateway] = []

    def tool(name: str) -> Tool:
        async def run(_: Json) -> Json:
            history = await gateway[0].history("t")
            recorded[name] = [message["role"] for message in history["messages"]]
            return text_result("done")

        return run

    names = ("read", "write")
    shop = FakeUpstream(
        tools={name: tool(name) for name in names},
        definitions={"read": {"annotations": {"readOnlyHint": True}}},
    )
    steps = [
        {"name": "tool_execute", "arguments": {"toolKey": f"shop:{name}", "arguments": {}}}
        if execute
        else {"name": f"shop__{name}", "arguments": {}}
        for name in names
    ]
    scripts = [{"tool_calls": [step]} for step in steps]
    async with chatting(*scripts, {"text": "Done."}, servers={"shop": shop}) as place:
        gateway.append(place)
        await place.say("Read, then write", thread="t")
        history = await place.history("t")
    assert recorded == {"read": ["user"], "write": ["user", "assistant", "tool", "assistant"]}
    assert roles(history) == ["user", "assistant", "tool", "assistant", "tool", "assistant"]


async def test_a_named_tool_is_asked_for_in_the_first_step_alone() -> None:
    """Source: fuzzing; a `tool_choice` that is an object ended the second step with a 500."""
    named = {"type": "function", "function": {"name": "weather__forecast"}}
    async with chatting(CALL, {"text": "It is sunny."}, servers={"weather": weather()}) as place:
        text = await place.text("What is the weather forecast in Bonn?", tool_choice=named)

        assert text == "It is sunny."
        assert place.model.chats[1]["tool_choice"] == "auto"


async def test_a_thread_remembers_and_the_stored_text_is_what_was_streamed() -> None:
    async with chatting(
        {**CALL, "text": "Let me look."},
        {"text": "It is sunny."},
        {"text": "Still sunny."},
        servers={"weather": weather()},
    ) as place:
        events = await place.stream("What is the weather forecast in Bonn?", thread="t")
        await place.say("And tomorrow?", thread="t")

        history = await place.history("t")
        said = [m["content"] for m in history["messages"] if m["role"] == "assistant"]
        assert streamed_text(events) == "Let me look.\n\nIt is sunny."
        assert said == ["Let me look.", "It is sunny.", "Still sunny."]
        assert roles(place.model.last) == [
            "system",
            "user",
            "assistant",
            "tool",
            "assistant",
            "user",
        ]
        check_pairs(place.model.last)


async def test_without_a_thread_the_messages_sent_are_the_history_and_nothing_is_kept() -> None:
    async with chatting({"text": "Hello Mike."}, {"text": "Mike."}) as place:
        await place.say("I am Mike.")
        messages = [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "I am Mike."},
            {"role": "assistant", "content": "Hello Mike."},
            {"role": "user", "content": "Who am I?"},
        ]
        status, _ = await place.post(
            "/v1/chat/completions", {"model": "main", "messages": messages}
        )

        assert status == 200
        assert roles(place.model.last) == ["system", "user", "assistant", "user"]
        assert await place.app.store.threads.select("default", None) == []


async def test_the_model_stops_when_its_client_leaves() -> None:
    async with chatting({"text": "word " * 200, "chunk_delay_s": 0.05}) as place:
        request = place.session.post(
            f"{place.url}/v1/chat/completions",
            json={
                "model": "main",
                "messages": [{"role": "user", "content": "Go on"}],
                "stream": True,
            },
            headers={"x-toolgate-thread": "t"},
        )
        async with request as answer:
            await answer.content.readuntil(b"word")
            answer.close()
        with anyio.fail_after(HANG_S):
            while place.model.ends != ["client_disconnected"]:
                await anyio.sleep(0.01)
            while (await place.history("t"))["running"]:
                await anyio.sleep(0.01)
        history = await place.history("t")
        assert history["messages"][-1]["additional_kwargs"] == {"partial": "cancelled"}
        assert history["messages"][-1]["content"].startswith("word")


async def test_each_turn_stands_in_the_audit_with_its_cost_and_without_its_texts() -> None:
    async with chatting(
        CALL,
        {"text": "It is sunny."},
        {"status": 400},
        servers={"weather": weather()},
        model={"price_input": 1.0, "price_output": 2.0},
    ) as place:
        await place.say("What is the weather forecast in Bonn?", thread="t")
        await place.post(
            "/v1/chat/completions",
            {"model": "main", "messages": [{"role": "user", "content": "Hello from Bonn"}]},
        )
        await place.app.recorder.flush()
        failed, done = await place.app.store.audit.select(AuditFilter(action="turn"))

    assert (done.status, done.conversation) == ("ok", "t")
    assert done.detail["tools"] == ["weather:forecast"]
    assert (done.detail["model"], done.detail["requests"], done.detail["calls"]) == ("main", 2, 1)
    sent, answered = done.detail["prompt_tokens"], done.detail["completion_tokens"]
    assert done.detail["cost"] == pytest.approx((sent + 2 * answered) / 1_000_000)
    assert sent > answered > 0
    assert failed.status not in {"ok", "internal", "cancelled"}
    assert "Bonn" not in f"{done} {failed}"


async def test_turns_do_not_distort_what_conversations_of_mcp_clients_cost() -> None:
    """Their model reads no answer of a search and no list of tools; their own tokens are kept."""
    servers = {"weather": weather()}
    async with chatting(CALL, {"text": "It is sunny."}, servers=servers) as place:
        await place.say("What is the weather forecast in Bonn?", thread="t")
        direct = {"toolKey": "weather:forecast", "arguments": {}}
        assert (await place.post("/api/v1/execute", direct))[0] == 200
        await place.app.recorder.flush()
        found = await cost_report(place.app, Caller.local(), "2000-01-01T00:00:00.000Z")
        _, usage = await place.get("/api/v1/threads/t/usage")

    assert [
        (task.conversation.calls, task.conversation.conversation == "t") for task in found.tasks
    ] == [(1, False)]
    assert [one["purpose"] for one in usage["usage"]] == ["answer", "answer"]


async def test_the_same_call_with_the_same_result_is_not_paid_for_fifty_times() -> None:
    async with chatting(fallback=CALL, servers={"weather": weather()}) as place:
        text = await place.text("What is the weather forecast in Bonn?", thread="t")
        requests = len(place.model.chats)
        place.model.script({"text": "Fine."})
        assert await place.text("And now?", thread="t") == "Fine."

    assert requests == 5
    assert "the same call 5 times in a row" in text


async def test_a_call_whose_result_changes_is_repeated_as_often_as_a_turn_may() -> None:
    seen = iter(range(100))
    changing = FakeUpstream({"forecast": lambda _: text_result(f"{next(seen)} degrees")})
    async with chatting(*[CALL] * 8, {"text": "Enough."}, servers={"weather": changing}) as place:
        assert await place.text("What is the weather forecast in Bonn?") == "Enough."


async def test_a_turn_that_is_cut_off_or_runs_out_stands_in_the_audit_too() -> None:
    endless = [CALL for _ in range(4)]
    async with chatting(*endless, servers={"weather": weather()}, chat={"max_steps": 2}) as place:
        await place.say("What is the weather forecast in Bonn?")
        place.model.script({"text": "word " * 200, "chunk_delay_s": 0.05})
        assert place.app.chat is not None
        request = place.session.post(
            f"{place.url}/v1/chat/completions",
            json={
                "model": "main",
                "messages": [{"role": "user", "content": "Go on"}],
                "stream": True,
            },
        )
        async with request as answer:
            await answer.content.readuntil(b"word")
            answer.close()
        with anyio.fail_after(HANG_S):
            while place.app.chat.runs.running:
                await anyio.sleep(0.01)
        await place.app.recorder.flush()
        cancelled, spent = await place.app.store.audit.select(AuditFilter(action="turn"))

    assert (cancelled.status, spent.status) == ("cancelled", "out_of_budget")


async def test_a_message_of_five_megabytes_leaves_its_thread_usable() -> None:
    """It is refused; later requests have its beginning and its end, the history all of it."""
    async with chatting(fallback={"text": "Yes."}) as place:
        long = "first " + "word " * 1_000_000 + "last"
        status, refused = await place.post(
            "/v1/chat/completions",
            {"model": "main", "messages": [{"role": "user", "content": long}]},
            x_toolgate_thread="t",
        )
        assert (status, refused["error"]["code"]) == (400, "context_length_exceeded")
        assert place.model.chats == []
        assert await place.text("And now?", thread="t") == "Yes."
        sent = contents(place.model.last, "user")
        kept = (await place.history("t"))["messages"][0]["content"]

    assert [sent[0][:6], sent[0][-4:], sent[1]] == ["first ", "last", "And now?"]
    assert "characters are left out here" in sent[0]
    assert len(sent[0]) < 200_000
    assert kept == long


async def test_huge_arguments_of_a_call_leave_their_thread_usable() -> None:
    """Later requests have none of them, the history all."""
    arguments = {"zone": "z" * 200_000}
    async with chatting(
        {"tool_calls": [{"name": "clock__now", "arguments": arguments}], "fragment": 9999},
        fallback={"text": "Yes."},
        servers={"clock": FakeUpstream(tools={"now": lambda _: text_result("noon")})},
        model={"context_tokens": 20_000},
    ) as place:
        await place.post(
            "/v1/chat/completions",
            {"model": "main", "messages": [{"role": "user", "content": "The time on the clock?"}]},
            x_toolgate_thread="t",
        )
        assert await place.text("And now?", thread="t") == "Yes."
        (call,) = place.model.last["messages"][2]["tool_calls"]
        kept = (await place.history("t"))["messages"][1]["tool_calls"][0]

    assert call["function"]["arguments"] == "{}"
    assert json.loads(kept["function"]["arguments"]) == arguments


async def test_a_thread_whose_last_turns_fill_the_context_goes_on() -> None:
    """Their text has about as many tokens as characters, so that fewer turns fit than usual."""
    long = "字" * 11_000
    async with chatting(fallback={"text": "Yes."}, model={"context_tokens": 20_000}) as place:
        said = [await place.text(f"{number} {long}", thread="t") for number in range(4)]
        last = await place.text("And now?", thread="t")
        summed = contents(place.model.last, "user")

    assert [*said, last] == ["Yes."] * 5
    assert summed[-1] == "And now?"
    assert summed[0].startswith("[The earlier conversation")
