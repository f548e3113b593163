"""What spans hold: arguments only where they are asked for, and requests to models."""

import pytest

from tests.chat.chat_gateway import chatting
from tests.telemetry.spans import attributes, by_name, collected
from toolgate.settings import TraceSettings
from toolgate.testing import FakeUpstream, memory_app
from toolgate.types import Caller

SENT = {"city": "Rome", "password": "correct-horse-battery", "text": "x" * 9_000}


@pytest.mark.parametrize("asked", [False, True])
async def test_arguments_are_in_spans_only_when_asked_for_and_without_secrets(asked: bool) -> None:
    async with (
        memory_app({"a": FakeUpstream()}) as app,
        collected(TraceSettings(share=100, arguments=asked)) as spans,
    ):
        await app.gateway.call(Caller.local(), {"name": "a__echo", "arguments": SENT}, None)
    told = repr(spans)
    assert "correct-horse" not in told
    assert ("Rome" in told) is asked
    of_server = attributes(by_name(spans)["server"])
    assert of_server["toolgate.tool"] == "a:echo"
    assert ("toolgate.arguments" in of_server) is asked
    assert len(of_server.get("toolgate.arguments", "")) <= 4_000


async def test_each_request_to_a_model_of_a_turn_is_a_span_of_its_own() -> None:
    async with (
        chatting({"text": "Hello."}) as place,
        collected(TraceSettings(share=100)) as spans,
    ):
        await place.say("Hello?")
    [span] = [span for span in spans if span.name == "model"]
    assert attributes(span) == {"toolgate.model": "main", "toolgate.purpose": "answer"}
    assert span.parent_span_id
