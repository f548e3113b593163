"""The verdict on a statement."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["StatementKind", "StatementVerdict"]

StatementKind: TypeAlias = Literal["query", "plan", "show"]
"""What an allowed statement is: a query, EXPLAIN of a query, or a question about the database."""


@dataclass(frozen=True, kw_only=True)
class StatementVerdict:
    """What was found out about a statement."""

    allowed: bool
    """Whether it is one statement that only reads."""

    reason: str
    """Why, in a sentence, for people and models."""

    rule: str
    """Which rule decided; stable."""

    statement: str = ""
    """What may be run: the text without a semicolon at its end; empty where nothing may."""

    kind: StatementKind = "query"
    """What it is, if it is allowed."""
