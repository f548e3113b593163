"""Traces: spans of the stages, sent to a collector (OTLP over HTTP, in JSON).

Ids and parents come from `observe`, so that the trace context that is passed on to servers names
the span of the request to them. A request pays only for a short record of each stage; packing
and sending happen in the background. https://opentelemetry.io/docs/specs/otlp/
"""

import asyncio
import gzip
import logging
import zlib
from collections import Counter, deque
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from random import getrandbits, uniform
from time import time_ns
from typing import Any, NamedTuple

import aiohttp
import anyio
import anyio.to_thread
from anyio import CancelScope

import toolgate
from toolgate.base import json_text
from toolgate.base.tracing import (
    Observation,
    Trace,
    begin_traces_with,
    current_trace,
    watch_stages,
)
from toolgate.security.guards import secret_scanner
from toolgate.security.outbound import client_context, describe_failure
from toolgate.settings import OtlpVariables, TraceSettings, otlp_variables
from toolgate.types import json_object

log = logging.getLogger(__name__)

_INTERNAL, _SERVER, _CLIENT = 1, 2, 3
_KINDS: Mapping[str, int] = {"request": _SERVER, "server": _CLIENT, "model": _CLIENT}
_FAILED = ',"status":{"code":2}'
_TAIL = "]}]}]}"
"""Closes the brackets that `_head` opens."""
_HERE, _ELSEWHERE = 0x100, 0x300
"""Span flags: whether the parent is local or remote."""

_LOWER = 2**64 - 1
"""Mask of the half of a trace id that decides whether the trace is recorded."""
_ARGUMENTS = "arguments"
_MOST_CHARS = 4_000
"""Characters of the arguments of a call that are sent, as JSON."""

_PASSING = frozenset({429, 502, 503, 504})
"""Statuses of a collector after which a retry makes sense; other statuses would only repeat."""
_PAUSE_S = 1.0
"""Seconds before the first retry; doubled for each further one."""
_LEAVE_S = 3.0
"""Seconds for sending the remaining spans at shutdown."""
_MOST_ANSWER = 2**16
"""Bytes of a collector's response that are read (chosen: enough for an error text)."""


class _Span(NamedTuple):
    """A run of a stage that waits to be sent."""

    trace: Trace
    span_id: str
    parent_id: str
    is_remote: bool
    name: str
    fields: Mapping[str, Any]
    began_ns: int
    ended_ns: int
    has_failed: bool


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    """Result of one attempt to send a batch."""

    refused: int = 0
    """Number of its spans that the collector rejected."""

    problem: str = ""
    """Why the whole batch was rejected; empty if it was accepted."""

    again_s: float | None = None
    """Seconds to wait before a retry, 0 for the default; None if a retry is pointless."""


