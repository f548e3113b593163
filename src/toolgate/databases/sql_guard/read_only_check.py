"""Checks that a statement only reads, with an allow list: everything else is refused."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Final

from toolgate.databases.sql_guard import statement_kind as leads
from toolgate.databases.sql_guard.dialects import DIALECTS, Dialect, dialect_named, words
from toolgate.databases.sql_guard.functions import refuse_calls
from toolgate.databases.sql_guard.lexer import AmbiguousSqlError, SqlToken, read
from toolgate.databases.sql_guard.parsed_names import Tree
from toolgate.databases.sql_guard.postgres import PostgresCatalog, PostgresRules
from toolgate.databases.sql_guard.refused import StatementRefusedError
from toolgate.databases.sql_guard.verdict import StatementKind, StatementVerdict

_MOST: Final = 100_000
"""Maximum number of characters; longer statements are machine-made, and take seconds to check."""


def check_statement(
    sql: str,
    dialect: str,
    *,
    functions: Collection[str] = (),
    columns: Mapping[str, Collection[str]] | None = None,
    catalog: PostgresCatalog | None = None,
) -> StatementVerdict:
    """Check whether a text is exactly one statement that changes nothing.

    Args:
        sql: The text.
        dialect: SQL dialect. With an unknown one, the statement must be harmless in all dialects.
        functions: User functions that are known to change nothing; a name with a dot counts for
            that schema only.
        columns: For PostgreSQL, columns by table (`orders` or `sales.orders`), and fields of
            columns as `column.field`. Any other name may be a function, since `t.f` also means
            `f(t)`. None: dotted names are assumed to be table columns.
        catalog: For PostgreSQL, objects of the database outside `pg_catalog`; its columns are
            used if `columns` is None. None: nothing outside `pg_catalog` is allowed.

    Raises:
        MissingExtraError: The parser is not installed.
    """
    if columns is None and catalog is not None:
        columns = catalog.columns
    known = _KnownNames(
        functions=frozenset(name.lower() for name in functions), columns=columns, catalog=catalog
    )
    sql_dialect = dialect_named(dialect)
    if sql_dialect is not None:
        return _judge(sql, sql_dialect, known)
    verdict = None
    for candidate in DIALECTS:
        verdict = _judge(sql, candidate, known)
        if not verdict.allowed:
            return StatementVerdict(
                allowed=False,
                reason=f"Refused, since the dialect is not known, as {candidate.name}: "
                f"{verdict.reason}",
                rule=verdict.rule,
            )
    assert verdict is not None
    return verdict


def mask_values(sql: str, dialect: str) -> str:
    """Replace strings and numbers by `?`, for logs; return nothing if unreadable."""
    sql_dialect = dialect_named(dialect)
    if sql_dialect is None:
        return "?"
    try:
        tokens = read(sql, sql_dialect)
    except AmbiguousSqlError:
        return "?"
    parts = ["?" if piece.kind in {"string", "number"} else piece.text for piece in tokens.pieces]
    return " ".join(parts)


@dataclass(frozen=True, kw_only=True)
class _KnownNames:
    """Facts that the caller knows about the database."""

    functions: frozenset[str]
    columns: Mapping[str, Collection[str]] | None
    catalog: PostgresCatalog | None


def _judge(sql: str, dialect: Dialect, known: _KnownNames) -> StatementVerdict:
    try:
        kind, statement = _looked_at(sql, dialect, known)
    except AmbiguousSqlError as error:
        return StatementVerdict(
            allowed=False, reason=f"It is not clear what this is: {error}.", rule="unclear"
        )
    except StatementRefusedError as error:
        return StatementVerdict(allowed=False, reason=f"{error}.", rule=error.rule)
    return StatementVerdict(
        allowed=True,
        reason="One statement that only reads.",
        rule="reads",
        statement=statement,
        kind=kind,
    )


def _looked_at(sql: str, dialect: Dialect, known: _KnownNames) -> tuple[StatementKind, str]:
    if len(sql) > _MOST:
        raise StatementRefusedError(
            "long", f"It has {len(sql):,} characters; at most {_MOST:,} are read"
        )
    tokens = read(sql, dialect)
    pieces = _one_statement(tokens.pieces)
    statement = sql[: pieces[-1].position].strip()
    if leads.is_question(pieces, dialect):
        return "show", statement
    kind: StatementKind = "query"
    rest = leads.without_explain(pieces, dialect)
    if len(rest) != len(pieces):
        kind, pieces = "plan", rest
    leads.refuse_beginning(pieces, dialect)
    _refuse_words(pieces, dialect)
    plain = tokens.plain[pieces[0].start : pieces[-1].end]
    # Imported here, because the parser takes 0.1 s to load.
    parse = import_module("toolgate.databases.sql_guard.tree").parse
    query = leads.as_query(plain, pieces)
    tree: Tree = parse(query, pieces, dialect)
    if dialect.name != "postgres":
        refuse_calls(pieces, tree, dialect, known.functions)
        return kind, statement
    rules = PostgresRules(
        functions=dialect.functions, allowed=known.functions, catalog=known.catalog
    )
    refuse_calls(pieces, tree, dialect, known.functions, rules)
    statement_rules = import_module("toolgate.databases.sql_guard.postgres.statement")
    statement_rules.refuse_user_code(tree.root, query, pieces, rules, known.columns)
    return kind, statement


def _one_statement(pieces: Sequence[SqlToken]) -> Sequence[SqlToken]:
    """Return the tokens without trailing semicolons; refuse all but one statement."""
    last = len(pieces)
    while last and pieces[last - 1].is_sign(";"):
        last -= 1
    if not last:
        raise StatementRefusedError("empty", "There is no statement")
    if any(piece.is_sign(";") for piece in pieces[:last]):
        raise StatementRefusedError("several", "There is more than one statement; only one is run")
    return pieces[:last]


_CHANGING: Final = words(
    """
    insert update delete merge replace drop alter create truncate grant revoke copy call do
    execute exec vacuum attach detach lock set commit rollback begin
    """
)


def _refuse_words(pieces: Sequence[SqlToken], dialect: Dialect) -> None:
    """Refuse words that make a query do more than read, anywhere outside quotes."""
    nothing = pieces[0]
    for at, piece in enumerate(pieces):
        if piece.kind != "word":
            continue
        before = pieces[at - 1] if at else nothing
        after = pieces[at + 1] if at + 1 < len(pieces) else nothing
        if before.is_sign(".") and at:
            continue
        if piece.value == "into" and not before.is_word("as"):
            raise StatementRefusedError("writes", "INTO writes what is read somewhere")
        if piece.value == "for" and after.is_word("update", "share", "no", "key"):
            raise StatementRefusedError("locks", "FOR UPDATE and its like lock rows")
        if piece.value == "lock" and after.is_word("in"):
            raise StatementRefusedError("locks", "LOCK IN SHARE MODE locks rows")
        if piece.value == "value" and before.is_word("next", "previous") and after.is_word("for"):
            raise StatementRefusedError("sequence", "NEXT VALUE FOR moves a sequence")
        if piece.value == "procedure" and dialect.hash_comments:
            raise StatementRefusedError("procedure", "PROCEDURE runs a procedure")
        if piece.value in {"function", "procedure"} and at and before.is_word("with"):
            raise StatementRefusedError("procedure", "A function in WITH runs code")
        if (
            piece.value in _CHANGING
            and at
            and before.is_sign("(")
            and (after.kind in {"word", "name"} and not after.is_word("as", "is", "in", "like"))
            and not after.is_sign(")")
        ):
            raise StatementRefusedError("writes", f"{piece.value.upper()} is not read-only")
