"""Counters for Prometheus and OTLP.

Counting is a few additions to a dictionary; text is formatted, and the library for it loaded,
only on a scrape. Labels are bounded: only so many names that others choose are told apart,
further ones are counted as `other`.
"""

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from time import perf_counter
from typing import Any, Protocol

import anyio

from toolgate.app.app import App
from toolgate.audit import AGGREGATED_ACTIONS
from toolgate.base.tracing import time_stages
from toolgate.errors import StoreError, ToolgateError
from toolgate.telemetry.metric_names import BUCKETS
from toolgate.types import LOCAL, AuditRecord, Caller, Json

log = logging.getLogger(__name__)

# Seconds that a scrape waits for the store. Chosen: the answer has to come within one second.
_MAX_REFRESH_S = 0.75
_MOST_NAMES = 200
"""Distinct servers, stages, statuses and actions that are told apart."""
_MOST_FOUND = 2_000
"""Series that are cached by their labels (chosen: bounds memory)."""

OTHER = "other"
SUCCESS_STATUSES = frozenset({"ok", "input_required"})
MANAGER = Caller(caller_id="local", client="metrics", identity=LOCAL)
"""The metrics cover the whole gateway; access to them is checked earlier."""

Labels = tuple[str, ...]
Kind = tuple[str, str, str | None]
"""Action, status and server of a request; None if it reached no server."""


class LabelledCounts:
    """A counter with labels."""

    def __init__(self) -> None:
        self.values: dict[Labels, float] = {}

    def add(self, labels: Labels, amount: float = 1) -> None:
        """Increase the counter with these labels."""
        self.values[labels] = self.values.get(labels, 0) + amount


class LabelledHistogram:
    """A histogram with one label."""

    def __init__(self) -> None:
        self.by_label: dict[str, list[float]] = {}
        """By label: counts per bucket, the count beyond the last bucket, and the sum in seconds."""

    def counts_of(self, label: str) -> list[float]:
        """Return the counts of a label, or those of `other` if there are too many labels."""
        if label not in self.by_label and len(self.by_label) >= _MOST_NAMES:
            label = OTHER
        return self.by_label.setdefault(label, [0] * (len(BUCKETS) + 2))

    def merge(self, label: str, buckets: Sequence[int], seconds: float) -> None:
        """Add counts by bucket and a sum from elsewhere."""
        counts = self.counts_of(label)
        for at, count in enumerate(buckets):
            counts[at] += count
        counts[-1] += seconds


class RequestCounts:
    """Counts of one kind of request."""

    __slots__ = ("buckets", "kind", "requests", "response_bytes", "seconds")

    def __init__(self, of: "Kind") -> None:
        self.kind = of
        """The kind of request."""
        self.requests = 0
        self.response_bytes = 0
        self.seconds = 0.0
        self.buckets = [0] * (len(BUCKETS) + 1)
        """Counts per bucket, and beyond the last."""


class _BoundedNames:
    """Names that others choose, limited in number."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def bounded(self, name: str) -> str:
        if name in self._names:
            return name
        if len(self._names) >= _MOST_NAMES:
            return OTHER
        self._names.add(name)
        return name


class _StageTimer:
    """Context manager that measures and counts one run of a stage."""

    __slots__ = ("_began", "_by_label", "_metrics", "_stage")

    def __init__(self, of: "Metrics", by_label: dict[str, list[float]], stage: str) -> None:
        self._metrics = of
        self._by_label = by_label
        self._stage = stage
        self._began = perf_counter()

    def __enter__(self) -> None:
        """Do nothing: the time starts when the timer is created."""

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Count the run."""
        seconds = perf_counter() - self._began
        counts = self._by_label.get(self._stage) or self._metrics.stages.counts_of(self._stage)
        counts[bisect_left(BUCKETS, seconds)] += 1
        counts[-1] += seconds
        if kind is not None:
            self._metrics.note_failure(self._stage)


class SpanCounts(Protocol):
    """Counts of spans of traces."""

    sent: int
    dropped: int


class RequestLoad(Protocol):
    """Counts of requests in progress."""

    refusals: int

    def __len__(self) -> int:
        """Return the number of requests in progress."""
        ...


