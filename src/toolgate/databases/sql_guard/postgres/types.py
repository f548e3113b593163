"""Types in a query: those of `pg_catalog` only compute, converting to others may run a function."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from toolgate.databases.sql_guard.dialects import words
from toolgate.databases.sql_guard.lexer import SqlToken
from toolgate.databases.sql_guard.postgres.keywords import RESERVED, TYPE_KEYWORDS, Clauses
from toolgate.databases.sql_guard.postgres.rules import PostgresRules
from toolgate.databases.sql_guard.refused import StatementRefusedError

__all__ = ["refuse_types"]

_CASTS: Final = words("cast treat xmlserialize")
_BEHIND_TYPES: Final = {
    "precision": "double",
    "varying": "character char bit nchar",
    "zone": "time",
    "character": "national",
    "char": "national",
}
"""Last words of types that have several, and what stands before them."""


def refuse_types(
    pieces: Sequence[SqlToken], defined_columns: Iterable[int], rules: PostgresRules
) -> None:
    """Refuse types whose conversions may run code of users.

    Args:
        pieces: The statement.
        defined_columns: Tokens behind which the type of a column stands: `AS t(a integer)`.
        rules: What is known to be harmless.

    Raises:
        StatementRefusedError: There is one.
    """
    for at in (*_type_positions(pieces), *(at + 1 for at in defined_columns)):
        if not _is_keyword(pieces, at):
            rules.refuse_type(*_type_at(pieces, at))


def _is_keyword(pieces: Sequence[SqlToken], at: int) -> bool:
    """Whether a type of `pg_catalog` begins at a token that cannot be the name of another."""
    is_qualified = at + 1 < len(pieces) and pieces[at + 1].is_sign(".")
    if is_qualified or at >= len(pieces):
        return False
    is_double = pieces[at].is_word("double") and at + 1 < len(pieces)
    return pieces[at].is_word(*TYPE_KEYWORDS) or (is_double and pieces[at + 1].is_word("precision"))


def _type_positions(pieces: Sequence[SqlToken]) -> Iterator[int]:
    """Where types begin in `::type`, `CAST(… AS type)`, `RETURNING type` and `type '…'`."""
    clauses = Clauses(pieces)
    for at, piece in enumerate(pieces):
        before = pieces[at - 1] if at else piece
        if (piece.is_sign(":") and before.is_sign(":")) or piece.is_word("returning"):
            yield at + 1
        elif piece.is_word("as"):
            start = clauses.opener(at)
            if start > 0 and pieces[start - 1].is_word(*_CASTS):
                yield at + 1
        elif piece.kind == "string" and at:
            typed = _before_literal(pieces, at, clauses)
            if typed is not None:
                yield typed


def _before_literal(pieces: Sequence[SqlToken], at: int, clauses: Clauses) -> int | None:
    """Where the type of a literal begins: `mytype 'x'`, `schema.mytype(3) 'x'`."""
    last = at - 1
    if pieces[last].is_sign(")"):
        last = clauses.opener(last) - 1
        if last < 0 or not pieces[last].is_named or clauses.is_clause(last):
            return None
    elif pieces[last].kind not in {"word", "name"} or clauses.begins_expression(last):
        return None
    phrase = _BEHIND_TYPES.get(pieces[last].value, "").split()
    if phrase and last and pieces[last - 1].is_word(*phrase):
        return None
    while last >= 2 and pieces[last - 1].is_sign(".") and pieces[last - 2].is_named:
        last -= 2
    return last


def _type_at(pieces: Sequence[SqlToken], at: int) -> tuple[str, str]:
    """Schema and name of a type."""
    parts: list[SqlToken] = []
    while at < len(pieces) and pieces[at].is_named:
        parts.append(pieces[at])
        if at + 1 >= len(pieces) or not pieces[at + 1].is_sign("."):
            break
        at += 2
    if not parts or len(parts) > 2 or parts[0].is_word(*RESERVED):
        raise StatementRefusedError("type", "It is not clear which type is meant")
    return parts[0].value if len(parts) == 2 else "", parts[-1].value
