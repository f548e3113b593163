"""Counting what happens, and telling it in the words of Prometheus.

Counting is a few additions to a dictionary; the format, and the library for it, are there once
somebody asks. Labels are bounded: of names that others choose so many are told apart, the rest is
`other`.
"""

import logging
from bisect import bisect_left
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Protocol

import anyio

from toolgate.app import App
from toolgate.errors import ToolgateError
from toolgate.observe import Observation, watch_stages
from toolgate.telemetry._names import BUCKETS
from toolgate.types import LOCAL, AuditRecord, Caller, Json

__all__ = ["MANAGER", "OTHER", "Counts", "Labels", "Metrics", "Times"]

log = logging.getLogger(__name__)

_MOST_NAMES = 200
"""Servers, stages, statuses and actions that are told apart, of each."""

OTHER = "other"
_FINE = frozenset({"ok", "input_required"})
MANAGER = Caller(client="metrics", identity=LOCAL)
"""Numbers are about all of the gateway; who may see them was decided before."""

Labels = tuple[str, ...]


class Counts:
    """A counter with labels."""

    def __init__(self) -> None:
        self.values: dict[Labels, float] = {}

    def add(self, labels: Labels, amount: float = 1) -> None:
        self.values[labels] = self.values.get(labels, 0) + amount


class Times:
    """A histogram with one label."""

    def __init__(self) -> None:
        self.by_label: dict[str, list[float]] = {}
        """Of each label how many ended in each bucket, beyond the last, and their sum."""

    def add(self, label: str, seconds: float) -> None:
        """Count one."""
        counts = self.by_label.get(label)
        if counts is None:
            if len(self.by_label) >= _MOST_NAMES:
                label = OTHER
            counts = self.by_label.setdefault(label, [0] * (len(BUCKETS) + 2))
        counts[bisect_left(BUCKETS, seconds)] += 1
        counts[-1] += seconds


class _Names:
    """Names that others choose, as many as there may be."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def bounded(self, name: str) -> str:
        if name in self._known:
            return name
        if len(self._known) >= _MOST_NAMES:
            return OTHER
        self._known.add(name)
        return name


class Spans(Protocol):
    """What is told of traces."""

    sent: int
    dropped: int


class Metrics:
    """The numbers of one gateway."""

    def __init__(
        self,
        app: App,
        *,
        running: Callable[[], int] = lambda: 0,
        tracer: Spans | None = None,
    ) -> None:
        """Make them; they count within `counting`.

        Args:
            app: The gateway.
            running: How many requests are being answered.
            tracer: What records traces, if anything does.
        """
        self.app = app
        self.running = running
        self.tracer = tracer
        self.requests, self.calls, self.refusals = Counts(), Counts(), Counts()
        self.bytes, self.failures = Counts(), Counts()
        self.durations, self.stages = Times(), Times()
        self.fallbacks = self.empty = self.tokens = 0.0
        self.servers, self._words = _Names(), _Names()
        self.index: Json = {}
        self.held = self.waiting = 0
        self.queued: Mapping[str, int] = {}
        self._told: Any = None

    @property
    def told(self) -> Any:
        """The numbers in the words of Prometheus: `Told`, loaded when it is first needed."""
        if self._told is None:
            self._told = import_module("toolgate.telemetry._format").Told(self)
        return self._told

    @contextmanager
    def counting(self) -> Generator[None]:
        """Count what happens within."""
        forget = [
            self.app.recorder.on_record(self.note),
            watch_stages(self.note_stage, nested=False),
        ]
        try:
            yield
        finally:
            for one in forget:
                one()

    async def text(self) -> tuple[str, bytes]:
        """All of it, as Prometheus reads it: the type of the answer, and the answer."""
        await self.refresh()
        return self.told.content_type, self.told.text()

    async def refresh(self) -> None:
        """Look at what cannot be seen without waiting."""
        manage = self.app.gateway.manage
        self.index = await manage.index_status(MANAGER)
        self.held = len([one for one in await manage.held_tools(MANAGER) if one.state == "held"])
        waiting = await manage.approvals(MANAGER, state="waiting", limit=1000)
        self.waiting = len(waiting)
        self.queued = self.app.store.waiting()

    async def keep_fresh(self, every_s: float, stop: anyio.Event) -> None:
        """Look again and again: what sends the numbers by itself cannot wait."""
        while not stop.is_set():
            try:
                await self.refresh()
            except ToolgateError as error:
                log.warning("numbers were not refreshed", extra={"reason": str(error)})
            with anyio.move_on_after(every_s):
                await stop.wait()

    # Counting

    def note(self, record: AuditRecord) -> None:
        """Count a record of the audit."""
        if record.phase != "outcome":
            return
        action, status, server = record.action, record.status, record.server
        if status not in self._words or action not in self._words:
            action, status = self._words.bounded(action), self._words.bounded(status)
        self.requests.add((action, status))
        if record.duration_ms is not None:
            self.durations.add(action, record.duration_ms / 1000)
        if record.action == "call":
            if server is None:
                self.refusals.add((status,))
            else:
                server = self.servers.bounded(server)
                self.calls.add((server, status))
                if record.response_bytes:
                    self.bytes.add((server,), record.response_bytes)
        elif record.action == "discover" and record.status in _FINE:
            detail = record.detail
            self.tokens += detail.get("tokens", 0)
            self.fallbacks += bool(detail.get("fallback"))
            self.empty += not detail.get("shown")
        elif record.status not in _FINE and record.server is None:
            self.refusals.add((status,))

    def note_stage(self, one: Observation) -> None:
        """Count a run of a stage."""
        self.stages.add(one.stage, one.duration_ms / 1000)
        if one.failed:
            self.failures.add((self._words.bounded(one.stage),))
