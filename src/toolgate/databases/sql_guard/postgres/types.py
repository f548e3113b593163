"""Types in a query: only conversions to types outside `pg_catalog` may run user functions."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from toolgate.databases.sql_guard.dialects import words
from toolgate.databases.sql_guard.lexer import SqlToken
from toolgate.databases.sql_guard.postgres.keywords import RESERVED, TYPE_KEYWORDS, Clauses
from toolgate.databases.sql_guard.postgres.rules import PostgresRules
from toolgate.databases.sql_guard.refused import StatementRefusedError

_CASTS: Final = words("cast treat xmlserialize")
_BEHIND_TYPES: Final = {
    "precision": "double",
    "varying": "character char bit nchar",
    "zone": "time",
    "character": "national",
    "char": "national",
}
"""Last words of type names with several words, and the words that can precede them."""


def refuse_types(
    pieces: Sequence[SqlToken], defined_columns: Iterable[int], rules: PostgresRules
) -> None:
    """Refuse types whose conversions may run user code.

    Args:
        pieces: Tokens of the statement.
        defined_columns: Positions of column names that a type follows: `AS t(a integer)`.
        rules: Names known to be harmless.

    Raises:
        StatementRefusedError: Conversions of a type may run user code.
    """
    for at in (*_type_positions(pieces), *(at + 1 for at in defined_columns)):
        if not _is_keyword(pieces, at):
            rules.refuse_type(*_type_at(pieces, at))


def _is_keyword(pieces: Sequence[SqlToken], at: int) -> bool:
    """Whether a `pg_catalog` type begins at a token that cannot be the name of another."""
    is_qualified = at + 1 < len(pieces) and pieces[at + 1].is_sign(".")
    if is_qualified or at >= len(pieces):
        return False
    is_double = pieces[at].is_word("double") and at + 1 < len(pieces)
    return pieces[at].is_word(*TYPE_KEYWORDS) or (is_double and pieces[at + 1].is_word("precision"))


def _type_positions(pieces: Sequence[SqlToken]) -> Iterator[int]:
    """Yield type positions in `::type`, `CAST(… AS type)`, `RETURNING type` and `type '…'`."""
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
    """Return where the type of a literal begins: `mytype 'x'`, `schema.mytype(3) 'x'`."""
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
    """Return schema and name of a type."""
    parts: list[SqlToken] = []
    while at < len(pieces) and pieces[at].is_named:
        parts.append(pieces[at])
        if at + 1 >= len(pieces) or not pieces[at + 1].is_sign("."):
            break
        at += 2
    if not parts or len(parts) > 2 or parts[0].is_word(*RESERVED):
        raise StatementRefusedError("type", "It is not clear which type is meant")
    return parts[0].value if len(parts) == 2 else "", parts[-1].value
