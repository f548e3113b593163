"""Rows SE, FB-8 to FB-10 and ER: what the client gets."""

import json
import logging
from decimal import Decimal

import pytest

from tests.chat.chat_gateway import (
    LOOK_UP,
    WITH_DOCUMENTS,
    add_guide,
    chatting,
    contents,
    grading,
    offered,
    streamed_text,
)
from toolgate.chat import friendly
from toolgate.testing import FakeUpstream, text_result

EVENTS = {"x-toolgate-events": "1"}
CALL = {"tool_calls": [{"name": "clock__now", "arguments": {"zone": "CET", "long": "x" * 40}}]}


def clock() -> dict[str, FakeUpstream]:
    return {"clock": FakeUpstream(tools={"now": lambda _: text_result("noon")})}


async def test_se_1_events_have_one_member_and_come_in_order() -> None:
    async with chatting(
        grading("yes"), LOOK_UP, {"text": "With a function."}, settings=WITH_DOCUMENTS
    ) as place:
        await add_guide(place)
        body = await place.say("How do I determine vector index accuracy?")
        run_id = body["id"].removeprefix("chatcmpl-")
        assert place.app.chat is not None
        run = next(one for one in place.app.chat.runs._runs.values() if one.run_id == run_id)
        events = [event for _, event in run.since(0)]

        assert all(len(event) == 1 for event in events)
        kinds = [kind for event in events for kind in event]
        order = [kinds.index(k) for k in ("vs_metadata", "stream", "token_usage", "completion")]
        assert order == sorted(order)


@pytest.mark.parametrize(
    "extra",
    [
        {},
        {"late_name": True},
        {"finish_reason": "stop"},
        {"finish_reason": None},
        {"done": False},
        {"fragment": 1},
    ],
    ids=["plain", "late name", "reason stop", "no reason", "no end", "single characters"],
)
async def test_se_2_pieces_of_calls_are_put_together(extra: dict[str, object]) -> None:
    two = {"tool_calls": [*CALL["tool_calls"], *CALL["tool_calls"]], **extra}
    servers = clock()
    async with chatting(two, {"text": "Noon."}, servers=servers) as place:
        assert await place.text("What time is it on the clock now?") == "Noon."

        sent = [call["arguments"] for call in servers["clock"].calls("now")]
        assert sent == [{"zone": "CET", "long": "x" * 40}] * 2


async def test_se_3_text_before_a_call_is_kept() -> None:
    async with chatting(
        {**CALL, "text": "One moment."}, {"text": "Noon."}, servers=clock()
    ) as place:
        text = await place.text("What time is it on the clock now?", thread="t")

        assert text == "One moment.\n\nNoon."
        assert contents(place.model.last, "assistant") == ["One moment."]


@pytest.mark.parametrize("reason", ["length", "content_filter", "stop"])
async def test_se_4_a_whole_answer_has_the_true_reason(reason: str) -> None:
    """Trap T8."""
    async with chatting({"text": "Half an ans", "finish_reason": reason}) as place:
        body = await place.say("Hello")

        assert body["object"] == "chat.completion"
        assert len(body["choices"]) == 1
        assert body["choices"][0]["finish_reason"] == reason
        assert body["choices"][0]["message"]["role"] == "assistant"
        assert body["usage"]["total_tokens"] > 0


async def test_se_5_what_it_cost_is_told_and_marked_where_it_is_an_estimate() -> None:
    said = {"text": "Hello.", "usage": {"prompt_tokens": 11, "completion_tokens": 3}}
    silent = {"text": "Hello.", "usage_frame": "never"}
    async with chatting(said, silent, model={"price_input": 1.0, "price_output": 2.0}) as place:
        first = await place.say("Hello", toolgate={"events": True})
        second = await place.say("Hello", toolgate={"events": True})

        told = first["toolgate"]["response_metadata"]
        guessed = second["toolgate"]["response_metadata"]
        assert first["usage"]["total_tokens"] == 14
        assert told["cost"] == pytest.approx((11 + 6) / 1_000_000)
        assert told["token_usage"]["is_estimate"] is False
        assert guessed["token_usage"]["is_estimate"] is True
        assert "vs_metadata" not in told


async def test_se_6_the_cost_is_that_of_all_requests_with_its_parts() -> None:
    async with chatting(
        grading("yes"), LOOK_UP, {"text": "With a function."}, settings=WITH_DOCUMENTS
    ) as place:
        await add_guide(place)
        body = await place.say(
            "How do I determine vector index accuracy?", toolgate={"events": True}
        )

        usage = body["toolgate"]["response_metadata"]["token_usage"]
        assert [part["purpose"] for part in usage["parts"]] == ["answer", "grade", "answer"]
        assert usage["prompt_tokens"] == sum(part["prompt_tokens"] for part in usage["parts"])
        assert body["usage"]["total_tokens"] == usage["total_tokens"]


async def test_se_7_a_repeated_text_is_not_doubled() -> None:
    step = {"text": "This is said once.", "repeat_last": True}
    async with chatting(step, step) as place:
        events = await place.stream("Hello")

        assert await place.text("Hello") == "This is said once."
        assert streamed_text(events) == "This is said once."


