"""Rows MS: what the model is sent, looked at where it arrived."""

import copy
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chat.chat_gateway import (
    LOOK_UP,
    RETRIEVER,
    WITH_DOCUMENTS,
    add_guide,
    answers,
    chatting,
    check_pairs,
    contents,
    grading,
    offered,
    roles,
)
from toolgate.chat import clean_messages, repair, unanswered, without_internal
from toolgate.models.llm import Message, ToolCall, message_json
from toolgate.testing import FakeUpstream, text_result

CALL = {"tool_calls": [{"name": "clock__now", "arguments": {}}]}


def clock() -> dict[str, object]:
    return {"clock": FakeUpstream(tools={"now": lambda _: text_result("noon")})}


# Any history

_ids = st.sampled_from(["a", "b", "c"])
_text = st.sampled_from(["", "Hello", "More"])
_calls = st.lists(st.builds(ToolCall, call_id=_ids, name=st.just("t")), max_size=3).map(tuple)
_messages = st.lists(
    st.one_of(
        st.builds(Message, role=st.just("system"), content=_text),
        st.builds(Message, role=st.just("user"), content=_text),
        st.builds(Message, role=st.just("assistant"), content=_text, calls=_calls),
        st.builds(
            Message,
            role=st.just("tool"),
            content=_text,
            call_id=_ids,
            notes=st.sampled_from(
                [{}, {"policy": "stub"}, {"policy": "drop_pair"}, {"internal_vs": True}]
            ),
        ),
    ),
    max_size=12,
)


@settings(max_examples=300, deadline=None)
@given(_messages)
def test_ms_3_any_history_is_repaired_into_whole_pairs_once_and_for_all(
    messages: list[Message],
) -> None:
    before = copy.deepcopy(messages)
    repaired = repair(messages)
    body = {"messages": [message_json(one) for one in repaired]}

    check_pairs(body)
    assert messages == before
    assert repair(repaired) == repaired
    assert repair(messages) == repaired
    assert unanswered(repaired) == ()
    assert [one.role for one in repaired].count("system") == min(
        1, [one.role for one in messages].count("system")
    )
    assert repaired[:1] == tuple(one for one in repaired if one.role == "system")[:1] or not any(
        one.role == "system" for one in repaired
    )
    said = [one for one in messages if one.role == "user"]
    assert [one for one in repaired if one.role == "user"] == said


@settings(max_examples=300, deadline=None)
@given(_messages)
def test_ms_3_policies_leave_whole_pairs_in_any_history(messages: list[Message]) -> None:
    cleaned = clean_messages(repair(messages))

    check_pairs({"messages": [message_json(one) for one in cleaned]})
    assert not any(one.notes.get("policy") == "drop_pair" for one in cleaned if one.role == "tool")
    assert repair(cleaned) == cleaned


def test_ms_2_what_is_marked_as_internal_is_left_out_whatever_its_name() -> None:
    marked = Message(role="tool", call_id="a", name="clock", notes={"internal_vs": True})
    other = Message(role="tool", call_id="b", name="documents__retriever")

    assert without_internal([marked, other]) == (other,)


# Turns


async def test_ms_1_there_is_one_system_message_first_and_made_anew() -> None:
    async with chatting(CALL, fallback={"text": "Noon."}, servers=clock()) as place:
        await place.say("What time is it on the clock now?", thread="t")
        url = f"{place.url}/api/v1/prompts/tools-default"
        async with place.session.patch(url, json={"instructions": "Be brief."}) as answer:
            assert answer.status == 200
        await place.say("And now?", thread="t")

        for body in place.model.chats:
            assert roles(body).index("system") == 0
            assert roles(body).count("system") == 1
        assert contents(place.model.last, "system") == ["Be brief."]


async def test_ms_4_ms_5_without_history_a_turn_stands_alone_and_is_not_sent_later() -> None:
    async with chatting(CALL, fallback={"text": "Noon."}, servers=clock()) as place:
        await place.say("First question", thread="t")
        await place.say("Second, about the clock", thread="t", toolgate={"history": False})
        alone = place.model.last
        await place.say("Third", thread="t")

        assert contents(alone, "user") == ["Second, about the clock"]
        assert contents(place.model.last, "user") == ["First question", "Third"]


