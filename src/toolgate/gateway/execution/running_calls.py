"""The running calls: tool, caller, start time."""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from types import TracebackType

from toolgate.types import Caller

__all__ = ["Running", "RunningCall"]


@dataclass(frozen=True, kw_only=True)
class RunningCall:
    """A call that its server has not answered yet."""

    tool: str
    """Its key."""

    caller_id: str
    """Who calls."""

    client: str
    """With which program; empty: not known."""

    project_id: str
    """Where."""

    for_s: float
    """Seconds since it was sent."""


class Running:
    """Holds the calls that run now."""

    def __init__(self) -> None:
        self._calls: dict[_Call, float] = {}
        self._listeners: list[Callable[[], None]] = []

    def call(self, caller: Caller, key: str) -> "_Call":
        """Hold a call of a tool as long as the block lasts."""
        return _Call(self, caller, key)

    def calls(self) -> list[RunningCall]:
        """Those that run now, the longest first."""
        now = monotonic()
        return [
            RunningCall(
                tool=call.key,
                caller_id=call.caller.caller_id,
                client=call.caller.client or "",
                project_id=call.caller.project_id,
                for_s=round(now - began, 3),
            )
            for call, began in self._calls.items()
        ]

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have a function called when a call begins or ends; gives what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def begin(self, call: "_Call") -> None:
        """It has been sent."""
        self._calls[call] = monotonic()
        for listener in self._listeners:
            listener()

    def end(self, call: "_Call") -> None:
        """It was answered, or given up."""
        del self._calls[call]
        for listener in self._listeners:
            listener()


class _Call:
    """One call, in every call: no generator, no value that nobody asks for."""

    __slots__ = ("_of", "caller", "key")

    def __init__(self, of: Running, caller: Caller, key: str) -> None:
        self._of = of
        self.caller = caller
        self.key = key

    def __enter__(self) -> None:
        self._of.begin(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._of.end(self)