class Tracer:
    """Converts observations into spans and sends them."""

    def __init__(self, settings: TraceSettings, *, variables: OtlpVariables | None = None) -> None:
        """Create a tracer.

        Args:
            settings: Table `[traces]`.
            variables: By default those of the process.

        Raises:
            SettingError: A certificate file cannot be used.
        """
        self._variables = ways = variables or otlp_variables()
        self._endpoint = settings.endpoint
        self._bound = round(settings.share / 100 * 2**64)
        self._with_arguments = settings.arguments
        self._context = client_context(ca=ways.ca, cert=ways.cert, key=ways.key)
        attributes = {
            **ways.resource,
            "service.version": toolgate.__version__,
            "telemetry.sdk.name": "toolgate",
            "telemetry.sdk.language": "python",
            "telemetry.sdk.version": toolgate.__version__,
        }
        resource = {
            "attributes": [
                {"key": key, "value": {"stringValue": value}} for key, value in attributes.items()
            ]
        }
        scope = {"name": "toolgate", "version": toolgate.__version__}
        # The only object in each of the lists, left open where its spans follow.
        self._head = (
            f'{{"resourceSpans":[{{"resource":{json_text.dumps(resource).decode()},'
            f'"scopeSpans":[{{"scope":{json_text.dumps(scope).decode()},"spans":['
        )
        self._headers = {"content-type": "application/json", **ways.headers}
        if ways.compression:
            self._headers["content-encoding"] = ways.compression
        self._waiting: deque[_Span] = deque()
        self._http: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._hurry = anyio.Event()
        self._stop = anyio.Event()
        self._is_hurried = False
        self.sent = 0
        """Spans that the collector accepted."""
        self.dropped = 0
        """Spans that were lost because the queue was full or the collector did not accept them."""
        self._reported = 0
        self._is_failing = False

    @property
    def waiting(self) -> int:
        """Number of spans that are not sent yet."""
        return len(self._waiting)

    @asynccontextmanager
    async def recording(self) -> AsyncGenerator[None]:
        """Record and send spans while the block runs; the remaining ones are sent at the end."""
        async with self.sending():
            with self.watching():
                yield

    @contextmanager
    def watching(self) -> Generator[None]:
        """Record spans while the block runs."""
        forget = [begin_traces_with(self._begin), watch_stages(self.note, only_recorded=True)]
        try:
            yield
        finally:
            for stop in forget:
                stop()

    @asynccontextmanager
    async def sending(self) -> AsyncGenerator[None]:
        """Send recorded spans periodically, and the remaining ones at the end."""
        self._loop = asyncio.get_running_loop()
        scope = CancelScope(shield=True)
        async with self._connected(), anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_sending, scope)
            try:
                yield
            finally:
                scope.deadline = anyio.current_time() + _LEAVE_S
                self._stop.set()
                self._hurry.set()
        if self._waiting:
            self._lose(len(self._waiting), "no time was left")
            self._waiting.clear()

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[None]:
        # A separate HTTP client: the address is a setting, so any local address is allowed.
        connector = aiohttp.TCPConnector(ssl=True if self._context is None else self._context)
        self._http = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"user-agent": f"toolgate/{toolgate.__version__}"},
            trust_env=True,
        )
        try:
            yield
        finally:
            with CancelScope(shield=True):
                await self._http.close()
            self._http = None

    # Recording

    def _begin(self) -> Trace:
        """Start a trace, which is recorded or not depending on its id, as in other tracers.

        https://opentelemetry.io/docs/specs/otel/trace/sdk/#traceidratiobased
        """
        number = getrandbits(128) or 1
        trace_id = f"{number:032x}"
        if number & _LOWER < self._bound:
            return Trace(trace_id, "")
        # The context is still passed on to servers, so that they do not record the trace either.
        return Trace(trace_id, trace_id[:16], "00")

    def note(self, observation: Observation) -> None:
        """Queue a span for a run of a stage."""
        trace = current_trace()
        if trace is None or not trace.is_recorded:
            return
        if len(self._waiting) >= self._variables.queue:
            self.dropped += 1
            return
        parent = observation.parent
        fields = observation.fields
        if _ARGUMENTS in fields:
            fields = self._without_secrets(fields)
        ended = time_ns()
        self._waiting.append(
            _Span(
                trace,
                observation.span_id,
                trace.parent_id if parent is None else parent.span_id,
                parent is None and bool(trace.parent_id),
                observation.stage,
                fields,
                ended - int(observation.took_s * 1e9),
                ended,
                observation.failed,
            )
        )
        if len(self._waiting) >= self._variables.batch and not self._is_hurried:
            self._is_hurried = True
            if self._loop is not None:  # stages may end in other threads
                self._loop.call_soon_threadsafe(self._hurry.set)

    def _without_secrets(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields to send: arguments only if configured, with secrets masked."""
        visible = {key: value for key, value in fields.items() if key != _ARGUMENTS}
        arguments = fields[_ARGUMENTS]
        if self._with_arguments and arguments is not None:
            masked = secret_scanner().mask_json(arguments, Counter[str]())
            visible[_ARGUMENTS] = json_text.dumps(masked).decode()[:_MOST_CHARS]
        return visible

    # Sending

    async def flush(self) -> None:
        """Send all queued spans."""
        self._is_hurried = False
        while self._waiting:
            many = min(len(self._waiting), self._variables.batch)
            await self._send([self._waiting.popleft() for _ in range(many)])

    async def _keep_sending(self, scope: CancelScope) -> None:
        with scope:
            while not self._stop.is_set():
                with anyio.move_on_after(self._variables.delay_s):
                    await self._hurry.wait()
                self._hurry = anyio.Event()
                await self.flush()
            await self.flush()

    async def _send(self, spans: Sequence[_Span]) -> None:
        """Send a batch, with retries as long as they make sense and there is time."""
        body = await self._packed(spans)
        outcome = _Outcome(problem="it did not answer in time")
        lost = len(spans)
        try:
            with anyio.move_on_after(self._variables.timeout_s):
                pause_s = _PAUSE_S
                while (outcome := await self._post(body)).problem:
                    if outcome.again_s is None or self._stop.is_set():
                        break
                    # Jitter: simultaneous retries could overload a collector that has just
                    # restarted.
                    wait_s = outcome.again_s or pause_s * uniform(0.8, 1.2)  # noqa: S311
                    with anyio.move_on_after(wait_s):
                        await self._stop.wait()
                    pause_s *= 2
                else:
                    lost = outcome.refused
        finally:
            self.sent += len(spans) - lost
            if outcome.problem:
                self._lose(lost, outcome.problem)
            else:
                self.dropped += lost
                self._report_lost()

    async def _packed(self, spans: Sequence[_Span]) -> bytes:
        """Return the body of a request."""
        body = f"{self._head}{','.join(map(_span_json, spans))}{_TAIL}".encode()
        match self._variables.compression:
            case "":
                return body
            case "gzip":
                return await anyio.to_thread.run_sync(gzip.compress, body)
            case "deflate":
                return await anyio.to_thread.run_sync(zlib.compress, body)

    async def _post(self, body: bytes) -> _Outcome:
        assert self._http is not None
        try:
            async with self._http.post(
                self._endpoint, data=body, headers=self._headers, allow_redirects=False
            ) as answer:
                reply = await answer.content.read(_MOST_ANSWER)
        except (aiohttp.ClientError, OSError) as error:
            return _Outcome(problem=describe_failure(error), again_s=0.0)
        except ValueError as error:  # an invalid URL
            return _Outcome(problem=str(error))
        if answer.status // 100 == 2:
            return _Outcome(refused=_refused(reply))
        problem = f"it answered with status {answer.status}"
        if answer.status not in _PASSING:
            return _Outcome(problem=problem)
        return _Outcome(problem=problem, again_s=_seconds(answer.headers.get("retry-after", "")))

    def _lose(self, spans: int, problem: str) -> None:
        """Count lost spans; logs a warning only for the first loss until sending succeeds again."""
        self.dropped += spans
        if not self._is_failing:
            self._is_failing = True
            self._reported = self.dropped
            log.warning("spans cannot be sent", extra={"reason": problem, "spans": spans})

    def _report_lost(self) -> None:
        """Log the number of spans that were lost since the last warning."""
        self._is_failing = False
        lost, self._reported = self.dropped - self._reported, self.dropped
        if lost:
            log.warning("spans were lost", extra={"spans": lost})


def _span_json(span: _Span) -> str:
    """Return a span as OTLP JSON: ids in hex, times as strings, kinds as numbers.

    Built as a string, since ids and numbers need no quoting: half the time of `dumps`.
    """
    trace = span.trace
    flags = int(trace.flags, 16) | (_ELSEWHERE if span.is_remote else _HERE)
    text = (
        f'{{"traceId":"{trace.trace_id}","spanId":"{span.span_id}","flags":{flags},'
        f'"startTimeUnixNano":"{span.began_ns}","endTimeUnixNano":"{span.ended_ns}",'
        f"{_common_json(span.name, *span.fields.items())}"
    )
    if span.parent_id:
        text += f',"parentSpanId":"{span.parent_id}"'
    if trace.state:
        text += f',"traceState":{json_text.dumps(trace.state).decode()}'
    if span.has_failed:
        text += _FAILED
    return f"{text}}}"


@lru_cache(maxsize=1_024)
def _common_json(name: str, *fields: tuple[str, object]) -> str:
    """Return what spans of the same kind have in common, as the inside of a JSON object."""
    common = {
        "name": name,
        "kind": _KINDS.get(name, _INTERNAL),
        "attributes": [
            {"key": f"toolgate.{key}", "value": {"stringValue": str(value)}}
            for key, value in fields
        ],
    }
    return json_text.dumps(common).decode()[1:-1]


def _refused(reply: bytes) -> int:
    """Return the number of spans that a response reports as rejected."""
    try:
        part = json_object(json_object(json_text.loads(reply)).get("partialSuccess"))
        return max(0, int(part.get("rejectedSpans", 0)))
    except (ValueError, TypeError):
        return 0


def _seconds(retry_after: str) -> float:
    """Return the seconds that a collector asks to wait; 0 if none or a date is given."""
    return float(retry_after) if retry_after.isdecimal() else 0.0
