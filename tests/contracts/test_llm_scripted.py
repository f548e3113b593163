"""The model that says what a list says: what it has of the contract, without a service."""

import pytest

from toolgate.errors import ModelRequestError
from toolgate.models.llm import ChatModel, ChatRequest, Message, ToolCall, complete
from toolgate.models.llm.scripted import Options, build

STEPS = [
    {"user": "time", "call": {"name": "clock", "arguments": {"zone": "CET"}}},
    {"after": "clock", "say": "It is {result}."},
]


async def test_steps_answer_by_question_and_by_result() -> None:
    model = build(Options(steps=STEPS))
    question = Message(role="user", content="What time is it?")
    first = await complete(model, ChatRequest(messages=(question,)))
    call = first.message.calls[0]
    result = Message(role="tool", content="noon", call_id=call.call_id)
    second = await complete(model, ChatRequest(messages=(question, first.message, result)))

    assert isinstance(model, ChatModel)
    assert (call.name, call.read()) == ("clock", {"zone": "CET"})
    assert first.finish_reason == "tool_calls"
    assert second.message.text == "It is noon."
    assert second.usage.total_tokens > 0


async def test_what_no_step_fits_is_refused() -> None:
    with pytest.raises(ModelRequestError, match="nothing to say"):
        await complete(
            build(Options(steps=STEPS)),
            ChatRequest(messages=(Message(role="user", content="Hello"),)),
        )


def test_arguments_that_are_no_object_are_none() -> None:
    assert ToolCall(call_id="a", name="x", arguments="[1]").read() is None
    assert ToolCall(call_id="a", name="x", arguments="").read() == {}
