"""Aggregates frequent events: equal ones within a minute become one record.

Used for events that anyone can cause at will, so that they cannot fill the audit log.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from toolgate.base.ids import new_id, utc_now
from toolgate.types import DEFAULT_PROJECT, AuditRecord, Json

AGGREGATED_ACTIONS: Final = frozenset({"list", "login_refused"})
"""Actions whose records stand for `detail.count` events."""

_WINDOW_S: Final = 60.0
"""Seconds over which equal events are counted together (chosen: a flood costs one record a
minute)."""
# Records of an action per minute, besides one for all other events. Chosen: a flood that lasts a
# day takes less than a tenth of the smallest usual limit of the audit log.
_MAX_EVENTS: Final = 64


class AggregatedEvent(NamedTuple):
    """The fields that events share if one record stands for them."""

    action: str
    target: str
    status: str = "ok"
    project_id: str = DEFAULT_PROJECT
    caller_id: str = ""
    client: str = ""


class _Count:
    """How often an event happened."""

    __slots__ = ("first_at", "last_at", "sources", "total")

    def __init__(self) -> None:
        self.total = 0
        self.first_at = self.last_at = utc_now()
        self.sources: set[str] = set()


class EventAggregator:
    """Counts events, and records them one minute after the first of them."""

    def __init__(
        self, record: Callable[[AuditRecord], None], *, max_events: int = _MAX_EVENTS
    ) -> None:
        """Create an empty aggregator.

        Args:
            record: Called with each record.
            max_events: Events of an action that are counted separately within a minute.
        """
        self._record = record
        self._max_events = max_events
        self._counts: dict[str, dict[AggregatedEvent, _Count]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, event: AggregatedEvent, *, overflow: AggregatedEvent, source: str = "") -> None:
        """Count an event.

        Args:
            event: What happened.
            overflow: Counted instead once too many different events have happened.
            source: Entry point of the request, such as `mcp`.
        """
        counts = self._counts.setdefault(event.action, {})
        count = counts.get(event)
        if count is None:
            if len(counts) >= self._max_events:
                event = overflow
            count = counts.setdefault(event, _Count())
            self._start_timer()
        count.total += 1
        count.last_at = utc_now()
        if source:
            count.sources.add(source)

    def flush(self) -> None:
        """Record everything that was counted."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        counts, self._counts = self._counts, {}
        for events in counts.values():
            for event, count in events.items():
                self._record(_record_of(event, count))

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_WINDOW_S, self.flush)


def _record_of(event: AggregatedEvent, count: _Count) -> AuditRecord:
    detail: Json = {"count": count.total, "first_at": count.first_at}
    if count.sources:
        detail["entry_points"] = sorted(count.sources)
    return AuditRecord(record_id=new_id(), at=count.last_at, detail=detail, **event._asdict())
