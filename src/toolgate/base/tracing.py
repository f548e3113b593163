"""Marks the stages of a request: timings, metrics and traces subscribe to `observe`.

Without subscribers a stage costs less than a microsecond.
"""

import re
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from random import getrandbits
from time import perf_counter
from types import TracebackType
from typing import Any, NamedTuple

Observer = Callable[["Observation"], None]
"""Called when a stage has ended; must be quick and must not raise."""

Clock = Callable[[str], AbstractContextManager[None]]
"""Returns a context manager that runs around a stage; it must be quick and must not raise."""

_observers: tuple[Observer, ...] = ()
_only_recorded = True
"""Whether all observers need recorded traces only."""
_clocks: tuple[Clock, ...] = ()
_clock: Clock | None = None
"""The only clock, or all of them combined."""
_within: ContextVar["Observation | None"] = ContextVar("toolgate_observation", default=None)


_NOTHING: AbstractContextManager[None] = nullcontext()
"""Used if nothing observes a stage."""


class Observation:
    """A run of a stage."""

    __slots__ = (
        "_began", "_timed", "_token", "failed", "fields", "parent", "span_id", "stage", "took_s"
    )  # fmt: skip

    def __init__(self, stage: str, fields: dict[str, Any], *, is_timed: bool = True) -> None:
        self.stage = stage
        """`identity`, `decision`, `search`, `answer`, `arguments`, `server`, `model`, …"""
        self.fields = fields
        """Details, such as tool key, server and number of hits. Observers must not expose the
        `arguments` of a call unless the settings say so."""
        self.span_id = f"{getrandbits(64) or 1:016x}"
        """Span id (W3C): 16 hex digits."""
        self.parent: Observation | None = None
        """The run that contains this one."""
        self.failed = False
        """Whether it raised an exception."""
        self.took_s = 0.0
        """Duration in seconds."""
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
    """Mark the run of a stage by a `with` block, with details."""
    if _observers:
        trace = _trace.get()
        if not _only_recorded or (trace is not None and trace.flags[1] in _ODD):
            return Observation(stage, fields)
    return _NOTHING if _clock is None else _clock(stage)


def observe_again(stage: str, **fields: Any) -> AbstractContextManager[None]:
    """Like `observe`, for a stage that started before it was known that its trace is recorded.

    It is nested in the first run if that was observed, and its time does not count twice.
    """
    is_seen = _within.get() is not None
    return _NOTHING if is_seen or not _observers else Observation(stage, fields, is_timed=False)


def watch_stages(observer: Observer, *, only_recorded: bool = False) -> Callable[[], None]:
    """Call a function after every stage. Returns the unsubscribe function.

    Args:
        observer: The function.
        only_recorded: Whether it needs only stages of recorded traces, which makes the others
            cheaper. It may still be called for others.
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
    """Run every stage within a context manager. Returns the unsubscribe function."""

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
    """A list that collects the ids of the requests sent to servers in this context from now on."""
    sizes: list[int] = []
    _sent.set(sizes)
    return sizes


def note_sent(request_id: int) -> None:
    """Add the id of a request to the list of `sent_requests`; called by transports."""
    sizes = _sent.get()
    if sizes is not None:
        sizes.append(request_id)


_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_STATE = re.compile(r"[\x20-\x7e]{1,512}")
_ODD = frozenset("13579bdf")
_KNOWN_FLAGS = 0x03
"""The flags "recorded" and "random trace id"; others are not passed on."""


class Trace(NamedTuple):
    """The trace of the current request (W3C trace context)."""

    trace_id: str
    """32 hex digits."""

    parent_id: str
    """The client's span; empty if the trace starts here."""

    flags: str = "01"
    """Two hex digits; the lowest bit means "recorded"."""

    state: str = ""
    """The client's `tracestate`, passed on unchanged."""

    @property
    def is_recorded(self) -> bool:
        """Whether the trace is recorded."""
        return self.flags[1] in _ODD


_trace: ContextVar[Trace | None] = ContextVar("toolgate_trace", default=None)


def parse_trace(traceparent: object, tracestate: object = None) -> Trace | None:
    """Parse `traceparent` and `tracestate`; None if `traceparent` is invalid.

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
    """Set the trace of the current context."""
    _trace.set(trace)


def current_trace() -> Trace | None:
    """The trace of the current context."""
    return _trace.get()


_begin: list[Callable[[], Trace]] = []


def begin_traces_with(begin: Callable[[], Trace]) -> Callable[[], None]:
    """Set the function that starts traces and decides on recording. Returns its undo function."""
    _begin.append(begin)
    return lambda: _begin.remove(begin)


def trace_of(traceparent: object, tracestate: object = None) -> Trace:
    """The trace that a request names, or else a new one.

    If nothing records traces, a new trace is for log and audit only: servers are not told of it,
    because those that record traces would then drop theirs.
    """
    trace = parse_trace(traceparent, tracestate) if traceparent else None
    if trace is not None:
        return trace
    return _begin[-1]() if _begin else Trace(f"{getrandbits(128) or 1:032x}", "", "00")


def take_trace(traceparent: object, tracestate: object = None) -> None:
    """Set the trace of the current context to the one that a request names.

    If it names none, the trace of the surrounding request stays, or a new one starts if traces
    are recorded.
    """
    trace = parse_trace(traceparent, tracestate)
    if trace is not None:
        _trace.set(trace)
    elif _begin and _trace.get() is None:
        _trace.set(_begin[-1]())


def trace_headers() -> dict[str, str]:
    """Trace headers for outgoing requests, also used in `_meta`; may be empty.

    If no spans are recorded here, the client's span is the parent.
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
