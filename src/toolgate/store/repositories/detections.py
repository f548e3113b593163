"""Stored intents of messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

DetectionOutcome: TypeAlias = Literal["found", "unsure", "none", "outside", "arguments"]
"""Result for a message: an intent was found, was doubtful (`unsure`), or was not found; or it
turned out wrong afterwards, because the model called a tool of another intent (`outside`) or
sent invalid arguments (`arguments`)."""


_NEAR_MISS_CONFIDENCE: Final = 0.1
"""Minimum confidence of a rejected intent that was nearly detected (chosen)."""


@dataclass(frozen=True, kw_only=True)
class StoredDetection:
    """The detected intent of a message, without arguments and results."""

    detection_id: str
    """Opaque id, sortable by time."""

    at: str
    """UTC, ISO 8601."""

    project_id: str
    """The project."""

    caller_id: str
    """The sender of the message."""

    conversation: str = ""
    """The conversation."""

    door: str = ""
    """The request: `detect`, `enrich`, `knowledge`; `recovery` for what turned out wrong."""

    outcome: DetectionOutcome
    """The result."""

    stage: str = ""
    """The deciding stage: `keyword` or `semantic`."""

    intent: str = ""
    """The intent; empty: none."""

    confidence: float = 0.0
    """Confidence in [0, 1]."""

    rival: str = ""
    """The second best intent, or the nearest one if none was found; empty: none."""

    rival_confidence: float = 0.0
    """Confidence of the second best intent."""

    called: str = ""
    """Key of the tool that was called instead, if the intent turned out wrong."""

    remembered: bool = False
    """Whether the answer came from the cache."""

    message: str | None = None
    """The message, if `audit.keep_queries` allows storing it."""

    @property
    def near_intent(self) -> str:
        """The intent, or the one that was nearly detected; empty: the message is about others."""
        is_near = bool(self.intent) or self.rival_confidence >= _NEAR_MISS_CONFIDENCE
        return (self.intent or self.rival) if is_near else ""


@dataclass(frozen=True, kw_only=True)
class DetectionFilter:
    """Criteria for detections."""

    project_id: str | None = None
    """The project; None: all."""

    outcomes: tuple[DetectionOutcome, ...] = ()
    """The results; empty: any."""

    since: str = ""
    """UTC, ISO 8601, inclusive."""

    below: float | None = None
    """Only those with a lower confidence."""

    limit: int = 100
    """Largest number, newest first; 1 to 10,000. Counts have no limit."""


@dataclass(frozen=True, kw_only=True)
class DetectionCount:
    """Number of detections with equal project, result, stage and intent."""

    project_id: str
    """The project."""

    outcome: DetectionOutcome
    """The result."""

    stage: str
    """The deciding stage."""

    intent: str
    """The intent; empty: none."""

    count: int
    """The number."""

    remembered: int
    """How many of them came from the cache."""


class DetectionRepository(Protocol):
    """Detected intents. Each method is one transaction."""

    async def append(self, detections: Sequence[StoredDetection]) -> None:
        """Write detections, all or nothing; existing ones are skipped."""
        ...

    async def select(self, query: DetectionFilter) -> list[StoredDetection]:
        """Detections that match, newest first."""
        ...

    async def counts(self, query: DetectionFilter) -> list[DetectionCount]:
        """Number of matches by project, outcome, stage and intent, in this order."""
        ...

    async def clear(self, project_id: str) -> int:
        """Delete the detections of a project. Returns their number."""
        ...
