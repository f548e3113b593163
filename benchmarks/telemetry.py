"""Measures what metrics and traces cost per call.

    python -m benchmarks.telemetry [--quick] [--json]

Calls go through the complete HTTP interface in this process, in blocks of a few milliseconds: one
without and one with telemetry, right after each other and alternating in order. CPU time of the
process; the cost of a call includes writing its audit, the difference between blocks does not,
since it is the same in both. Spans are sent to a collector in another process between the blocks,
and the cost of sending is added to the calls that made them. Whatever else the machine does affects
both blocks of a pair, so the median difference counts.
"""

import asyncio
import gc
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from statistics import median

from benchmarks._collector import collector
from benchmarks._inprocess import echo_request, send, wait_until_idle
from benchmarks._report import Report, Target, main
from toolgate.app.app import App
from toolgate.server.http import HttpApplication, build_app
from toolgate.settings import MetricSettings, Settings, TraceSettings
from toolgate.telemetry import Metrics
from toolgate.telemetry.traces import Tracer
from toolgate.testing import FakeUpstream, memory_app, text_result

_ECHO = echo_request()
_CALLS = 10
_WRITTEN = 200
"""Calls whose audit is written at once: those of 200 ms, the interval of its writer."""
_BATCH = 512
"""Spans per request to the collector, the default."""
_METRICS = "metrics"
_WATCHED = "metrics, and traces of 10 % of the requests"
_ALL = "metrics, and traces of all requests"


@dataclass(kw_only=True)
class _Row:
    """What is switched on, and what it cost."""

    watching: list[Callable[[], AbstractContextManager[None]]]
    tracer: Tracer | None = None
    off: list[float] = field(default_factory=list[float])
    on: list[float] = field(default_factory=list[float])
    sending_ms: float = 0.0
    """All that was sent."""

    @property
    def more_ms(self) -> float:
        """Added cost of a call, without sending."""
        return median(on - off for off, on in zip(self.off, self.on, strict=True))

    @property
    def sent_ms(self) -> float:
        """Cost of sending, per call."""
        return self.sending_ms / (len(self.on) * _CALLS)


def measure(quick: bool) -> Report:
    """Call with and without telemetry and return the table."""
    with collector() as endpoint:
        call_ms, found = asyncio.run(_pairs(endpoint, pairs=15 if quick else 1_500))
    ratios = {name: 1 + (row.more_ms + row.sent_ms) / call_ms for name, row in found.items()}
    rows = [
        {
            "with": name,
            "call, CPU µs": call_ms * 1000,
            "more in it, CPU µs": row.more_ms * 1000,
            "sending, CPU µs": row.sent_ms * 1000,
            "ratio": ratios[name],
        }
        for name, row in found.items()
    ]
    return Report(
        name="telemetry",
        title="A call with and without metrics and traces",
        rows=rows,
        targets=tuple(
            Target(what=f"{name}, ratio", measured=ratios[name], limit=1.05)
            for name in (_METRICS, _WATCHED)
        ),
        notes=(
            f"{len(found[_METRICS].on)} pairs of blocks of {_CALLS} calls each.",
            "Nothing: what two blocks of the same differ by. 10 % is what `traces.share` is.",
        ),
    )


async def _pairs(endpoint: str, *, pairs: int) -> tuple[float, dict[str, _Row]]:
    """CPU milliseconds of a call with its audit and nothing else, and of pairs of blocks."""
    server = FakeUpstream({"echo": lambda _params: text_result("x")})
    settings = Settings(allow_other_users=True, metrics=MetricSettings(enabled=False))
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(memory_app({"a": server}, settings))
        door = build_app(app)
        metrics = Metrics(app)
        some, all_ = (Tracer(TraceSettings(endpoint=endpoint, share=share)) for share in (10, 100))
        rows = {
            "nothing": _Row(watching=[]),
            _METRICS: _Row(watching=[metrics.counting]),
            _WATCHED: _Row(watching=[metrics.counting, some.watching], tracer=some),
            _ALL: _Row(watching=[metrics.counting, all_.watching], tracer=all_),
        }
        for tracer in (some, all_):
            await stack.enter_async_context(tracer.sending())
        await stack.enter_async_context(door.running())
        await wait_until_idle()
        gc.freeze()  # existing objects stay: collect only what the calls leave behind
        whole = list[float]()
        stack.callback(gc.enable)
        gc.disable()
        for turn in range(-1, pairs):
            if turn % 15 == 0:
                gc.collect()
                whole.append(await _whole(app, door))
            for row in rows.values():
                taken = [0.0, 0.0]
                for is_on in (turn % 2, 1 - turn % 2):
                    with ExitStack() as within:
                        for one in row.watching if is_on else ():
                            within.enter_context(one())
                        taken[is_on] = await _block(door)
                if turn >= 0:  # the first block is a warm-up
                    row.off.append(taken[0])
                    row.on.append(taken[1])
                if row.tracer is not None and (
                    row.tracer.waiting >= _BATCH - 4 * _CALLS or turn in {-1, pairs - 1}
                ):
                    began = time.process_time()
                    await row.tracer.flush()
                    row.sending_ms += (time.process_time() - began) * 1000 if turn >= 0 else 0
        assert some.dropped == all_.dropped == 0
        return median(whole), rows
    raise AssertionError("the gateway did not open")


async def _whole(app: App, door: HttpApplication) -> float:
    """CPU milliseconds of a call without metrics and traces, including its audit."""
    await app.recorder.flush()
    began = time.process_time()
    for _ in range(_WRITTEN):
        await send(door, _ECHO)
    await app.recorder.flush()
    return (time.process_time() - began) * 1000 / _WRITTEN


async def _block(door: HttpApplication) -> float:
    """CPU milliseconds of a call, without background work."""
    began = time.process_time()
    for _ in range(_CALLS):
        await send(door, _ECHO)
    return (time.process_time() - began) * 1000 / _CALLS


if __name__ == "__main__":
    main("telemetry", measure)
