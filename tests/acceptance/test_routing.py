"""Rows RT: which step follows an answer of the model."""

import json

import pytest

from tests.chat.chat_gateway import (
    LOOK_UP,
    RETRIEVER,
    WITH_DOCUMENTS,
    add_guide,
    chatting,
    check_pairs,
    contents,
    grading,
    offered,
    roles,
)
from toolgate.testing import FakeUpstream, text_result
from toolgate.types import Json


def call(name: str, call_id: str | None = None, **arguments: object) -> Json:
    found: Json = {"name": name, "arguments": arguments}
    return found if call_id is None else {**found, "id": call_id}


def clock(**tools: object) -> dict[str, object]:
    def fail(_: Json) -> Json:
        raise RuntimeError("the clock is broken")

    return {
        "clock": FakeUpstream(
            tools={
                "now": lambda _: text_result("noon"),
                "broken": fail,
                "table": lambda _: {"content": [], "structuredContent": {"a": 1}},
                "number": lambda _: {"content": [{"type": "text", "text": "7"}]},
            }
        )
    }


async def test_rt_1_a_turn_ends_with_an_answer_that_calls_nothing() -> None:
    async with chatting({"text": "Hello."}, servers=clock()) as place:
        assert await place.text("Say hello to the clock") == "Hello."
        assert len(place.model.chats) == 1


async def test_rt_2_internal_calls_are_answered_by_the_turn_others_by_the_tool() -> None:
    async with chatting(
        grading("yes"),
        LOOK_UP,
        {"tool_calls": [call("documents__storage")]},
        {"text": "Done."},
        settings=WITH_DOCUMENTS,
    ) as place:
        await add_guide(place)
        events = await place.stream("Which guides are there?", **{"x-toolgate-events": "1"})

        ran = [e["tool"] for name, e in events if name == "toolgate.mcp_tool"]
        assert "documents:storage" in ran
        assert "documents:retriever" not in ran
        assert any(name == "toolgate.vs_metadata" for name, _ in events)


async def test_rt_3_both_kinds_in_one_answer_are_both_answered_before_the_next() -> None:
    both = {"tool_calls": [call(RETRIEVER, question="x"), call("clock__now")]}
    async with chatting(
        grading("yes"), both, {"text": "Done."}, settings=WITH_DOCUMENTS, servers=clock()
    ) as place:
        await add_guide(place)
        text = await place.text("What time is it, and how is index accuracy determined?")

        assert text == "Done."
        assert roles(place.model.last) == ["system", "user", "assistant", "tool", "tool"]
        check_pairs(place.model.last)
        documents, noon = contents(place.model.last, "tool")
        assert "INDEX_ACCURACY_QUERY" in documents
        assert noon == "noon"


async def test_rt_4_an_id_that_comes_again_in_a_later_turn_is_answered_again() -> None:
    step = {"tool_calls": [call("clock__now", "call_1")]}
    async with chatting(
        step, {"text": "Noon."}, step, {"text": "Still noon."}, servers=clock()
    ) as place:
        await place.say("What time is it on the clock now?", thread="t")
        text = await place.text("And now on the clock?", thread="t")

        assert text == "Still noon."
        check_pairs(place.model.last)
        assert contents(place.model.last, "tool") == ["noon", "noon"]


async def test_rt_4_the_same_id_twice_in_one_answer_is_two_calls() -> None:
    twice = {"tool_calls": [call("clock__now", "same"), call("clock__number", "same")]}
    async with chatting(twice, {"text": "Done."}, servers=clock()) as place:
        assert await place.text("What does the clock say now, as a number?") == "Done."
        check_pairs(place.model.last)
        assert contents(place.model.last, "tool") == ["noon", "7"]


async def test_rt_5_calls_without_end_are_ended_with_a_message() -> None:
    again = {"when": {"user": "clock"}, "reply": {"tool_calls": [call("clock__now")]}}
    async with chatting(again, servers=clock(), chat={"max_steps": 4}) as place:
        body = await place.say("What time is it on the clock now?", thread="t")

        assert len(place.model.chats) == 4
        assert "4 steps" in body["choices"][0]["message"]["content"]
        assert body["choices"][0]["finish_reason"] == "length"
        place.model.script({"text": "Better now."})
        assert await place.text("Again?", thread="t") == "Better now."
        check_pairs(place.model.last)


@pytest.mark.parametrize(
    ("limit", "said"),
    [({"max_tool_calls": 1}, "[not run"), ({"max_tokens": 100}, "tokens")],
    ids=["calls", "tokens"],
)
async def test_rt_5_calls_and_tokens_are_limited_too(limit: dict[str, int], said: str) -> None:
    step = {"tool_calls": [call("clock__now"), call("clock__number")]}
    async with chatting(step, fallback={"text": "Done."}, servers=clock(), chat=limit) as place:
        text = await place.text("What does the clock say now, as a number?")

        assert said in json.dumps(place.model.last) + text


