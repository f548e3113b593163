"""Spans reach a collector as the library of OpenTelemetry would send them, or are counted."""

import time
from collections.abc import Callable, Generator
from dataclasses import replace

import anyio
import anyio.lowlevel
import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceState

import toolgate
from tests.limits import HANG_S
from tests.telemetry.spans import by_name, read, spans_of
from tests.telemetry.test_metrics import opened, scraped
from toolgate.base.tracing import join_trace, observe, parse_trace
from toolgate.errors import SettingError
from toolgate.settings import Settings, TraceSettings, otlp_variables, service_attributes
from toolgate.telemetry.traces import Tracer
from toolgate.testing import FakeReply, fake_service

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
GIVEN = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.fixture(autouse=True)
def _traced() -> Generator[None]:
    join_trace(parse_trace(GIVEN, "rojo=1"))
    yield
    join_trace(None)


def work(times: int = 1) -> None:
    """Stages, `inner` in `server`, which fails."""
    for _ in range(times):
        with pytest.raises(KeyError), observe("server", tool='a:"é"\ud800'), observe("inner"):
            raise KeyError


async def test_what_is_sent_is_what_the_library_of_opentelemetry_sends() -> None:
    """The same message, but for the flags of the trace (0 to 7), which that library leaves out."""
    variables = otlp_variables({"OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=dev%20a"})
    async with fake_service(lambda _: {}) as service:
        tracer = Tracer(TraceSettings(endpoint=f"{service.url}/v1/traces"), variables=variables)
        began = time.time_ns()
        async with tracer.recording():
            work()
        ended = time.time_ns()
        [asked] = service.requests
    assert asked.path == "/v1/traces"
    assert asked.headers["Content-Type"] == "application/json"
    came = read(asked.body)
    spans = by_name(spans_of(service))
    inner, server = spans["inner"], spans["server"]
    for span in (inner, server):
        assert began <= span.start_time_unix_nano <= span.end_time_unix_nano <= ended
        assert span.flags & 0xFF == 1

    def context(span_id: bytes, *, is_remote: bool = False) -> SpanContext:
        number = int.from_bytes(span_id, "big")
        state = TraceState([("rojo", "1")])
        return SpanContext(int(TRACE, 16), number, is_remote, trace_state=state)

    resource = Resource(
        {
            "deployment.environment": "dev a",
            "service.name": "toolgate",
            "service.instance.id": service_attributes()["service.instance.id"],
            "service.version": toolgate.__version__,
            "telemetry.sdk.name": "toolgate",
            "telemetry.sdk.language": "python",
            "telemetry.sdk.version": toolgate.__version__,
        }
    )
    caller = context(bytes.fromhex("00f067aa0ba902b7"), is_remote=True)
    wanted = encode_spans(
        [
            ReadableSpan(
                name=span.name,
                context=context(span.span_id),
                parent=parent,
                resource=resource,
                attributes=attributes,
                kind=kind,
                status=Status(StatusCode.ERROR),
                start_time=span.start_time_unix_nano,
                end_time=span.end_time_unix_nano,
                instrumentation_scope=InstrumentationScope("toolgate", toolgate.__version__),
            )
            for span, parent, kind, attributes in (
                (inner, context(server.span_id), SpanKind.INTERNAL, {}),
                (server, caller, SpanKind.CLIENT, {"toolgate.tool": 'a:"é"\ufffd'}),
            )
        ]
    )
    for span in came.resource_spans[0].scope_spans[0].spans:
        span.flags &= ~0xFF
    assert came == wanted


async def test_the_variables_of_opentelemetry_say_how_spans_are_sent() -> None:
    variables = otlp_variables(
        {
            "OTEL_EXPORTER_OTLP_HEADERS": "x-team=web, Authorization=Bearer%20abc",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
            "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION": "gzip",
            "OTEL_RESOURCE_ATTRIBUTES": "service.name=other,host.name=one",
            "OTEL_SERVICE_NAME": "gate",
        }
    )
    async with fake_service(lambda _: {}) as service:
        tracer = Tracer(TraceSettings(endpoint=service.url), variables=variables)
        async with tracer.recording():
            work()
        [asked] = service.requests
    headers = {name.lower(): value for name, value in asked.headers.items()}
    assert headers["authorization"] == "Bearer abc"
    assert headers["x-team"] == "web"
    assert headers["content-encoding"] == "gzip"
    [resource] = read(asked.body).resource_spans
    told = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert (told["service.name"], told["host.name"]) == ("gate", "one")


