"""Intents that messages were classified as, as a store keeps them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

__all__ = [
    "DetectionCount",
    "DetectionFilter",
    "DetectionOutcome",
    "DetectionRepository",
    "StoredDetection",
]


DetectionOutcome: TypeAlias = Literal["found", "unsure", "none", "outside", "arguments"]
"""What became of a message: an intent was found; one was found, and asked back for; none was. Or an
intent turned out to be wrong afterwards: the model called a tool that is none of its (`outside`),
or gave arguments that did not fit (`arguments`)."""


@dataclass(frozen=True, kw_only=True)
class StoredDetection:
    """What a message was taken for. No arguments, no results."""

    detection_id: str
    """Opaque, time-sortable."""

    at: str
    """UTC, ISO 8601."""

    project_id: str
    """The tenant."""

    caller_id: str
    """Whose message it was."""

    conversation: str = ""
    """In which conversation."""

    door: str = ""
    """What asked: `detect`, `enrich`, `knowledge`; for what turned out wrong `recovery`."""

    outcome: DetectionOutcome
    """What became of it."""

    stage: str = ""
    """What decided: `keyword` or `semantic`."""

    intent: str = ""
    """What it was taken for; empty: nothing."""

    confidence: float = 0.0
    """How sure that was, in [0, 1]."""

    rival: str = ""
    """The next best intent; where none was found, the nearest one. Empty: there is none."""

    rival_confidence: float = 0.0
    """How sure that would have been."""

    called: str = ""
    """Key of the tool that was called instead, where it turned out wrong."""

    remembered: bool = False
    """Whether the answer was known from an equal message before."""

    message: str | None = None
    """Its text, where `audit.keep_queries` allows it."""


@dataclass(frozen=True, kw_only=True)
class DetectionFilter:
    """Which detections are wanted."""

    project_id: str | None = None
    """The tenant; None: all."""

    outcomes: tuple[DetectionOutcome, ...] = ()
    """What became of them; empty: anything."""

    since: str = ""
    """UTC, ISO 8601, inclusive."""

    below: float | None = None
    """Only those less sure than this."""

    limit: int = 100
    """At most this many, the newest; 1 to 10,000. Counts have no limit."""


@dataclass(frozen=True, kw_only=True)
class DetectionCount:
    """How often something was detected."""

    project_id: str
    """The tenant."""

    outcome: DetectionOutcome
    """What became of the messages."""

    stage: str
    """What decided."""

    intent: str
    """What they were taken for; empty: nothing."""

    count: int
    """How many."""

    remembered: int
    """How many of these were known from equal messages before."""


class DetectionRepository(Protocol):
    """Detections of intents. Each method is one transaction."""

    async def append(self, detections: Sequence[StoredDetection]) -> None:
        """Write detections; all or nothing. What is there already is left alone."""
        ...

    async def select(self, query: DetectionFilter) -> list[StoredDetection]:
        """Detections that match, newest first."""
        ...

    async def counts(self, query: DetectionFilter) -> list[DetectionCount]:
        """How many match, of each project, outcome, stage and intent, in this order."""
        ...

    async def clear(self, project_id: str) -> int:
        """Delete the detections of a project; gives their number."""
        ...
