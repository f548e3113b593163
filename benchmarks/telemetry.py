"""What metrics and traces cost per call.

    python -m benchmarks.telemetry [--quick] [--json]

Calls through the whole HTTP door within this process, in short blocks: one without, one with, in
turns, each row in pairs of its own. CPU time of the process, the audit written and the spans
encoded within it. Whatever else the machine does falls on both blocks of a pair, and makes some
of them slower: of each side the fastest tenth counts, beside the median of the pairs.
"""

import asyncio
import gc
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from statistics import median

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from benchmarks._report import Report, Target, main
from benchmarks.access import HEADERS, _call, _settled
from toolgate.app import App
from toolgate.serve.http import Door, build_app
from toolgate.settings import MetricSettings, Settings, TraceSettings
from toolgate.telemetry import Metrics
from toolgate.telemetry._traces import Tracer
from toolgate.testing import FakeUpstream, memory_app, text_result

_CALLS = 400
"""So many that sending spans at the end of each block weighs as little as every five seconds."""
_WATCHED = "metrics, and traces of 10 % of the requests"


class _Encoded(SpanExporter):
    """Spans as they would be sent, and thrown away."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        encode_spans(spans).SerializeToString()
        return SpanExportResult.SUCCESS


class _Kept(BatchSpanProcessor):
    """The batches of one block after the other."""

    def shutdown(self) -> None:
        """Go on: the next block needs it."""


def measure(quick: bool) -> Report:  # noqa: FBT001 - the one option of every benchmark
    """Call with and without; gives the table."""
    found = asyncio.run(_pairs(rounds=5 if quick else 30))
    rows = [
        {
            "with": name,
            "without, CPU ms": _fast(off for off, _ in pairs),
            "with, CPU ms": _fast(on for _, on in pairs),
            "ratio": _fast(on for _, on in pairs) / _fast(off for off, _ in pairs),
            "of pairs, median": median(on / off for off, on in pairs),
        }
        for name, pairs in found.items()
    ]
    ratios = {str(row["with"]): float(row["ratio"]) for row in rows}
    return Report(
        name="telemetry",
        title="A call with and without metrics and traces",
        rows=rows,
        targets=(
            Target(what="metrics, ratio", measured=ratios["metrics"], limit=1.05),
            Target(what=f"{_WATCHED}, ratio", measured=ratios[_WATCHED], limit=1.05),
        ),
        notes=(
            f"{len(next(iter(found.values())))} pairs of {_CALLS} calls each.",
            "Without any: what two blocks of the same differ by. 10 % is what `traces.share` is.",
        ),
    )


def _fast(times: Iterable[float]) -> float:
    """What the fastest tenth took at most."""
    ordered = sorted(times)
    return ordered[len(ordered) // 10]


async def _pairs(*, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """CPU milliseconds of a call without and with, pair by pair."""
    server = FakeUpstream({"echo": lambda _params: text_result("x")})
    settings = Settings(local_open=True, metrics=MetricSettings(enabled=False))
    async with memory_app({"a": server}, settings) as app:
        door = build_app(app)
        metrics, kept = Metrics(app), _Kept(_Encoded())
        some, all_ = (Tracer(TraceSettings(share=share), processor=kept) for share in (10, 100))
        watched: dict[str, list[Callable[[], AbstractContextManager[None]]]] = {
            "nothing": [],
            "metrics": [metrics.counting],
            _WATCHED: [metrics.counting, some.recording],
            "metrics, and traces of all requests": [metrics.counting, all_.recording],
        }
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in watched}
        async with door.running():
            await _settled()
            gc.freeze()  # what is there stays: only what calls leave behind is looked through
            block = partial(_block, app, door, kept)
            for turn in range(rounds + 1):
                for name, watching in watched.items():
                    taken = [0.0, 0.0]
                    for is_on in (turn % 2, 1 - turn % 2):
                        with ExitStack() as stack:
                            for one in watching if is_on else ():
                                stack.enter_context(one())
                            taken[is_on] = await block()
                    if turn:  # the first is for warming up
                        found[name].append((taken[0], taken[1]))
        BatchSpanProcessor.shutdown(kept)
        return found
    raise AssertionError("the gateway did not open")


async def _block(app: App, door: Door, kept: BatchSpanProcessor) -> float:
    """CPU milliseconds of a call, all that it leads to included."""
    gc.collect()
    gc.disable()
    try:
        began = time.process_time()
        for _ in range(_CALLS):
            await _call(door, HEADERS)
        await app.recorder.flush()
        await asyncio.to_thread(kept.force_flush)
        return (time.process_time() - began) * 1000 / _CALLS
    finally:
        gc.enable()


if __name__ == "__main__":
    main("telemetry", measure)
