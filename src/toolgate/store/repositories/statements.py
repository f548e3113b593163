"""The stored log of SQL statements."""

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

StatementOutcome: TypeAlias = Literal["done", "refused", "failed"]
"""Result of a statement: it ran, was refused by Toolgate, or failed in the database."""


@dataclass(frozen=True, kw_only=True)
class StoredStatement:
    """A statement that a caller wanted to run."""

    statement_id: str
    """Opaque id, sortable by time."""

    at: str
    """Time; UTC, ISO 8601."""

    project_id: str
    """The project."""

    caller_id: str
    """The caller."""

    conversation: str = ""
    """The conversation; empty if unknown."""

    connection: str = ""
    """Name of the connection."""

    dialect: str = ""
    """SQL dialect of the database."""

    tool: str = "query"
    """The tool that was called."""

    statement: str = ""
    """Its text, with placeholders instead of values if the settings say so."""

    outcome: StatementOutcome = "done"
    """The result."""

    reason: str = ""
    """Why it did not run; empty if it did."""

    rows: int | None = None
    """Number of returned rows; None if it returns none."""

    elapsed_ms: float | None = None
    """Milliseconds in the database; None if it was not sent."""


class StatementRepository(Protocol):
    """The log of SQL statements. Each method is one transaction."""

    async def append(self, statement: StoredStatement) -> None:
        """Insert a statement; existing ids are skipped."""
        ...

    async def select(
        self,
        project_id: str,
        *,
        caller_id: str | None = None,
        connection: str | None = None,
        outcome: StatementOutcome | None = None,
        since: str = "",
        before: tuple[str, str] | None = None,
        limit: int = 100,
    ) -> list[StoredStatement]:
        """Statements of a project, newest first.

        Args:
            project_id: The project.
            caller_id: Only those of this caller.
            connection: Only those on this connection.
            outcome: Only those with this result.
            since: Only those at this time or later; UTC, ISO 8601; empty: all.
            before: Time and id of the last statement of the previous page.
            limit: At most as many, up to 10,000.
        """
        ...
