"""All names in a statement, to look up in a catalog."""

from dataclasses import dataclass

from toolgate.databases.sql_guard.dialects import dialect_named
from toolgate.databases.sql_guard.lexer import AmbiguousSqlError, read
from toolgate.databases.sql_guard.postgres.operators import operators_in
from toolgate.databases.sql_guard.refused import StatementRefusedError


@dataclass(frozen=True, kw_only=True)
class PostgresNames:
    """All names that a statement may contain; a superset."""

    words: frozenset[str]
    """Words and names, as PostgreSQL folds them."""

    operators: frozenset[str]
    """Operators, including those that keywords stand for."""


def named_in(sql: str) -> PostgresNames:
    """Return all names in a statement; none if it is unreadable, and so refused anyway."""
    dialect = dialect_named("postgres")
    assert dialect is not None
    try:
        pieces = read(sql, dialect).pieces
        operators = frozenset(name for _, name in operators_in(pieces))
    except (AmbiguousSqlError, StatementRefusedError):
        return PostgresNames(words=frozenset(), operators=frozenset())
    return PostgresNames(
        words=frozenset(piece.value for piece in pieces if piece.is_named),
        operators=frozenset("<>" if name == "!=" else name for name in operators),
    )
