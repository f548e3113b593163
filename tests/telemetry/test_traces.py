"""Traces: taken from whoever asks, passed on to whoever is asked, recorded in between."""

import io
import json
import logging
import re

import httpx2
import pytest

from tests.server.http_gateway import INITIALIZE, headers_for, modern
from tests.telemetry.spans import by_name, collected
from tests.telemetry.test_metrics import opened, scraped
from toolgate.base.logs import JsonLines
from toolgate.base.tracing import join_trace, parse_trace
from toolgate.settings import LogSettings, Settings, TraceSettings
from toolgate.store import AuditFilter
from toolgate.testing import FakeUpstream, memory_app
from toolgate.types import Caller

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
        f"{GIVEN}-00",
        f"ff{GIVEN[2:]}",
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
        await app.gateway.call(Caller.local(), sent, None)
        [call] = server.calls("echo")
        assert call["_meta"]["traceparent"] == GIVEN
    join_trace(None)


async def test_a_later_version_of_traceparent_is_read_as_far_as_it_is_known() -> None:
    """https://www.w3.org/TR/trace-context/#versioning-of-traceparent."""
    found = parse_trace(f"01{GIVEN[2:-2]}ff-more", "a=1,b=2")
    assert found == (TRACE, "00f067aa0ba902b7", "03", "a=1,b=2")
    assert parse_trace(GIVEN, "a=1\r\nx-other: 2") == (TRACE, "00f067aa0ba902b7", "01", "")


@pytest.mark.parametrize("by", ["header", "meta"])
async def test_tracestate_goes_on_with_its_traceparent_and_with_no_other(by: str) -> None:
    names = {"traceparent": GIVEN, "tracestate": "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"}
    server = FakeUpstream()
    async with opened(Settings(optimization="bm25"), {"a": server}) as (_, client):
        for headers, meta in (
            (names, {}) if by == "header" else ({}, names),
            ({"traceparent": GIVEN}, {"tracestate": "of=another"}),
        ):
            asked = modern("tools/call", {"name": "a__echo", "arguments": {}, "_meta": meta})
            answer = await client.post("/mcp", json=asked, headers=headers_for(asked) | headers)
            assert answer.status_code == 200
    passed, stale = (call["_meta"] for call in server.calls("echo"))
    assert names.items() <= passed.items()
    assert stale["traceparent"] == GIVEN
    assert "tracestate" not in stale


async def test_spans_of_a_call_belong_together_and_to_whoever_asked() -> None:
    async with (
        opened(Settings(optimization="bm25")) as (_, client),
        collected(TraceSettings(share=0)) as found,
    ):
        answer = await client.post(
            "/api/v1/execute", json={"toolKey": "a:good", "arguments": {"secret": "hush"}},
            headers={"traceparent": GIVEN},
        )  # fmt: skip
        assert answer.status_code == 200, answer.text
    spans = by_name(found)
    assert {"request", "identity", "arguments", "server"} <= spans.keys()
    assert {span.trace_id.hex() for span in found} == {TRACE}
    request, server = spans["request"], spans["server"]
    assert request.parent_span_id.hex() == "00f067aa0ba902b7"
    assert server.parent_span_id == request.span_id
    assert "hush" not in repr(found)


async def test_a_request_whose_message_names_the_trace_is_one_tree_too() -> None:
    """`_meta` is read after the request has begun; its time is counted once."""
    async with (
        opened(Settings(optimization="bm25")) as (_, client),
        collected(TraceSettings(share=0)) as found,
    ):
        meta = {"traceparent": GIVEN}
        asked = modern("tools/call", {"name": "a__good", "arguments": {}, "_meta": meta})
        answer = await client.post("/mcp", json=asked, headers=headers_for(asked))
        assert answer.status_code == 200
        numbers = await scraped(client)
    assert sorted(span.name for span in found) == ["identity", "request", "server"]
    spans = by_name(found)
    assert {span.trace_id.hex() for span in found} == {TRACE}
    assert spans["request"].parent_span_id.hex() == "00f067aa0ba902b7"
    assert spans["server"].parent_span_id == spans["request"].span_id
    assert numbers["toolgate_stage_duration_seconds_count", "request"] == 1


