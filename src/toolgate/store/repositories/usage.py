"""The usage log: what was searched, shown and executed, as a store keeps it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

__all__ = [
    "StoredSearch",
    "StoredUse",
    "UsageEntry",
    "UsageFilter",
    "UsageRepository",
    "UseOutcome",
]


UseOutcome: TypeAlias = Literal["ok", "error", "right", "wrong", "reworded"]
"""What became of a tool that a search showed: executed with or without success, marked by a
person, or executed with success after a later search that asked the same in other words."""


@dataclass(frozen=True, kw_only=True)
class StoredSearch:
    """A request for tools in the usage log, one query of it. No arguments, no results."""

    search_id: str
    """Opaque, time-sortable."""

    at: str
    """UTC, ISO 8601."""

    project_id: str
    """The tenant; nothing is learned across projects."""

    caller_id: str
    """Who asked."""

    conversation: str = ""
    """In which conversation."""

    model: str = ""
    """Identity of the embedder that made `vector`; empty when there is none."""

    vector: bytes = b""
    """The query's vector, float16, little-endian; empty when it had none."""

    shown: tuple[tuple[str, float], ...] = ()
    """Keys of the tools that the answer showed, with their relevance."""

    margin: float | None = None
    """How far the best of them was above the line of "nothing fits", as a cosine."""

    weak: bool = False
    """Whether the answer said that nothing fits."""

    query: str | None = None
    """Its text, where `audit.keep_queries` allows it."""


@dataclass(frozen=True, kw_only=True)
class StoredUse:
    """What became of one tool that a search showed."""

    use_id: str
    """Opaque, time-sortable."""

    search_id: str
    """The search that showed it."""

    at: str
    """UTC, ISO 8601."""

    project_id: str
    """The tenant."""

    tool: str
    """Its key."""

    outcome: UseOutcome
    """How it ended."""


@dataclass(frozen=True, kw_only=True)
class UsageFilter:
    """Which searches of the usage log are wanted."""

    project_id: str
    """The tenant; there is no way to ask for all."""

    caller_id: str | None = None
    """Only of this caller; None: of all."""

    with_uses: bool = False
    """Only those of which a tool was executed or marked."""

    since: str = ""
    """UTC, ISO 8601, inclusive: of the search, or of its last use where uses are wanted."""

    limit: int = 1000
    """At most this many, the newest; 1 to 100,000."""


@dataclass(frozen=True, kw_only=True)
class UsageEntry:
    """A search of the usage log and what became of it."""

    search: StoredSearch
    """What was asked and shown."""

    uses: tuple[StoredUse, ...] = ()
    """Oldest first."""


class UsageRepository(Protocol):
    """The usage log. Each method is one transaction."""

    async def append(self, searches: Sequence[StoredSearch], uses: Sequence[StoredUse]) -> None:
        """Write to the usage log; all or nothing. What is there already is left alone.

        A use may come before its search, or when that is gone: it is kept and found with it only.
        """
        ...

    async def select(self, query: UsageFilter) -> list[UsageEntry]:
        """Searches that match, newest first, each with all that became of it."""
        ...

    async def clear(self, project_id: str) -> int:
        """Delete what a project searched and used; gives the number of searches."""
        ...
