"""All rules for a query of PostgreSQL combined."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from sqlglot import exp

from toolgate.databases.sql_guard.lexer import SqlToken
from toolgate.databases.sql_guard.postgres.attributes import defined_columns, refuse_attributes
from toolgate.databases.sql_guard.postgres.grammar import refuse_other_names
from toolgate.databases.sql_guard.postgres.operators import refuse_operators
from toolgate.databases.sql_guard.postgres.relations import QueryRelations
from toolgate.databases.sql_guard.postgres.rules import PostgresRules
from toolgate.databases.sql_guard.postgres.types import refuse_types
from toolgate.databases.sql_guard.refused import StatementRefusedError

_MOST_BYTES: Final = 63
"""Bytes of a name that PostgreSQL uses; it truncates the rest."""

_MERGING: Final = frozenset(
    {"array", "case", "coalesce", "except", "greatest", "intersect"}
    | {"lag", "lead", "least", "union", "values"}
)
"""Words that give values of several types one type: they convert arrays, not only texts."""


def refuse_user_code(
    root: exp.Expr,
    text: str,
    pieces: Sequence[SqlToken],
    rules: PostgresRules,
    columns: Mapping[str, Collection[str]] | None,
) -> None:
    """Refuse operators, types and columns of a query that may run user code.

    Args:
        root: Tree of the query.
        text: The query.
        pieces: Tokens of the query.
        rules: Names known to be harmless.
        columns: Known columns by table; None: dotted names are assumed to be table columns.

    Raises:
        StatementRefusedError: One of them may run user code.
    """
    for piece in pieces:
        if piece.is_named and len(piece.value.encode()) > _MOST_BYTES:
            raise StatementRefusedError(
                "unclear", f"PostgreSQL cuts the name {piece.value[:40]!r}… off at 63 bytes"
            )
    refuse_operators(pieces, rules)
    refuse_types(pieces, defined_columns(root, pieces), rules)
    chains, fields = refuse_attributes(root, pieces, columns)
    if rules.catalog is not None:
        rules.catalog.refuse_implied(rules.allowed)
        words = frozenset(piece.value for piece in pieces if piece.is_named)
        if words & _MERGING or any(piece.kind == "string" for piece in pieces):
            # A text or an array can become a row or another array, whose domains check it.
            is_any = QueryRelations(columns).has_unnamed_columns(root)
            rules.catalog.refuse_checks(None if is_any else words, rules.allowed)
    refuse_other_names(text, rules, chains, fields)