async def test_ms_5_what_was_said_while_history_was_off_is_not_sent_later() -> None:
    async with chatting(fallback={"text": "Yes."}) as place:
        await place.say("Secret", thread="t", toolgate={"history": False})
        await place.say("Open", thread="t")

        assert contents(place.model.last, "user") == ["Open"]
        assert "Secret" in json.dumps(await place.history("t"))


async def test_ms_6_documents_that_help_are_sent_once_and_a_line_later() -> None:
    async with chatting(
        grading("yes"),
        LOOK_UP,
        {"text": "With a function."},
        {"text": "Gladly."},
        settings=WITH_DOCUMENTS,
    ) as place:
        await add_guide(place)
        await place.say("How do I determine vector index accuracy?", thread="t")
        body = json.dumps(place.model.last)
        await place.say("Thank you", thread="t")

        assert body.count("INDEX_ACCURACY_QUERY") == 1
        assert contents(place.model.last, "tool") == [
            "Relevant documents found for: 'How do I determine vector index accuracy?' (2 passages)"
        ]
        check_pairs(place.model.last)


async def test_ms_6_in_the_system_message_documents_are_sent_once_too() -> None:
    async with chatting(
        grading("yes"),
        LOOK_UP,
        {"text": "With a function."},
        settings=WITH_DOCUMENTS,
        chat={"inject": "system"},
    ) as place:
        await add_guide(place)
        await place.say("How do I determine vector index accuracy?")

        assert "Relevant Context:" in contents(place.model.last, "system")[0]
        assert json.dumps(place.model.last).count("INDEX_ACCURACY_QUERY") == 1


async def test_ms_6_documents_that_do_not_help_leave_no_trace_in_the_request() -> None:
    """Trap T3; the tool is withheld, or it would be called again until the limit."""
    async with chatting(
        grading("no"),
        LOOK_UP,
        {"text": "Hello Mike."},
        {"text": "Hello again."},
        settings=WITH_DOCUMENTS,
    ) as place:
        await add_guide(place)
        await place.say("Hello, my name is Mike, what is an index?", thread="t")
        first, second = (body for body in place.model.chats if answers(body))
        await place.say("Who am I?", thread="t")

        assert second["messages"] == first["messages"]
        assert RETRIEVER in offered(first)
        assert RETRIEVER not in offered(second)
        assert roles(place.model.last) == ["system", "user", "assistant", "user"]


async def test_ms_7_what_is_kept_is_what_was_said() -> None:
    async with chatting(
        CALL,
        {"text": "Noon."},
        {"text": "Still."},
        servers=clock(),
        chat={"results": {"clock:*": "drop_pair"}},
    ) as place:
        await place.say("What time is it on the clock now?", thread="t")
        before = await place.history("t")
        await place.say("And now?", thread="t")
        after = await place.history("t")

        assert after["messages"][: len(before["messages"])] == before["messages"]
        assert roles(place.model.last) == ["system", "user", "assistant", "user"]


async def test_ms_8_for_a_model_without_calls_results_are_a_message_of_the_user() -> None:
    async with chatting(
        CALL, {"text": "Noon."}, servers=clock(), model={"tool_messages": False}
    ) as place:
        assert await place.text("What time is it on the clock now?") == "Noon."

        assert roles(place.model.last) == ["system", "user", "user"]
        context = contents(place.model.last, "user")[1]
        assert context.startswith("Here is relevant context")
        assert "noon" in context


async def test_a_long_thread_is_made_shorter_and_its_history_keeps_everything() -> None:
    big = FakeUpstream(tools={"dump": lambda _: text_result("row " * 1500)})
    call = {"tool_calls": [{"name": "big__dump", "arguments": {}}]}
    summing = {"when": {"user": "Sum up the conversation"}, "reply": {"text": "Rows were dumped."}}
    asked = {"when": {"user": "dump", "has_tool_results": False}, "reply": call}
    async with chatting(
        summing,
        asked,
        fallback={"text": "Done."},
        servers={"big": big},
        model={"context_tokens": 8_000},
        chat={"keep_turns": 1},
    ) as place:
        for number in range(6):
            await place.say(f"Number {number}: dump the big rows", thread="t")
        messages = (await place.history("t"))["messages"]

        size = len(json.dumps(place.model.last["messages"]))
        assert size < 8_000 * 4
        assert "[result of big__dump" in json.dumps(place.model.last)
        assert [m["content"] for m in messages if m["role"] == "tool"] == ["row " * 1500] * 6
        check_pairs(place.model.last)
