"""What the demo saw: the values that its screen shows and `--json` prints."""

from dataclasses import dataclass, field

from toolgate.cli.demo._schema import QuestionResult
from toolgate.cli.demo._turns import TurnResult
from toolgate.types import Json

__all__ = ["DemoReport", "RecoveryResult", "RequestResult"]


@dataclass(frozen=True, kw_only=True)
class RequestResult:
    """How one request went."""

    request: str
    """As it was searched."""

    found: str
    """Key of the best hit; empty when nothing was found."""

    relevance: float
    """Its relevance in [0, 1]."""

    expected: str
    """Key of the tool that ought to be found."""

    ran: str
    """Key of the tool that was run; empty when the expected one was not among the hits."""

    worked: bool
    """Whether it ran without error and the answer held what it had to."""

    answer: str
    """First line of the answer."""

    discovery_tokens: int
    """Estimated tokens of the answer of `tool_discovery`."""

    discovery_ms: float
    """Milliseconds, seen from the client."""

    execute_ms: float
    """Milliseconds, seen from the client."""


@dataclass(frozen=True, kw_only=True)
class RecoveryResult:
    """What happened after a server was killed."""

    server: str
    """Which one."""

    killed_pid: int
    """Its process before."""

    new_pid: int | None
    """Its process after; None when it did not come back in time."""

    first_call: str
    """First line of the answer of the call right after the kill."""

    first_call_worked: bool
    """Whether that call worked already."""

    first_call_ms: float
    """Milliseconds of that call."""

    works_again: bool
    """Whether a call worked in the end."""

    other: str = ""
    """Key of a tool of another server that was called meanwhile."""

    other_worked: bool = True
    """Whether that call worked."""

    other_ms: float = 0.0
    """Milliseconds of that call."""


@dataclass(kw_only=True)
class DemoReport:
    """All that the demo showed; what `--json` prints."""

    servers: list[Json] = field(default_factory=list[Json])
    """State of each server once all had started."""

    problems: list[str] = field(default_factory=list[str])
    """Why servers are missing, a sentence each."""

    ready_s: float = 0.0
    """Seconds from the first look until no server was starting any more."""

    menu_tools: int = 0
    """Tools of all servers together."""

    menu_tokens: int = 0
    """Estimated tokens of all their definitions."""

    shown_tools: list[str] = field(default_factory=list[str])
    """Names that `tools/list` answered."""

    shown_tokens: int = 0
    """Estimated tokens of those definitions."""

    requests: list[RequestResult] = field(default_factory=list[RequestResult])
    """How each request went."""

    recovery: RecoveryResult | None = None
    """What happened after a kill; None when there was nothing to kill."""

    questions: list[QuestionResult] = field(default_factory=list[QuestionResult])
    """What became of questions about a database."""

    turns: list[TurnResult] = field(default_factory=list[TurnResult])
    """What became of whole turns."""

    url: str = ""
    """Address of the gateway's MCP endpoint."""

    @property
    def fine(self) -> bool:
        """Whether everything that was shown worked."""
        seen = self.recovery
        recovered = seen is not None and seen.works_again and seen.other_worked
        done = [*self.requests, *self.questions, *self.turns]
        return bool(self.requests) and recovered and all(result.worked for result in done)
