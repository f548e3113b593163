"""Operators in a query: those of `pg_catalog` are safe, others run a user's function."""

from collections.abc import Iterator, Sequence
from typing import Final

from toolgate.databases.sql_guard.dialects import words
from toolgate.databases.sql_guard.lexer import SqlToken
from toolgate.databases.sql_guard.postgres.rules import PostgresRules
from toolgate.databases.sql_guard.refused import StatementRefusedError

_SIGNS: Final = frozenset("+-*/<>=~!@#%^&|`?")
_KEEPS_SIGN: Final = frozenset("~!@#%^&|`?")
"""Only operators with one of these characters can end in `+` or `-`.
https://www.postgresql.org/docs/18/sql-syntax-lexical.html#SQL-SYNTAX-OPERATORS"""

_IMPLIED: Final = {
    "like": words("~~ !~~"),
    "ilike": words("~~* !~~*"),
    "similar": words("~ !~"),
    "between": words(">= <= > <"),
    "in": words("= <>"),
    "case": words("="),
    "nullif": words("="),
    "using": words("="),
    "natural": words("="),
    "distinct": words("="),
}
"""Operators that a keyword refers to by name."""


def operators_in(pieces: Sequence[SqlToken]) -> Iterator[tuple[str, str]]:
    """Yield schema and name of each operator, including those of keywords; no schema: any.

    Raises:
        StatementRefusedError: Something other than an operator follows OPERATOR.
    """
    at = 0
    while at < len(pieces):
        piece = pieces[at]
        if piece.is_word("operator") and at + 1 < len(pieces) and pieces[at + 1].is_sign("("):
            schema, name, at = _qualified(pieces, at)
            yield schema, name
        elif piece.kind == "sign" and piece.text in _SIGNS:
            end = _run(pieces, at)
            for name in _split("".join(part.text for part in pieces[at:end])):
                yield "", name
            at = end
        else:
            if piece.kind == "word":
                for name in _IMPLIED.get(piece.value, ()):
                    yield "", name
            at += 1


def refuse_operators(pieces: Sequence[SqlToken], rules: PostgresRules) -> None:
    """Refuse operators that may run user code.

    Raises:
        StatementRefusedError: An operator may run user code.
    """
    for schema, name in operators_in(pieces):
        rules.refuse_operator(schema, name)


def _run(pieces: Sequence[SqlToken], at: int) -> int:
    """Return the end of a run of operator characters without gaps."""
    end = at + 1
    while (
        end < len(pieces)
        and pieces[end].kind == "sign"
        and pieces[end].text in _SIGNS
        and pieces[end].start == pieces[end - 1].end
    ):
        end += 1
    return end


def _split(run: str) -> Iterator[str]:
    """Yield the operators that PostgreSQL finds in a run of operator characters."""
    if run == "=>":
        return  # before the value of a named argument
    name = run
    while len(name) > 1 and name[-1] in "+-" and not set(name) & _KEEPS_SIGN:
        name = name[:-1]
    yield name
    rest = run[len(name) :]
    if rest:
        yield from _split(rest)


def _qualified(pieces: Sequence[SqlToken], at: int) -> tuple[str, str, int]:
    """Return schema and name in `OPERATOR(schema.+)`, and the position after it."""
    signs, end = at + 2, at + 2
    schema = ""
    if end + 1 < len(pieces) and pieces[end].is_named and pieces[end + 1].is_sign("."):
        schema, signs = pieces[end].value, end + 2
    end = signs
    if end < len(pieces) and pieces[end].kind == "sign" and pieces[end].text in _SIGNS:
        end = _run(pieces, end)
    if end == signs or end >= len(pieces) or not pieces[end].is_sign(")"):
        raise StatementRefusedError("operator", "The text after OPERATOR is not an operator")
    return schema, "".join(piece.text for piece in pieces[signs:end]), end + 1
