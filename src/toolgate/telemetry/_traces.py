"""Spans of the stages, sent by OpenTelemetry (OTLP over HTTP). Needs the extra `otel`.

Ids and parents are those of `observe`, so that what is passed on to servers names the span that
asks them; the library only packs and sends.
"""

import random
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from secrets import token_hex
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
from toolgate.observe import Observation, Trace, begin_traces_with, current_trace, watch_stages
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
        self._resource = Resource.create(
            {"service.name": "toolgate", "service.version": toolgate.__version__}
        )

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
        flags = "01" if random.random() < self._share else "00"  # noqa: S311 - no secret
        return Trace(trace_id=token_hex(16), parent_id="", flags=flags)

    def note(self, one: Observation) -> None:
        """Make a span of the run of a stage."""
        trace = current_trace()
        if trace is None or not trace.is_recorded:
            return
        number = int(trace.trace_id, 16)
        above = one.parent.span_id if one.parent is not None else trace.parent_id
        parent = None
        if above:
            parent = SpanContext(
                number, int(above, 16), is_remote=one.parent is None, trace_flags=_RECORDED
            )
        end_ns = int(datetime.now(UTC).timestamp() * 1e9)
        self._processor.on_end(
            ReadableSpan(
                name=one.stage,
                context=SpanContext(
                    number, int(one.span_id, 16), is_remote=False, trace_flags=_RECORDED
                ),
                parent=parent,
                resource=self._resource,
                attributes=dict(self._attributes(one.fields)),
                kind=_KINDS.get(one.stage, SpanKind.INTERNAL),
                status=Status(StatusCode.ERROR if one.failed else StatusCode.UNSET),
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
