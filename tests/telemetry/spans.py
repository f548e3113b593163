"""A collector of traces that reads what comes as the library of the protocol does."""

import base64
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from toolgate.base.tracing import join_trace
from toolgate.settings import OtlpVariables, TraceSettings, otlp_variables
from toolgate.telemetry.traces import Tracer
from toolgate.testing import FakeService, fake_service
from toolgate.types import Json

_IDS = frozenset({"traceId", "spanId", "parentSpanId"})


def read(body: Json) -> ExportTraceServiceRequest:
    """A request by the mapping of Protobuf to JSON, which refuses what it does not know.

    Ids are hex in OTLP where that mapping has base64:
    https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
    """
    return ParseDict(_in_base64(body), ExportTraceServiceRequest())


def _in_base64(value: Any) -> Any:
    match value:
        case dict():
            return {
                key: base64.b64encode(bytes.fromhex(one)).decode()
                if key in _IDS
                else _in_base64(one)
                for key, one in value.items()
            }
        case list():
            return [_in_base64(one) for one in value]
        case _:
            return value


def spans_of(service: FakeService) -> list[Span]:
    """All that came, in order."""
    return [
        span
        for asked in service.requests
        for resource in read(asked.body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def attributes(span: Span) -> dict[str, str]:
    """Its attributes."""
    return {one.key: one.value.string_value for one in span.attributes}


@asynccontextmanager
async def collected(
    settings: TraceSettings, variables: OtlpVariables | None = None
) -> AsyncGenerator[list[Span]]:
    """Record what happens within; the list is filled once that is over."""
    found: list[Span] = []
    join_trace(None)
    async with fake_service(lambda _: {}) as service:
        wanted = TraceSettings(
            endpoint=f"{service.url}/v1/traces",
            share=settings.share,
            arguments=settings.arguments,
        )
        tracer = Tracer(wanted, variables=variables or otlp_variables({}))
        async with tracer.recording():
            yield found
        found += spans_of(service)
    join_trace(None)


def by_name(spans: Sequence[Span]) -> dict[str, Span]:
    """The last of each name."""
    return {span.name: span for span in spans}
