"""Calls, errors, latency and tokens over time, for charts."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from toolgate.base.ids import utc_text
from toolgate.console.request import PageRequest
from toolgate.store import DURATION_BOUNDS_MS, CallCount, ToolUsage

_BYTES_PER_TOKEN: Final = 4
"""As everywhere in Toolgate, tokens are estimated as bytes / 4."""


@dataclass(frozen=True, kw_only=True)
class ActivityRange:
    """Period of a chart."""

    name: str
    """Name in URLs."""

    words: str
    """Label."""

    span_s: int
    """Length in seconds."""

    step_s: int
    """Seconds per bar."""

    period_chars: int
    """Leading characters of a time that identify a bar."""


RANGES: Final[Mapping[str, ActivityRange]] = {
    span.name: span
    for span in (
        ActivityRange(name="hour", words="Hour", span_s=3_600, step_s=60, period_chars=16),
        ActivityRange(name="day", words="Day", span_s=86_400, step_s=600, period_chars=15),
        ActivityRange(name="week", words="Week", span_s=604_800, step_s=3_600, period_chars=13),
        ActivityRange(
            name="month", words="Month", span_s=2_592_000, step_s=86_400, period_chars=10
        ),
    )
}
"""The available periods, by name."""


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """The values of one bar of a chart."""

    begins: str
    """Start of the bar; UTC, `2026-07-28 09:30`."""

    calls: int = 0
    """Completed calls."""

    errors: int = 0
    """Failed calls."""

    search_tokens: int = 0
    """Tokens of search responses."""

    call_tokens: int = 0
    """Tokens of arguments and results."""

    median_ms: float | None = None
    """Median duration of calls; None if there were none."""

    slow_ms: float | None = None
    """95th percentile of the duration of calls; None if there were none."""


@dataclass(frozen=True, kw_only=True)
class Activity:
    """All chart data of a period."""

    span: ActivityRange
    """The period."""

    buckets: Sequence[Bucket]
    """Bars, oldest first."""

    total: Bucket
    """Values of the whole period."""

    tools: Sequence[ToolUsage] = ()
    """Usage of tools in all projects together, most used first."""

    @property
    def calls(self) -> list[tuple[str, float, float]]:
        """Calls and failed calls per bar, for a chart."""
        return [(bucket.begins, bucket.calls, bucket.errors) for bucket in self.buckets]

    @property
    def failures(self) -> list[tuple[str, float, float]]:
        """Failed calls per bar, for a chart."""
        return [(bucket.begins, bucket.errors, bucket.errors) for bucket in self.buckets]

    @property
    def latencies(self) -> list[tuple[str, tuple[float | None, float | None]]]:
        """Median and 95th percentile of the duration per bar, for a chart."""
        return [(bucket.begins, (bucket.median_ms, bucket.slow_ms)) for bucket in self.buckets]

    @property
    def tokens(self) -> list[tuple[str, float, float]]:
        """Tokens of searches and calls per bar, for a chart."""
        return [
            (bucket.begins, bucket.search_tokens + bucket.call_tokens, 0) for bucket in self.buckets
        ]


def range_asked(request: PageRequest) -> ActivityRange:
    """Return the period that the URL names; an hour by default."""
    return RANGES.get(request.query_value("range"), RANGES["hour"])


async def activity_of(
    request: PageRequest, span: ActivityRange, *, server: str | None = None
) -> Activity | None:
    """Return the activity in a period; None while it is being counted."""
    since = _first(span)
    audit = request.app.store.audit

    async def count() -> Activity:
        counts = await audit.call_counts(since, period_chars=span.period_chars, server=server)
        tools = _merged(await audit.tool_usage(since)) if server is None else []
        return _activity(span, counts, tools)

    figures = await request.figures.get(f"activity {span.name} {server or ''}", since, count)
    return None if figures is None else figures.value


def _first(span: ActivityRange) -> str:
    """Return the start of the first bar."""
    step = timedelta(seconds=span.step_s)
    first = datetime.now(UTC) - timedelta(seconds=span.span_s) + step
    text = utc_text(first)[: span.period_chars]
    return utc_text(_begin_of(text))


def _begin_of(period: str) -> datetime:
    """Return the start time of a bar."""
    rest = "0000-01-01T00:00:00"[len(period) :]
    return datetime.fromisoformat(f"{period}{rest}").replace(tzinfo=UTC)


def _activity(
    span: ActivityRange, counts: Sequence[CallCount], tools: Sequence[ToolUsage]
) -> Activity:
    by_period: defaultdict[str, list[CallCount]] = defaultdict(list)
    for count in counts:
        by_period[count.period].append(count)
    at, step = _begin_of(_first(span)[: span.period_chars]), timedelta(seconds=span.step_s)
    buckets: list[Bucket] = []
    while at <= datetime.now(UTC):
        text = utc_text(at)
        buckets.append(_bucket(text, by_period.get(text[: span.period_chars], [])))
        at += step
    return Activity(span=span, buckets=buckets, total=_bucket(_first(span), counts), tools=tools)


def _bucket(begins: str, counts: Sequence[CallCount]) -> Bucket:
    calls = [0] * (len(DURATION_BOUNDS_MS) + 1)
    for count in counts:
        calls[count.duration_class] += count.calls
    return Bucket(
        begins=begins[:16].replace("T", " "),
        calls=sum(calls),
        errors=sum(count.errors for count in counts),
        search_tokens=sum(count.search_tokens for count in counts),
        call_tokens=sum(count.call_bytes for count in counts) // _BYTES_PER_TOKEN,
        median_ms=_percentile(calls, 0.5),
        slow_ms=_percentile(calls, 0.95),
    )


def _percentile(calls: Sequence[int], share: float) -> float | None:
    """Return a percentile of the duration, interpolated within its class."""
    position = share * sum(calls)
    if not position:
        return None
    below = 0
    for number, count in enumerate(calls):
        if below + count >= position:
            low = DURATION_BOUNDS_MS[number - 1] if number else 0
            high = DURATION_BOUNDS_MS[min(number, len(DURATION_BOUNDS_MS) - 1)]
            return low + (high - low) * (position - below) / count
        below += count
    return None


def _merged(uses: Sequence[ToolUsage]) -> list[ToolUsage]:
    """Merge the usage of each tool in all projects."""
    merged: dict[str, ToolUsage] = {}
    for use in uses:
        other = merged.get(use.tool)
        merged[use.tool] = use if other is None else _sum(use, other)
    return sorted(merged.values(), key=lambda use: -use.calls)


def _sum(use: ToolUsage, other: ToolUsage) -> ToolUsage:
    calls = use.calls + other.calls
    return replace(
        use,
        calls=calls,
        failed=use.failed + other.failed,
        mean_ms=(use.calls * use.mean_ms + other.calls * other.mean_ms) / calls,
        last_at=max(use.last_at, other.last_at),
        total_bytes=use.total_bytes + other.total_bytes,
    )