@pytest.mark.parametrize("era", ["modern", "handshake", "rest"])
async def test_each_line_of_the_log_over_http_has_the_trace_of_its_records(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="toolgate.server")
    handler = logging.StreamHandler(told := io.StringIO())
    handler.setFormatter(JsonLines())
    log = logging.getLogger("toolgate.server")
    log.addHandler(handler)
    wanted = Settings(optimization="bm25", log=LogSettings(requests="on"))
    try:
        async with opened(wanted) as (app, client):
            await _called(client, era)
            await app.recorder.flush()
            records = await app.store.audit.select(AuditFilter(action="call"))
    finally:
        log.removeHandler(handler)
    lines = [json.loads(line) for line in told.getvalue().splitlines()]
    assert all(re.fullmatch("[0-9a-f]{32}", line["trace_id"]) for line in lines)
    [found] = [line for line in lines if line["request_id"] == records[0].request_id]
    assert {record.detail["trace_id"] for record in records} == {found["trace_id"]}
    assert "hush" not in told.getvalue()


async def _called(client: httpx2.AsyncClient, era: str) -> None:
    params = {"name": "a__good", "arguments": {"text": "hush"}}
    if era == "rest":
        body = {"toolKey": "a:good", "arguments": params["arguments"]}
        answer = await client.post("/api/v1/execute", json=body)
    elif era == "modern":
        asked = modern("tools/call", params)
        answer = await client.post("/mcp", json=asked, headers=headers_for(asked))
    else:
        accepted = {"accept": "application/json, text/event-stream"}
        begun = await client.post("/mcp", json=INITIALIZE, headers=accepted)
        headers = accepted | {
            "mcp-session-id": begun.headers["mcp-session-id"],
            "mcp-protocol-version": "2025-11-25",
        }
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await client.post("/mcp", json=ready, headers=headers)
        asked = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        answer = await client.post("/mcp", json=asked, headers=headers)
    assert answer.status_code == 200


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
        found = await app.store.audit.select(AuditFilter(oldest_first=True))
    named = [(one.action, one.phase, one.detail.get("trace_id")) for one in found]
    assert ("discover", "outcome", TRACE) in named
    assert ("call", "intent", TRACE) in named
    assert [one for one in named if one[2] is None] == []
    assert ("call", "intent", "5" * 32) in named


async def test_the_server_is_told_which_span_asks_it() -> None:
    server = FakeUpstream()
    async with (
        memory_app({"a": server}) as app,
        collected(TraceSettings(share=100)) as spans,
    ):
        await app.gateway.call(Caller.local(), {"name": "a__echo", "arguments": {}}, None)
        [call] = server.calls("echo")
    told = re.fullmatch(r"00-([0-9a-f]{32})-([0-9a-f]{16})-01", call["_meta"]["traceparent"])
    assert told is not None
    asking = by_name(spans)["server"]
    assert told.groups() == (asking.trace_id.hex(), asking.span_id.hex())


async def test_a_share_of_nothing_records_nothing_and_tells_servers_so() -> None:
    server = FakeUpstream()
    async with (
        memory_app({"a": server}) as app,
        collected(TraceSettings(share=0)) as spans,
    ):
        await app.gateway.call(Caller.local(), {"name": "a__echo", "arguments": {}}, None)
        [call] = server.calls("echo")
    assert spans == []
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-00", call["_meta"]["traceparent"])


async def test_a_trace_that_comes_unrecorded_is_not_recorded_here() -> None:
    async with (
        opened(Settings(optimization="bm25")) as (_, client),
        collected(TraceSettings(share=100)) as spans,
    ):
        headers = {"traceparent": f"{GIVEN[:-2]}00"}
        answer = await client.post("/api/v1/discover", json={"query": "x"}, headers=headers)
        assert answer.status_code == 200
    assert spans == []


async def test_the_share_is_decided_by_the_id_of_the_trace() -> None:
    """https://opentelemetry.io/docs/specs/otel/trace/sdk/#traceidratiobased."""
    async with (
        opened(Settings(optimization="bm25")) as (_, client),
        collected(TraceSettings(share=25)) as spans,
    ):
        for _ in range(100):
            assert (await client.get("/healthz")).status_code == 200
    assert 5 <= len(spans) <= 50
    assert all(int(span.trace_id.hex()[16:], 16) < 2**62 for span in spans)
