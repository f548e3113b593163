"""Watching the stages at work: timings, metrics and traces hang on `observe`.

Nobody watches by default, and then a stage costs less than a microsecond more.
"""

import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from time import perf_counter
from types import TracebackType
from typing import Any, cast

__all__ = [
    "Observation",
    "Observer",
    "note_sent",
    "observe",
    "sent_requests",
    "trace_of",
    "watch_stages",
]

Observer = Callable[["Observation"], None]
"""Called when a stage has ended; must be quick and must not raise."""

_observers: list[Observer] = []
_within: ContextVar["Observation | None"] = ContextVar("toolgate_observation", default=None)


class Observation:
    """One run of one stage."""

    __slots__ = ("_began", "_token", "duration_ms", "failed", "fields", "parent", "stage")

    def __init__(self, stage: str, fields: dict[str, Any]) -> None:
        self.stage = stage
        """Which: `intent`, `rules`, `search`, `answer`, `arguments`, `server`, `paging`."""
        self.fields = fields
        """What is known of it: tool key, server, number of hits."""
        self.parent: Observation | None = None
        """The run that this one is part of."""
        self.failed = False
        """Whether it ended in an exception."""
        self.duration_ms = 0.0
        """Milliseconds it took."""

    def __enter__(self) -> "Observation":
        self.parent = _within.get()
        self._token = _within.set(self)
        self._began = perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.duration_ms = (perf_counter() - self._began) * 1000
        self.failed = kind is not None
        _within.reset(self._token)
        for observer in tuple(_observers):
            observer(self)


class _Nothing:
    """The observation when nobody watches."""

    __slots__ = ()

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, *_: object) -> None:
        """Do nothing."""


_NOTHING = _Nothing()


def observe(stage: str, **fields: Any) -> "Observation | _Nothing":
    """Mark the run of a stage by a `with` block; the fields travel with it."""
    return Observation(stage, fields) if _observers else _NOTHING


def watch_stages(observer: Observer) -> Callable[[], None]:
    """Have a function called after every stage; gives what ends that."""
    _observers.append(observer)
    return lambda: _observers.remove(observer)


_sent: ContextVar[list[int] | None] = ContextVar("toolgate_sent", default=None)


def sent_requests() -> list[int]:
    """A list that takes the ids of the requests that are sent to servers from here on."""
    found: list[int] = []
    _sent.set(found)
    return found


def note_sent(request_id: int) -> None:
    """Remember that a request went to a server, for whoever asked; called by wires."""
    found = _sent.get()
    if found is not None:
        found.append(request_id)


_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}.*")


def trace_of(params: Mapping[str, Any]) -> str | None:
    """The trace that a request belongs to, as `_meta.traceparent` of its parameters says (W3C)."""
    meta = params.get("_meta")
    given = (
        cast("Mapping[str, object]", meta).get("traceparent") if isinstance(meta, dict) else None
    )
    found = _TRACEPARENT.fullmatch(given) if isinstance(given, str) else None
    return found[1] if found is not None else None
