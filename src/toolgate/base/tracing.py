"""Observes the stages: timings, metrics and traces hook into `observe`.

Nobody watches by default, and then a stage costs less than a microsecond more.
"""

import re
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from random import getrandbits
from time import perf_counter
from types import TracebackType
from typing import Any, NamedTuple

__all__ = [
    "Clock",
    "Observation",
    "Observer",
    "Trace",
    "begin_traces_with",
    "current_trace",
    "join_trace",
    "note_sent",
    "observe",
    "observe_again",
    "parse_trace",
    "sent_requests",
    "take_trace",
    "time_stages",
    "trace_headers",
    "trace_of",
    "watch_stages",
]

Observer = Callable[["Observation"], None]
"""Called when a stage has ended; must be quick and must not raise."""

Clock = Callable[[str], AbstractContextManager[None]]
"""Gives what is around a run of a stage; it begins when that is made, must be quick and must not
raise."""

_observers: tuple[Observer, ...] = ()
_only_recorded = True
"""Whether none of them asks for what belongs to no trace that is recorded."""
_clocks: tuple[Clock, ...] = ()
_clock: Clock | None = None
"""The one of them, or all in one."""
_within: ContextVar["Observation | None"] = ContextVar("toolgate_observation", default=None)


_NOTHING: AbstractContextManager[None] = nullcontext()
"""Around a run that nobody watches."""