class Metrics:
    """Metrics of one gateway."""

    def __init__(
        self,
        app: App,
        *,
        requests: RequestLoad | None = None,
        tracer: SpanCounts | None = None,
    ) -> None:
        """Create the metrics; they count only within `counting`.

        Args:
            app: The gateway.
            requests: Requests in progress.
            tracer: The recorder of traces; None if traces are off.
        """
        self.app = app
        self.requests = requests
        self.tracer = tracer
        self.cells: dict[Kind, RequestCounts] = {}
        """Requests by action, status and server."""
        self._cells_by_record: dict[Kind, RequestCounts] = {}
        """The same by the values in the records, for up to a limited number of them."""
        self.failures, self.stages = LabelledCounts(), LabelledHistogram()
        self.fallbacks = self.empty = self.tokens = 0.0
        self.servers, self._words = _BoundedNames(), _BoundedNames()
        self.index: Json = {}
        self.quarantined = self.waiting = 0
        self.queued: Mapping[str, int] = {}
        self.is_store_up = not app.store_problem
        """Whether the store answered the last query; first, whether the gateway has its store."""
        self._refreshing: asyncio.Task[None] | None = None
        self._refreshing_since = 0.0
        self._collector: Any = None

    @property
    def collector(self) -> Any:
        """The Prometheus collector; its library is imported on first use."""
        if self._collector is None:
            self._collector = import_module(
                "toolgate.telemetry.prometheus_format"
            ).PrometheusCollector(self)
        return self._collector

    @contextmanager
    def counting(self) -> Generator[None]:
        """Count everything that happens while the block runs."""
        forget = [
            self.app.recorder.on_outcome(self.note),
            time_stages(partial(_StageTimer, self, self.stages.by_label)),
        ]
        try:
            yield
        finally:
            for stop in forget:
                stop()

    async def text(self) -> tuple[str, bytes]:
        """Return the content type and the body of a Prometheus scrape.

        If the store does not answer, its last known values are used.
        """
        refreshing = self._refreshing
        now = perf_counter()
        if refreshing is None:
            self._refreshing_since = now
            refreshing = asyncio.create_task(self._try_refresh(), name="toolgate metrics")
            self._refreshing = refreshing
        await asyncio.wait({refreshing}, timeout=_MAX_REFRESH_S)
        if not refreshing.done():
            # A late answer is a busy machine; none until a later scrape is a store that hangs.
            if now - self._refreshing_since > _MAX_REFRESH_S / 2:
                self.is_store_up = False
        elif self._refreshing is refreshing:  # several scrapes may have waited for it
            self._refreshing = None
        return self.collector.content_type, self.collector.text()

    async def _try_refresh(self) -> None:
        try:
            await self.refresh()
        except ToolgateError as error:
            log.warning("numbers were not refreshed", extra={"reason": error.full_text})
            self.is_store_up = not isinstance(error, StoreError)
        else:
            self.is_store_up = not self.app.store_problem

    async def refresh(self) -> None:
        """Update the values that need the store."""
        gateway = self.app.gateway
        self.index = await gateway.manage.vectors.status(MANAGER)
        quarantined = await gateway.manage.quarantine.entries(MANAGER)
        self.quarantined = sum(entry.state == "held" for entry in quarantined)
        waiting = await gateway.approvals.search(MANAGER, state="waiting", limit=1000)
        self.waiting = len(waiting)
        self.queued = self.app.store.waiting()

    async def keep_fresh(self, every_s: float, stop: anyio.Event) -> None:
        """Refresh periodically, for exporters that cannot wait for a refresh."""
        while not stop.is_set():
            await self._try_refresh()
            with anyio.move_on_after(every_s):
                await stop.wait()

    # Counting

    def note(self, record: AuditRecord) -> None:
        """Count an outcome in the audit log."""
        kind = (record.action, record.status, record.server)
        cell = self._cells_by_record.get(kind) or self._cell(kind)
        is_aggregated = record.action in AGGREGATED_ACTIONS
        cell.requests += record.detail["count"] if is_aggregated else 1
        if record.duration_ms is not None:
            seconds = record.duration_ms / 1000
            cell.seconds += seconds
            cell.buckets[bisect_left(BUCKETS, seconds)] += 1
        if record.response_bytes:
            cell.response_bytes += record.response_bytes
        if record.action == "discover" and record.status in SUCCESS_STATUSES:
            detail = record.detail
            self.tokens += detail.get("tokens", 0)
            self.fallbacks += bool(detail.get("fallback"))
            self.empty += not detail.get("shown")

    def _cell(self, kind: Kind) -> RequestCounts:
        """Return the counts of a kind of request, with bounded names."""
        action, status, server = kind
        action, status = self._words.bounded(action), self._words.bounded(status)
        of = action, status, None if server is None else self.servers.bounded(server)
        cell = self.cells.get(of)
        if cell is None:
            cell = self.cells[of] = RequestCounts(of)
        if len(self._cells_by_record) < _MOST_FOUND:
            self._cells_by_record[kind] = cell
        return cell

    def note_failure(self, stage: str) -> None:
        """Count a failed run of a stage."""
        self.failures.add((self._words.bounded(stage),))
