"""Spans of the stages, sent by OpenTelemetry (OTLP over HTTP). Needs the extra `otel`.

Ids and parents are those of `observe`, so that what is passed on to servers names the span that
asks them; the library only packs and sends.
"""

import random
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from time import time_ns
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

import toolgate
from toolgate import jsontext
from toolgate.guards import secrets
from toolgate.observe import (
    Observation,
    Trace,
    begin_traces_with,
    current_trace,
    new_trace,
    watch_stages,
)
from toolgate.settings import TraceSettings

__all__ = ["Tracer"]

_KINDS: Mapping[str, SpanKind] = {
    "request": SpanKind.SERVER,
    "server": SpanKind.CLIENT,
    "model": SpanKind.CLIENT,
}
_RECORDED = TraceFlags(TraceFlags.SAMPLED)
_ARGUMENTS = "arguments"
_MOST_CHARS = 4_000
"""Of the arguments of a call, as JSON."""
_SCOPE = InstrumentationScope("toolgate", toolgate.__version__)
_UNSET, _FAILED = Status(StatusCode.UNSET), Status(StatusCode.ERROR)


class _Resource(Resource):
    """One that is packed as JSON once, not for every span: the library's hash does that."""

    @cached_property
    def _hash(self) -> int:
        return super().__hash__()

    def __hash__(self) -> int:
        return self._hash


class Tracer:
    """Turns what was observed into spans."""

    def __init__(self, settings: TraceSettings, *, processor: SpanProcessor | None = None) -> None:
        """Make one.

        Args:
            settings: Table `[traces]`.
            processor: Where spans go; by default to `endpoint`, in batches.
        """
        self._share = settings.share / 100
        self._with_arguments = settings.arguments
        self._processor = processor or BatchSpanProcessor(
            OTLPSpanExporter(endpoint=settings.endpoint)
        )
        made = Resource.create(
            {"service.name": "toolgate", "service.version": toolgate.__version__}
        )
        self._resource = _Resource(made.attributes, made.schema_url)

    @contextmanager
    def recording(self) -> Generator[None]:
        """Record what happens within; what is left is sent at the end."""
        forget = [begin_traces_with(self._begin), watch_stages(self.note)]
        try:
            yield
        finally:
            for one in forget:
                one()
            self._processor.shutdown()

    def _begin(self) -> Trace:
        return new_trace(recorded=random.random() < self._share)  # noqa: S311 - no secret

    def note(self, one: Observation) -> None:
        """Make a span of the run of a stage."""
        trace = current_trace()
        if trace is None or not trace.is_recorded:
            return
        above = one.parent.span_id if one.parent is not None else trace.parent_id
        end_ns = time_ns()
        self._processor.on_end(
            ReadableSpan(
                name=one.stage,
                context=_context(trace, one.span_id),
                parent=_context(trace, above, is_remote=one.parent is None) if above else None,
                resource=self._resource,
                attributes=dict(self._attributes(one.fields)),
                kind=_KINDS.get(one.stage, SpanKind.INTERNAL),
                status=_FAILED if one.failed else _UNSET,
                start_time=end_ns - int(one.duration_ms * 1e6),
                end_time=end_ns,
                instrumentation_scope=_SCOPE,
            )
        )

    def _attributes(self, fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """What is known of a run; arguments only where they are asked for, secrets masked."""
        for key, value in fields.items():
            if key != _ARGUMENTS:
                yield f"toolgate.{key}", str(value)
            elif self._with_arguments and value is not None:
                masked = secrets().mask_json(value, Counter[str]())
                yield f"toolgate.{key}", jsontext.dumps(masked).decode()[:_MOST_CHARS]


def _context(trace: Trace, span_id: str, *, is_remote: bool = False) -> SpanContext:
    return SpanContext(int(trace.trace_id, 16), int(span_id, 16), is_remote, _RECORDED)
