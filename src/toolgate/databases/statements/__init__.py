"""Statements and their results; needs only the standard library, for worker processes."""

from toolgate.databases.statements.errors import fault_of_statement, hint_of
from toolgate.databases.statements.result import (
    QueryLimits,
    QueryResult,
    ResultColumn,
    result_of,
)

__all__ = [
    "QueryLimits",
    "QueryResult",
    "ResultColumn",
    "fault_of_statement",
    "hint_of",
    "result_of",
]
