"""The verdict on a statement."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

StatementKind: TypeAlias = Literal["query", "plan", "show"]
"""Kind of an allowed statement: a query, EXPLAIN of a query, or a request for database
information."""


@dataclass(frozen=True, kw_only=True)
class StatementVerdict:
    """Result of checking a statement."""

    allowed: bool
    """Whether it is one statement that only reads."""

    reason: str
    """Reason in a sentence, for people and models."""

    rule: str
    """Stable name of the rule that decided."""

    statement: str = ""
    """The statement to run: the text without a trailing semicolon; empty if not allowed."""

    kind: StatementKind = "query"
    """Kind of the statement, if it is allowed."""
