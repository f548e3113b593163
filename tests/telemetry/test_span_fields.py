"""What spans hold: arguments only where they are asked for, and requests to models."""

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.chat.place import chatting
from toolgate.observe import join_trace
from toolgate.settings import TraceSettings
from toolgate.telemetry._traces import Tracer
from toolgate.testing import FakeUpstream, memory_app
from toolgate.types import Caller

pytestmark = pytest.mark.anyio

SENT = {"city": "Rome", "password": "correct-horse-battery", "text": "x" * 9_000}


@pytest.mark.parametrize("asked", [False, True])
async def test_arguments_are_in_spans_only_when_asked_for_and_without_secrets(asked: bool) -> None:
    join_trace(None)
    exporter = InMemorySpanExporter()
    settings = TraceSettings(share=100, arguments=asked)
    tracer = Tracer(settings, processor=SimpleSpanProcessor(exporter))
    async with memory_app({"a": FakeUpstream()}) as app:
        with tracer.recording():
            await app.gateway.call(Caller(), {"name": "a__echo", "arguments": SENT}, None)
            spans = {span.name: span for span in exporter.get_finished_spans()}
    told = repr([span.attributes for span in spans.values()])
    assert "correct-horse" not in told
    assert ("Rome" in told) is asked
    attributes = spans["server"].attributes
    assert attributes is not None
    assert ("toolgate.arguments" in attributes) is asked
    assert len(str(attributes.get("toolgate.arguments", ""))) <= 4_000
    join_trace(None)


async def test_each_request_to_a_model_of_a_turn_is_a_span_of_its_own() -> None:
    join_trace(None)
    exporter = InMemorySpanExporter()
    tracer = Tracer(TraceSettings(share=100), processor=SimpleSpanProcessor(exporter))
    async with chatting({"text": "Hello."}) as place:
        with tracer.recording():
            await place.say("Hello?")
            models = [span for span in exporter.get_finished_spans() if span.name == "model"]
    [span] = models
    assert span.attributes is not None
    assert span.attributes["toolgate.model"] == "main"
    assert span.attributes["toolgate.purpose"] == "answer"
    assert span.parent is not None
    join_trace(None)
