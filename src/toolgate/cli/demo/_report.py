"""Results of the demo, as its screen and `--json` show them."""

from dataclasses import asdict, dataclass, field

from toolgate.cli.demo._schema import QuestionResult
from toolgate.cli.demo._turns import TurnResult
from toolgate.types import Json


@dataclass(frozen=True, kw_only=True)
class RequestResult:
    """Result of one request."""

    request: str
    """Text of the search."""

    found: str
    """Key of the best hit; empty if there were no hits."""

    relevance: float
    """Its relevance in [0, 1]."""

    expected: str
    """Key of the right tool."""

    ran: str
    """Key of the tool that was called; empty if the expected one was not among the hits."""

    worked: bool
    """Whether the call succeeded and the answer has the expected content."""

    answer: str
    """First line of the answer."""

    discovery_tokens: int
    """Estimated tokens of the response of `tool_discovery`."""

    discovery_ms: float
    """Milliseconds of the search, measured at the client."""

    execute_ms: float
    """Milliseconds of the call, measured at the client."""


@dataclass(frozen=True, kw_only=True)
class RecoveryResult:
    """Result of killing a server."""

    server: str
    """Name of the server."""

    killed_pid: int
    """Process id before it was killed."""

    new_pid: int | None
    """Process id afterwards; None if it did not restart in time."""

    first_call: str
    """First line of the answer to the call right after the kill."""

    first_call_worked: bool
    """Whether that call succeeded."""

    first_call_ms: float
    """Milliseconds of that call."""

    works_again: bool
    """Whether a call succeeded in the end."""

    other: str = ""
    """Key of a tool of another server, called while the server was down."""

    other_worked: bool = True
    """Whether that call succeeded."""

    other_ms: float = 0.0
    """Milliseconds of that call."""


@dataclass(kw_only=True)
class DemoReport:
    """All results of the demo; what `--json` prints."""

    servers: list[Json] = field(default_factory=list[Json])
    """State of each server after the start."""

    problems: list[str] = field(default_factory=list[str])
    """Why servers are missing, one sentence each."""

    ready_s: float = 0.0
    """Seconds until all servers had started."""

    menu_tools: int = 0
    """Number of tools of all servers."""

    menu_tokens: int = 0
    """Estimated tokens of all their definitions."""

    shown_tools: list[str] = field(default_factory=list[str])
    """Tool names in the response to `tools/list`."""

    shown_tokens: int = 0
    """Estimated tokens of those definitions."""

    requests: list[RequestResult] = field(default_factory=list[RequestResult])
    """Result of each request."""

    recovery: RecoveryResult | None = None
    """Result of killing a server; None if there was nothing to kill."""

    questions: list[QuestionResult] = field(default_factory=list[QuestionResult])
    """Results of questions about a database."""

    turns: list[TurnResult] = field(default_factory=list[TurnResult])
    """Results of chat turns."""

    url: str = ""
    """URL of the gateway's MCP endpoint."""

    @property
    def fine(self) -> bool:
        """Whether everything succeeded."""
        seen = self.recovery
        recovered = seen is not None and seen.works_again and seen.other_worked
        done = [*self.requests, *self.questions, *self.turns]
        return bool(self.requests) and recovered and all(result.worked for result in done)

    def as_json(self) -> Json:
        """Return what `--json` prints: every field, and `fine`."""
        return {**asdict(self), "fine": self.fine}