class Observation:
    """One run of one stage."""

    __slots__ = (
        "_began", "_timed", "_token", "failed", "fields", "parent", "span_id", "stage", "took_s"
    )  # fmt: skip

    def __init__(self, stage: str, fields: dict[str, Any], *, is_timed: bool = True) -> None:
        self.stage = stage
        """Which: `identity`, `decision`, `search`, `answer`, `arguments`, `server`, `model`, …"""
        self.fields = fields
        """What is known of it: tool key, server, number of hits; `arguments` of a call, which
        whoever watches shows to nobody unless asked to."""
        self.span_id = f"{getrandbits(64) or 1:016x}"
        """Its name within a trace (W3C): 16 hex digits."""
        self.parent: Observation | None = None
        """The run that this one is part of."""
        self.failed = False
        """Whether it ended in an exception."""
        self.took_s = 0.0
        """Seconds it took."""
        self._timed = _clock(stage) if is_timed and _clock is not None else _NOTHING

    def __enter__(self) -> None:
        """Begin."""
        self.parent = _within.get()
        self._token = _within.set(self)
        self._timed.__enter__()
        self._began = perf_counter()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End."""
        self.took_s = perf_counter() - self._began
        self._timed.__exit__(kind, error, trace)
        self.failed = kind is not None
        _within.reset(self._token)
        for observer in _observers:
            observer(self)


def observe(stage: str, **fields: Any) -> AbstractContextManager[None]:
    """Mark the run of a stage by a `with` block; the fields travel with it."""
    if _observers:
        trace = _trace.get()
        if not _only_recorded or (trace is not None and trace.flags[1] in _ODD):
            return Observation(stage, fields)
    return _NOTHING if _clock is None else _clock(stage)


def observe_again(stage: str, **fields: Any) -> AbstractContextManager[None]:
    """The same for what was marked before it was known that its trace is recorded.

    It is a part of the first one where that is seen too, and its time is not counted twice.
    """
    is_seen = _within.get() is not None
    return _NOTHING if is_seen or not _observers else Observation(stage, fields, is_timed=False)


def watch_stages(observer: Observer, *, only_recorded: bool = False) -> Callable[[], None]:
    """Have a function called after every stage; gives what ends that.

    Args:
        observer: The function.
        only_recorded: Whether it needs only what belongs to a trace that is recorded; the rest
            costs less then. It may be called for more.
    """
    global _observers, _only_recorded  # noqa: PLW0603 - exchanged as a whole, so that one may end while it is called
    _observers = (*_observers, observer)
    _only_recorded = _only_recorded and only_recorded

    def end() -> None:
        global _observers, _only_recorded  # noqa: PLW0603
        _observers = tuple(current for current in _observers if current is not observer)
        _only_recorded = _only_recorded or not _observers

    return end


def time_stages(clock: Clock) -> Callable[[], None]:
    """Have every stage run within what a function gives for it; gives what ends that."""

    def use(clocks: tuple[Clock, ...]) -> None:
        global _clocks, _clock  # noqa: PLW0603
        _clocks = clocks
        _clock = None if not clocks else clocks[0] if len(clocks) == 1 else _all_clocks

    use((*_clocks, clock))
    return lambda: use(tuple(current for current in _clocks if current is not clock))


@contextmanager
def _all_clocks(stage: str) -> Generator[None]:
    with ExitStack() as within:
        for clock in _clocks:
            within.enter_context(clock(stage))
        yield


_sent: ContextVar[list[int] | None] = ContextVar("toolgate_sent", default=None)


def sent_requests() -> list[int]:
    """A list that takes the ids of the requests that are sent to servers from here on."""
    sizes: list[int] = []
    _sent.set(sizes)
    return sizes


def note_sent(request_id: int) -> None:
    """Remember that a request went to a server, for whoever asked; called by wires."""
    sizes = _sent.get()
    if sizes is not None:
        sizes.append(request_id)


_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_STATE = re.compile(r"[\x20-\x7e]{1,512}")
_ODD = frozenset("13579bdf")
_KNOWN_FLAGS = 0x03
"""Recorded, and a trace id made at random; what else is set is not passed on."""


class Trace(NamedTuple):
    """The trace that what runs now belongs to (W3C trace context)."""

    trace_id: str
    """32 hex digits."""

    parent_id: str
    """The span that it is part of, of whoever asked; empty: it begins here."""

    flags: str = "01"
    """Two hex digits; the last bit says that it is recorded."""

    state: str = ""
    """The `tracestate` of whoever asked, passed on as it is."""

    @property
    def is_recorded(self) -> bool:
        """Whether whoever began it wants it recorded."""
        return self.flags[1] in _ODD


_trace: ContextVar[Trace | None] = ContextVar("toolgate_trace", default=None)


def parse_trace(traceparent: object, tracestate: object = None) -> Trace | None:
    """The trace that a `traceparent` names, with its `tracestate`; None where it is none.

    See https://www.w3.org/TR/trace-context/#versioning-of-traceparent.
    """
    match = _TRACEPARENT.fullmatch(traceparent) if isinstance(traceparent, str) else None
    if match is None:
        return None
    version, trace_id, parent_id, flags, more = match.groups()
    if version == "ff" or (version == "00" and more):
        return None
    if trace_id == "0" * 32 or parent_id == "0" * 16:
        return None
    state = tracestate if isinstance(tracestate, str) and _STATE.fullmatch(tracestate) else ""
    return Trace(trace_id, parent_id, f"{int(flags, 16) & _KNOWN_FLAGS:02x}", state)


def join_trace(trace: Trace | None) -> None:
    """Let what runs from here on belong to a trace."""
    _trace.set(trace)


def current_trace() -> Trace | None:
    """The trace that what runs now belongs to."""
    return _trace.get()


_begin: list[Callable[[], Trace]] = []


def begin_traces_with(begin: Callable[[], Trace]) -> Callable[[], None]:
    """Say of each trace that begins here whether it is recorded; gives what ends that."""
    _begin.append(begin)
    return lambda: _begin.remove(begin)


def trace_of(traceparent: object, tracestate: object = None) -> Trace:
    """The trace that a request names; where it names none, one that begins here.

    Where nobody records any, one that begins here is for the log and the audit alone: servers are
    not told of it, or those that record traces of their own would leave this one out.
    """
    trace = parse_trace(traceparent, tracestate) if traceparent else None
    if trace is not None:
        return trace
    return _begin[-1]() if _begin else Trace(f"{getrandbits(128) or 1:032x}", "", "00")


def take_trace(traceparent: object, tracestate: object = None) -> None:
    """Let what runs from here on belong to the trace that a request names.

    Without one it stays in that of the request around it; else one begins, if any are recorded.
    """
    trace = parse_trace(traceparent, tracestate)
    if trace is not None:
        _trace.set(trace)
    elif _begin and _trace.get() is None:
        _trace.set(_begin[-1]())


def trace_headers() -> dict[str, str]:
    """What is passed on to whoever is asked from here, as headers and in `_meta`; may be empty.

    Where no spans are recorded here, the span of whoever asked us is named.
    """
    trace = _trace.get()
    if trace is None:
        return {}
    within = _within.get() if _begin and trace.flags[1] in _ODD else None
    span = trace.parent_id if within is None else within.span_id
    if not span:
        return {}
    parent = f"00-{trace.trace_id}-{span}-{trace.flags}"
    if trace.state:
        return {"traceparent": parent, "tracestate": trace.state}
    return {"traceparent": parent}
