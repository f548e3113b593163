"""Tracks running calls: tool, caller, start time."""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from types import TracebackType

from toolgate.types import Caller


@dataclass(frozen=True, kw_only=True)
class RunningCall:
    """A call that its server has not answered yet."""

    tool: str
    """The key of the tool."""

    caller_id: str
    """The id of the caller."""

    client: str
    """The caller's client program; empty if unknown."""

    project_id: str
    """The project of the caller."""

    for_s: float
    """Seconds since the call was sent."""


class Running:
    """The running calls."""

    def __init__(self) -> None:
        self._calls: dict[_Call, float] = {}
        self._listeners: list[Callable[[], None]] = []

    def call(self, caller: Caller, key: str) -> "_Call":
        """Count a call of a tool as running while the block runs."""
        return _Call(self, caller, key)

    def calls(self) -> list[RunningCall]:
        """The running calls, longest first."""
        now_s = monotonic()
        return [
            RunningCall(
                tool=call.key,
                caller_id=call.caller.caller_id,
                client=call.caller.client or "",
                project_id=call.caller.project_id,
                for_s=round(now_s - began, 3),
            )
            for call, began in self._calls.items()
        ]

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Register a listener for starts and ends of calls. Returns a function that removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def begin(self, call: "_Call") -> None:
        """Add a call that was sent."""
        self._calls[call] = monotonic()
        for listener in self._listeners:
            listener()

    def end(self, call: "_Call") -> None:
        """Remove a call that was answered or abandoned."""
        del self._calls[call]
        for listener in self._listeners:
            listener()


class _Call:
    """The context of one call; a class, since a generator would slow down every call."""

    __slots__ = ("_running", "caller", "key")

    def __init__(self, running: Running, caller: Caller, key: str) -> None:
        self._running = running
        self.caller = caller
        self.key = key

    def __enter__(self) -> None:
        self._running.begin(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._running.end(self)