async def test_variables_that_cannot_be_used_are_told_without_what_they_say(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = otlp_variables(
        {
            "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
            "OTEL_EXPORTER_OTLP_HEADERS": "s3cret-without-a-name,bad name=x",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "soon",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "zstd",
            "OTEL_BSP_MAX_QUEUE_SIZE": "100",
        }
    )
    assert (found.headers, found.timeout_s, found.compression) == ({}, 10.0, "")
    assert (found.queue, found.batch) == (100, 100)
    assert "spans are sent as OTLP over HTTP in JSON" in caplog.messages
    assert len(caplog.records) == 4
    assert not any("s3cret" in str(vars(record)) for record in caplog.records)


async def test_a_certificate_that_is_none_is_told_before_anything_is_served() -> None:
    variables = otlp_variables({"OTEL_EXPORTER_OTLP_CERTIFICATE": "/nowhere/ca.pem"})
    with pytest.raises(SettingError, match=r"/nowhere/ca\.pem cannot be used as certificates"):
        Tracer(TraceSettings(endpoint="https://127.0.0.1:1"), variables=variables)


@pytest.mark.parametrize(
    "refusal",
    [
        FakeReply(status=503),
        FakeReply(status=429, headers={"retry-after": "0"}),
        FakeReply(status=502),
    ],
    ids=["503", "429", "502"],
)
async def test_what_a_collector_refuses_for_now_is_sent_again(
    refusal: FakeReply, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolgate.telemetry.traces._PAUSE_S", 0.01)
    answers: list[object] = [refusal, refusal, {}]
    async with fake_service(lambda _: answers.pop(0)) as service:
        tracer = Tracer(TraceSettings(endpoint=service.url), variables=otlp_variables({}))
        async with tracer.recording():
            work()
            with anyio.fail_after(HANG_S):
                await tracer.flush()
        first, *others = service.requests
    assert [one.body for one in others] == [first.body] * 2
    assert (tracer.sent, tracer.dropped) == (2, 0)


@pytest.mark.parametrize("status", [400, 401, 404, 500, 307])
async def test_what_a_collector_refuses_for_good_is_counted_and_told_once(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[object] = [FakeReply(status=status), FakeReply(status=status), {}]
    async with fake_service(lambda _: answers.pop(0)) as service:
        tracer = Tracer(TraceSettings(endpoint=service.url), variables=otlp_variables({}))
        async with tracer.recording():
            for _ in range(3):
                work()
                await tracer.flush()
        assert len(service.requests) == 3
    assert (tracer.sent, tracer.dropped) == (2, 4)
    told = [record for record in caplog.records if record.name == "toolgate.telemetry.traces"]
    assert [record.message for record in told] == ["spans cannot be sent", "spans were lost"]
    assert vars(told[0])["reason"] == f"it answered with status {status}"
    assert [vars(record)["spans"] for record in told] == [2, 2]


async def test_spans_that_a_collector_rejects_of_a_batch_are_counted() -> None:
    answer = {"partialSuccess": {"rejectedSpans": "3", "errorMessage": "too old"}}
    async with fake_service(lambda _: answer) as service:
        tracer = Tracer(TraceSettings(endpoint=service.url), variables=otlp_variables({}))
        async with tracer.recording():
            work(5)
    assert (tracer.sent, tracer.dropped) == (7, 3)


async def test_no_more_spans_wait_than_may_and_the_rest_is_counted() -> None:
    variables = otlp_variables({"OTEL_BSP_MAX_QUEUE_SIZE": "3"})
    async with fake_service(lambda _: {}) as service:
        tracer = Tracer(TraceSettings(endpoint=service.url), variables=variables)
        async with tracer.recording():
            work(4)
    assert (tracer.sent, tracer.dropped) == (3, 5)
    assert len(spans_of(service)) == 3


async def test_a_full_batch_is_sent_at_once_and_the_rest_in_time() -> None:
    variables = otlp_variables({"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "4"})
    async with fake_service(lambda _: {}) as service:
        for delay_s, spans in ((3_600.0, 2), (0.01, 1)):
            tracer = Tracer(
                TraceSettings(endpoint=service.url), variables=replace(variables, delay_s=delay_s)
            )
            async with tracer.recording():
                work(spans)
                with anyio.fail_after(HANG_S):
                    while tracer.sent < 2 * spans:
                        await anyio.lowlevel.checkpoint()


def _refusing(url: str) -> str:
    return url.rpartition(":")[0] + ":1"


def _silent(url: str) -> str:
    return f"{url}/late"


@pytest.mark.parametrize("place", [_refusing, _silent], ids=["refusing", "silent"])
async def test_a_collector_that_is_away_holds_nobody_up(
    place: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolgate.telemetry.traces._LEAVE_S", 0.05)
    async with fake_service(lambda _: FakeReply(is_late=True)) as service:
        tracer = Tracer(TraceSettings(endpoint=place(service.url)), variables=otlp_variables({}))
        with anyio.fail_after(HANG_S):
            async with tracer.recording():
                work()
    assert (tracer.sent, tracer.dropped, tracer.waiting) == (0, 2, 0)


async def test_what_is_left_is_sent_when_the_gateway_is_cancelled() -> None:
    async with fake_service(lambda _: {}) as service:
        tracer = Tracer(TraceSettings(endpoint=service.url), variables=otlp_variables({}))
        with anyio.CancelScope() as scope:
            async with tracer.recording():
                work()
                scope.cancel()
                await anyio.lowlevel.checkpoint()
        assert scope.cancelled_caught
    assert tracer.sent == 2


async def test_a_gateway_sends_its_spans_and_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    async with fake_service(lambda _: {}) as service:
        traces = TraceSettings(endpoint=f"{service.url}/v1/traces", share=100)
        async with opened(Settings(optimization="bm25", traces=traces)) as (_, client):
            answer = await client.post(
                "/api/v1/execute", json={"toolKey": "a:good", "arguments": {}}
            )
            assert answer.status_code == 200
            with anyio.fail_after(HANG_S):
                while not (sent := (await scraped(client))["toolgate_spans_sent_total",]):
                    pass
        found = spans_of(service)
    assert sent >= 1
    of_call = {span.trace_id for span in found if span.name == "server"}
    assert {"request", "identity", "arguments", "server"} <= {
        span.name for span in found if span.trace_id in of_call
    }
