"""The stored usage log: searches, their results, and calls."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

UseOutcome: TypeAlias = Literal["ok", "error", "right", "wrong", "reworded"]
"""What happened to a tool that a search showed: called with or without success, rated by a
person, or called with success after a reworded search."""


@dataclass(frozen=True, kw_only=True)
class StoredSearch:
    """A query in the usage log, without arguments and results."""

    search_id: str
    """Opaque id, sortable by time."""

    at: str
    """UTC, ISO 8601."""

    project_id: str
    """The project; nothing is learned across projects."""

    caller_id: str
    """The caller."""

    conversation: str = ""
    """The conversation."""

    model: str = ""
    """Identity of the embedder of `vector`; empty if there is none."""

    vector: bytes = b""
    """Vector of the query, float16, little-endian; empty if there is none."""

    shown: tuple[tuple[str, float], ...] = ()
    """Keys and relevance of the returned tools."""

    margin: float | None = None
    """Cosine by which the best tool exceeded the cutoff of "nothing fits"."""

    weak: bool = False
    """Whether the answer said that nothing fits."""

    query: str | None = None
    """The query, if `audit.keep_queries` allows storing it."""


@dataclass(frozen=True, kw_only=True)
class StoredUse:
    """What happened to a tool that a search showed."""

    use_id: str
    """Opaque id, sortable by time."""

    search_id: str
    """The search that showed it."""

    at: str
    """UTC, ISO 8601."""

    project_id: str
    """The project."""

    tool: str
    """Key of the tool."""

    outcome: UseOutcome
    """What happened."""


@dataclass(frozen=True, kw_only=True)
class UsageFilter:
    """Criteria for searches of the usage log."""

    project_id: str
    """The project; queries across projects are not possible."""

    caller_id: str | None = None
    """Only searches of this caller; None: of all."""

    with_uses: bool = False
    """Only searches with a called or rated tool."""

    since: str = ""
    """UTC, ISO 8601, inclusive: time of the search, or with `with_uses`, of its last use."""

    limit: int = 1000
    """Largest number, newest first; 1 to 100,000."""


@dataclass(frozen=True, kw_only=True)
class UsageEntry:
    """A search with what happened to its tools."""

    search: StoredSearch
    """The search."""

    uses: tuple[StoredUse, ...] = ()
    """Oldest first."""


class UsageRepository(Protocol):
    """The usage log. Each method is one transaction."""

    async def append(self, searches: Sequence[StoredSearch], uses: Sequence[StoredUse]) -> None:
        """Write to the usage log, all or nothing; existing rows are skipped.

        A use may arrive before its search, or after its deletion; it is found only with its
        search.
        """
        ...

    async def select(self, query: UsageFilter) -> list[UsageEntry]:
        """Matching searches with their uses, newest first."""
        ...

    async def clear(self, project_id: str) -> int:
        """Delete the usage log of a project. Returns the number of searches."""
        ...