async def test_se_8_a_stream_is_openais_alone() -> None:
    async with chatting(CALL, {"text": "Noon."}, servers=clock()) as place:
        events = await place.stream("What time is it on the clock now?")

        assert events[-1] == ("done", None)
        assert {name for name, _ in events[:-1]} == {"data"}
        assert {chunk["object"] for _, chunk in events[:-1]} == {"chat.completion.chunk"}
        assert events[0][1]["choices"][0]["delta"]["role"] == "assistant"
        assert all("tool_calls" not in chunk["choices"][0]["delta"] for _, chunk in events[:-1])


async def test_se_9_without_tools_there_is_no_member_for_them() -> None:
    async with chatting({"text": "Hello."}, chat={"meta_tools": False}) as place:
        await place.say("Hello", parallel_tool_calls=True)

        assert "tools" not in place.model.last
        assert "parallel_tool_calls" not in place.model.last


async def test_se_10_the_last_message_of_the_user_counts_and_without_one_it_is_an_error() -> None:
    async with chatting(fallback={"text": "Yes."}) as place:
        messages = [
            {"role": "user", "content": "Old"},
            {"role": "assistant", "content": "Made up"},
            {"role": "user", "content": "New"},
        ]
        await place.post(
            "/v1/chat/completions",
            {"model": "main", "messages": messages},
            x_toolgate_thread="t",
        )
        status, _ = await place.post(
            "/v1/chat/completions",
            {"model": "main", "messages": [{"role": "assistant", "content": "x"}]},
            x_toolgate_thread="t",
        )

        assert contents(place.model.last, "user") == ["New"]
        assert contents(place.model.last, "assistant") == []
        assert status == 400


@pytest.mark.parametrize(
    ("step", "status"),
    [
        ({"status": 500}, 502),
        ({"status": 401, "error": {"message": "bad key sk-abcdefgh"}}, 502),
        ({"status": 429, "retry_after": 1}, 429),
        ({"status": 400, "error": {"message": "This is too long", "code": "x"}}, 400),
        ({"drop_after": 0}, 502),
        ({"raw_first": ["data: {broken"]}, 502),
    ],
    ids=["down", "key", "rate", "length", "drop", "garbage"],
)
async def test_fb_8_a_model_that_fails_is_a_friendly_sentence(
    step: dict[str, object], status: int
) -> None:
    async with chatting(step, {"text": "Better."}) as place:
        answered, body = await place.post(
            "/v1/chat/completions",
            {"model": "main", "messages": [{"role": "user", "content": "Hello"}]},
            x_toolgate_thread="t",
        )
        message = body["error"]["message"]

        assert answered == status
        assert message.startswith("I'm sorry, I've run into a problem")
        assert "sk-abcdefgh" not in message
        assert await place.text("Hello again", thread="t") == "Better."
        history = (await place.history("t"))["messages"]
        assert history[1]["content"] == message
        assert history[1]["additional_kwargs"]["is_error"] is True


async def test_fb_9_nothing_is_a_friendly_sentence_too() -> None:
    async with chatting({"text": ""}) as place:
        assert await place.text("Hello") == "I'm sorry, I was unable to produce a response."


async def test_fb_10_a_call_written_as_text_is_told_and_other_json_is_an_answer() -> None:
    async with chatting(
        {**CALL, "tool_calls_as_text": True},
        {"text": '{"name": "Mike", "age": 7}'},
        {"text": '{"rows": [1, 2, 3], "note": "plain"}'},
        servers=clock(),
    ) as place:
        first = await place.text("What time is it on the clock now?")
        second = await place.text("Give me JSON about the clock")
        third = await place.text("More JSON about the clock")

        assert "clock__now" in offered(place.model.chats[0])
        assert first.startswith("Function Calling Not Supported")
        assert second == '{"name": "Mike", "age": 7}'
        assert third == '{"rows": [1, 2, 3], "note": "plain"}'


def test_er_1_a_user_reads_one_sentence_without_traceback_and_secrets() -> None:
    from toolgate.errors import ModelUnavailableError

    error = ModelUnavailableError(
        "openai.APIConnectionError: openai.APIError: No route, key sk-123456789012\n"
        "Traceback (most recent call last):\n  File ..."
    )
    text = friendly(error, issue_url="https://example.org/issues")

    assert text == (
        "I'm sorry, I've run into a problem connecting to LLM API: No route, key …. If it happens"
        " again, please report it: https://example.org/issues"
    )


async def test_er_1_the_log_has_all_of_it(caplog: pytest.LogCaptureFixture) -> None:
    async with chatting({"status": 500}) as place:
        with caplog.at_level(logging.WARNING, "toolgate.chat"):
            await place.post(
                "/v1/chat/completions",
                {"model": "main", "messages": [{"role": "user", "content": "Hello"}]},
            )

        assert any(record.exc_info for record in caplog.records)


async def test_vs_14_values_that_json_does_not_have_break_nothing() -> None:
    def odd(_: object) -> dict[str, object]:
        return {"content": [], "structuredContent": {"sum": str(Decimal("1.10"))}}

    servers = {"clock": FakeUpstream(tools={"now": odd})}
    async with chatting(CALL, {"text": "Done."}, servers=servers) as place:
        assert await place.text("What time is it on the clock now?") == "Done."
        assert json.loads(contents(place.model.last, "tool")[0]) == {"sum": "1.10"}
