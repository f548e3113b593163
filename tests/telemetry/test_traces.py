"""Traces: taken from whoever asks, passed on to whoever is asked, recorded in between."""

import re

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.serve.doors import headers_for, modern
from tests.telemetry.test_metrics import opened
from toolgate.observe import join_trace, parse_trace
from toolgate.settings import Settings, TraceSettings
from toolgate.store import AuditFilter
from toolgate.telemetry._traces import Tracer
from toolgate.testing import FakeUpstream, memory_app
from toolgate.types import Caller

pytestmark = pytest.mark.anyio

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
GIVEN = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    "text",
    [
        "",
        None,
        7,
        "00",
        GIVEN[:-1],
        GIVEN.upper(),
        GIVEN.replace(TRACE, "0" * 32),
        GIVEN.replace("00f067aa0ba902b7", "0" * 16),
    ],
)
async def test_what_is_no_traceparent_names_no_trace(text: object) -> None:
    assert parse_trace(text) is None


async def test_a_trace_is_passed_on_unchanged_where_none_are_recorded() -> None:
    join_trace(None)
    server = FakeUpstream()
    async with memory_app({"a": server}) as app:
        sent = {"name": "a__echo", "arguments": {}, "_meta": {"traceparent": GIVEN}}
        await app.gateway.call(Caller(), sent, None)
        [call] = server.calls("echo")
        assert call["_meta"]["traceparent"] == GIVEN
    join_trace(None)


async def test_spans_of_a_call_belong_together_and_to_whoever_asked() -> None:
    exporter = InMemorySpanExporter()
    tracer = Tracer(TraceSettings(share=100), processor=SimpleSpanProcessor(exporter))
    async with opened(Settings(optimization="bm25")) as (_, client):
        with tracer.recording():
            answer = await client.post(
                "/api/v1/execute", json={"toolKey": "a:good", "arguments": {"secret": "hush"}},
                headers={"traceparent": GIVEN},
            )  # fmt: skip
            assert answer.status_code == 200, answer.text
            spans = {span.name: span for span in exporter.get_finished_spans()}
    assert {"request", "identity", "arguments", "server"} <= spans.keys()
    assert {f"{span.context.trace_id:032x}" for span in spans.values() if span.context} == {TRACE}
    request, server = spans["request"], spans["server"]
    assert request.parent is not None
    assert f"{request.parent.span_id:016x}" == "00f067aa0ba902b7"
    assert server.parent is not None
    assert request.context is not None
    assert server.parent.span_id == request.context.span_id
    assert "hush" not in repr([span.attributes for span in spans.values()])


async def test_receipts_name_the_trace_of_the_header_and_meta_counts_before_it() -> None:
    other = GIVEN.replace(TRACE, "5" * 32)
    async with opened(Settings(optimization="bm25")) as (app, client):
        for path, body in (
            ("discover", {"query": "good"}),
            ("execute", {"toolKey": "a:good", "arguments": {}}),
            ("execute", {"toolKey": "a:none", "arguments": {}}),
        ):
            await client.post(f"/api/v1/{path}", json=body, headers={"traceparent": GIVEN})
        asked = modern(
            "tools/call", {"name": "a__good", "arguments": {}, "_meta": {"traceparent": other}}
        )
        headers = {"traceparent": GIVEN, **headers_for(asked)}
        assert (await client.post("/mcp", json=asked, headers=headers)).status_code == 200
        await app.recorder.flush()
        found = await app.store.audit(AuditFilter(oldest_first=True))
    named = [(one.action, one.phase, one.detail.get("trace_id")) for one in found]
    assert ("discover", "outcome", TRACE) in named
    assert ("call", "intent", TRACE) in named
    assert [one for one in named if one[2] is None] == []
    assert ("call", "intent", "5" * 32) in named


async def test_the_server_is_told_which_span_asks_it() -> None:
    join_trace(None)
    exporter = InMemorySpanExporter()
    tracer = Tracer(TraceSettings(share=100), processor=SimpleSpanProcessor(exporter))
    server = FakeUpstream()
    async with memory_app({"a": server}) as app:
        with tracer.recording():
            await app.gateway.call(Caller(), {"name": "a__echo", "arguments": {}}, None)
            spans = {span.name: span for span in exporter.get_finished_spans()}
        [call] = server.calls("echo")
    told = re.fullmatch(r"00-([0-9a-f]{32})-([0-9a-f]{16})-01", call["_meta"]["traceparent"])
    assert told is not None
    asking = spans["server"].context
    assert asking is not None
    assert told[2] == f"{asking.span_id:016x}"
    join_trace(None)


async def test_a_share_of_nothing_records_nothing() -> None:
    join_trace(None)
    exporter = InMemorySpanExporter()
    tracer = Tracer(TraceSettings(share=0), processor=SimpleSpanProcessor(exporter))
    async with memory_app({"a": FakeUpstream()}) as app:
        with tracer.recording():
            await app.gateway.call(Caller(), {"name": "a__echo", "arguments": {}}, None)
            assert exporter.get_finished_spans() == ()
    join_trace(None)
