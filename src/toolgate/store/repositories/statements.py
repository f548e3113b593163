"""What was asked of connected databases, as a store keeps it."""

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

__all__ = ["StatementOutcome", "StatementRepository", "StoredStatement"]

StatementOutcome: TypeAlias = Literal["done", "refused", "failed"]
"""What became of a statement: it ran, it was not let through, or its database had none of it."""


@dataclass(frozen=True, kw_only=True)
class StoredStatement:
    """A statement that somebody wanted to run."""

    statement_id: str
    """Opaque, sorts by time."""

    at: str
    """When; UTC, ISO 8601."""

    project_id: str
    """The tenant."""

    caller_id: str
    """Who."""

    conversation: str = ""
    """In which conversation; empty: not known."""

    connection: str = ""
    """Name of the connection."""

    dialect: str = ""
    """Kind of the database."""

    tool: str = "query"
    """The tool that was called."""

    statement: str = ""
    """Its text; with signs in place of values where the settings say so."""

    outcome: StatementOutcome = "done"
    """What became of it."""

    reason: str = ""
    """Why it did not run; empty: it did."""

    rows: int | None = None
    """Rows that were given; None: none could be."""

    elapsed_ms: float | None = None
    """Milliseconds in the database; None: it was not asked."""


class StatementRepository(Protocol):
    """Statements. Each method is one transaction."""

    async def append(self, statement: StoredStatement) -> None:
        """Insert a statement; one with a known id is left as it is."""
        ...

    async def select(
        self, project_id: str, *, caller_id: str | None = None, since: str = "", limit: int = 100
    ) -> list[StoredStatement]:
        """Statements of a project, of one caller or of all, newest first."""
        ...