async def test_rt_6_calls_without_id_or_name_are_left_out() -> None:
    calls = [
        {"type": "function", "function": {"name": "x", "arguments": "{}"}},
        {"id": "call_2", "type": "function", "function": {"arguments": "{}"}},
    ]
    messages = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Well.", "tool_calls": calls},
        {"role": "user", "content": "Again"},
    ]
    async with chatting({"text": "Hello."}) as place:
        status, _ = await place.post(
            "/v1/chat/completions", {"model": "main", "messages": messages}
        )

        assert status == 200
        assert roles(place.model.last) == ["system", "user", "assistant", "user"]
        assert "tool_calls" not in place.model.last["messages"][2]


async def test_rt_7_unknown_failing_and_odd_results_are_read_by_the_model() -> None:
    step = {
        "tool_calls": [
            call("no_such_tool"),
            call("clock__broken"),
            call("clock__table"),
            {"name": "clock__now", "arguments": "{broken"},
            call("clock__number"),
        ]
    }
    async with chatting(step, {"text": "Done."}, servers=clock()) as place:
        text = await place.text("What does the clock table say now, as a number? Is it broken?")

        assert text == "Done."
        check_pairs(place.model.last)
        unknown, failed, table, odd, number = contents(place.model.last, "tool")
        assert unknown == "Unknown tool: no_such_tool"
        assert failed.startswith("Error executing clock__broken:")
        assert json.loads(table) == {"a": 1}
        assert odd.startswith("Error executing clock__now: the arguments are not valid JSON")
        assert number == "7"


async def test_a_call_with_broken_arguments_does_not_spoil_its_thread() -> None:
    broken = {"tool_calls": [{"name": "clock__now", "arguments": '{"zone": "CE'}]}
    async with chatting(broken, {"text": "Noon."}, {"text": "Yes."}, servers=clock()) as place:
        await place.text("What time is it?", thread="t")
        await place.text("Are you sure?", thread="t")

        for request in place.model.chats[1:]:
            (sent,) = [m["tool_calls"] for m in request["messages"] if m.get("tool_calls")]
            assert sent[0]["function"]["arguments"] == "{}"
        messages = (await place.history("t"))["messages"]
        (kept,) = [message["tool_calls"] for message in messages if message.get("tool_calls")]
        assert kept[0]["function"]["arguments"] == '{"zone": "CE'


async def test_half_of_a_surrogate_pair_in_arguments_does_not_spoil_its_thread() -> None:
    """Regression: llama-server refuses to read it, and with it every later request."""
    broken = {"tool_calls": [{"name": "clock__now", "arguments": '{"zone": "\\ud83d"}'}]}
    async with chatting(broken, {"text": "Noon."}, servers=clock()) as place:
        await place.text("What time is it?", thread="t")

        (sent,) = [m["tool_calls"] for m in place.model.last["messages"] if m.get("tool_calls")]
        assert json.loads(sent[0]["function"]["arguments"]) == {"zone": "\ufffd"}


async def test_rt_8_what_is_set_here_replaces_what_the_model_writes() -> None:
    schema = {
        "type": "object",
        "properties": {"thread_id": {"type": "string"}, "key": {"type": "string"}},
        "required": ["thread_id", "key"],
    }
    notes = FakeUpstream(
        tools={"remember": lambda _: text_result("kept")},
        definitions={"remember": {"name": "remember", "inputSchema": schema}},
    )
    step = {"tool_calls": [call("notes__remember", thread_id="forged", key="a")]}
    async with chatting(step, {"text": "Kept."}, servers={"notes": notes}) as place:
        await place.say("Remember the key a in my notes", thread="mine")

        tool = next(t for t in place.model.chats[0]["tools"] if "notes" in t["function"]["name"])
        assert tool["function"]["parameters"]["required"] == ["key"]
        assert notes.calls("remember")[0]["arguments"] == {"thread_id": "mine", "key": "a"}
        assert "notes__remember" in offered(place.model.last)


async def test_rt_8_tool_execute_does_not_let_a_model_set_it_either() -> None:
    schema = {"type": "object", "properties": {"thread_id": {"type": "string"}}}
    notes = FakeUpstream(
        tools=dict.fromkeys(("remember", "plain"), lambda _: text_result("kept")),
        definitions={"remember": {"name": "remember", "inputSchema": schema}},
    )
    keys = ("notes:remember", "notes:plain")
    step = {
        "tool_calls": [
            call("tool_execute", toolKey=key, arguments={"thread_id": "forged"}) for key in keys
        ]
    }
    async with chatting(step, {"text": "Kept."}, servers={"notes": notes}) as place:
        await place.say("Remember this in my notes", thread="mine")

    assert notes.calls("remember")[0]["arguments"] == {"thread_id": "mine"}
    assert notes.calls("plain")[0]["arguments"] == {}
