"""Names in a query that can run code: functions, sequences, files, other databases."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from toolgate.databases.sql_guard.dialects import Dialect, words
from toolgate.databases.sql_guard.lexer import SqlToken
from toolgate.databases.sql_guard.parsed_names import Tree
from toolgate.databases.sql_guard.postgres import Clauses, PostgresRules
from toolgate.databases.sql_guard.refused import StatementRefusedError
from toolgate.databases.sql_guard.statement_kind import looks_like_file

_BEFORE_BRACKETS: Final = words(
    """
    select distinct from where and or not in exists any all some as on using join lateral
    values union except intersect when then else case having limit offset between like ilike
    is interval array row table only with
    """
)
"""Keywords that can precede a parenthesis; none is a function name."""

_ONLY_BEHIND: Final[Mapping[str, frozenset[str]]] = {
    "by": frozenset({"group", "order", "partition", "connect", "siblings"}),
    "group": frozenset({"within"}),
    "over": frozenset({")", "nulls"}),
    "filter": frozenset({")"}),
    "keep": frozenset({")"}),
    "sets": frozenset({"grouping"}),
    "materialized": frozenset({"as", "not"}),
    "first": frozenset({"fetch"}),
    "next": frozenset({"fetch"}),
    "recursive": frozenset({"with"}),
    "symmetric": frozenset({"between"}),
    "zone": frozenset({"time"}),
    "to": frozenset({"similar"}),
    "for": frozenset({"collation"}),
}
"""Words that can precede a parenthesis as keywords, but only after one of these."""

_WORDS_OF: Final[Mapping[str, frozenset[str]]] = {
    "sqlite": frozenset({"glob", "match", "regexp"}),
    "oracle": words(
        """
    partition subpartition sample pivot unpivot for columns passing minus connect prior
    nocycle unique start
    """
    ),
    "mysql": words(
        """
    partition index key columns div mod xor against rlike regexp distinctrow
    """
    ),
    "duckdb": words(
        """
    exclude replace pivot unpivot for system bernoulli reservoir sample qualify
    """
    ),
}
"""Further keywords that can precede a parenthesis, by database."""

_HOME: Final[Mapping[str, frozenset[str]]] = {
    "oracle": frozenset({"sys", "standard", "sys.standard"}),
    "duckdb": frozenset({"main", "system", "pg_catalog", "system.main"}),
}
"""Schemas of the database's built-in functions."""

_OWN_PACKAGES: Final = re.compile(
    r"(?:dbms|utl|owa|apex|wwv|ctx|sdo|ords|htp|htf|dbtools)\w*|sys|standard|xmltype|httpuritype"
)
_WITHOUT_BRACKETS: Final = words(
    """
    sysdate systimestamp user uid rownum rowid level dummy current_date current_timestamp
    localtimestamp sessiontimezone dbtimezone ora_rowscn connect_by_isleaf
    connect_by_iscycle column_value object_value null true false ora_invoking_user
    """
)
"""Oracle's built-in names without parentheses; in a query of DUAL alone, any other name is a
function."""


def refuse_calls(
    pieces: Sequence[SqlToken],
    tree: Tree,
    dialect: Dialect,
    allowed: frozenset[str],
    rules: PostgresRules | None = None,
) -> None:
    """Refuse a query that calls a function not known to be free of side effects.

    Args:
        pieces: Tokens of the query.
        tree: Tree of the query.
        dialect: SQL dialect.
        allowed: User functions that change nothing, in lower case.
        rules: Rules for PostgreSQL, whose users can give functions the names of keywords.

    Raises:
        StatementRefusedError: The query calls such a function.
    """
    openings = list(_openings(pieces))
    # The parser only counts the column lists after each alias, so a name passes as an alias only if
    # it precedes a parenthesis no more often than that.
    bare = Counter(pieces[at - 1].value.lower() for at in openings)
    aliases = {name for name, count in tree.aliases.items() if bare[name] <= count}
    clauses = Clauses(pieces) if rules is not None else None
    for at in openings:
        if clauses is None or not clauses.is_clause(at - 1):
            _refuse_call(pieces, at, dialect, allowed, aliases, rules)
    if dialect.name == "oracle":
        _refuse_without_brackets(tree, allowed)
    if dialect.name == "duckdb":
        _refuse_files(pieces, tree)
    if dialect.name == "sqlite":
        _refuse_pragmas(tree, allowed)


def _openings(pieces: Sequence[SqlToken]) -> Iterator[int]:
    """Yield positions of opening parentheses after something that may be a name."""
    for at in range(1, len(pieces)):
        if pieces[at].is_sign("(") and pieces[at - 1].kind != "sign":
            yield at


def _refuse_call(
    pieces: Sequence[SqlToken],
    at: int,
    dialect: Dialect,
    allowed: frozenset[str],
    aliases: Collection[str],
    rules: PostgresRules | None,
) -> None:
    named = pieces[at - 1]
    if not named.is_named:
        raise StatementRefusedError(
            "unknown", f"The text {named.text[:40]} with brackets behind it is not understood"
        )
    if _is_outer_join(pieces, at):
        return
    qualifiers, first = _qualifiers(pieces, at - 1)
    before = pieces[first - 1] if first else None
    if rules is None and not qualifiers and _is_language(named, before, dialect):
        return
    if not qualifiers and before is not None and before.is_word("as"):
        return  # a type, or an alias with its columns
    name = named.value.lower() if named.kind == "word" else named.value
    full = ".".join((*qualifiers, name))
    if not qualifiers and named.value.lower() in aliases:
        return
    if rules is not None:
        rules.refuse_function(".".join(qualifiers), name)
        return
    if full in allowed or full.lower() in allowed:
        return
    is_home = not qualifiers or ".".join(qualifiers) in _HOME.get(dialect.name, frozenset())
    if is_home and _folded(named, dialect) in dialect.functions:
        return
    if dialect.name == "oracle" and qualifiers and full.lower() in dialect.functions:
        return
    raise StatementRefusedError("function", f"The function {full[:80]} is not known to be harmless")


def _folded(named: SqlToken, dialect: Dialect) -> str:
    """Return a function name as the list has it; a quoted name may stay case-sensitive."""
    if named.kind == "word" or dialect.name in {"sqlite", "mysql", "duckdb"}:
        return named.value.lower()
    if dialect.name == "oracle":
        return named.value.lower() if named.value.isupper() else ""
    return named.value


def _is_outer_join(pieces: Sequence[SqlToken], at: int) -> bool:
    inside = pieces[at + 1 : at + 3]
    return len(inside) == 2 and inside[0].is_sign("+") and inside[1].is_sign(")")


def _is_language(named: SqlToken, before: SqlToken | None, dialect: Dialect) -> bool:
    if named.kind != "word":
        return False
    word = named.value
    if word in _BEFORE_BRACKETS or word in _WORDS_OF.get(dialect.name, frozenset()):
        return True
    if word in _ONLY_BEHIND and before is not None:
        return before.text.lower() in _ONLY_BEHIND[word]
    return False


def _qualifiers(pieces: Sequence[SqlToken], at: int) -> tuple[tuple[str, ...], int]:
    """Return the qualifiers of a dotted name, and where the whole name begins."""
    qualifiers: list[str] = []
    while at >= 2 and pieces[at - 1].is_sign(".") and pieces[at - 2].kind != "sign":
        at -= 2
        qualifiers.append(pieces[at].value.lower())
    return tuple(reversed(qualifiers)), at


def _refuse_without_brackets(tree: Tree, allowed: frozenset[str]) -> None:
    """Refuse names that Oracle may call as functions, and names that advance sequences."""
    for name in tree.columns:
        last = name[-1].lower()
        full = ".".join(name).lower()
        if full in allowed:
            continue
        if last in {"nextval", "currval"}:
            raise StatementRefusedError("sequence", f"Reading {full[:80]} moves a sequence")
        if len(name) == 1:
            if tree.has_only_dual and last not in _WITHOUT_BRACKETS and name[0] != "*":
                raise StatementRefusedError(
                    "function", f"The function {full[:80]} is not known to be harmless"
                )
        elif name[-2].lower() not in tree.relations and full not in _PURE_MEMBERS:
            raise StatementRefusedError(
                "function",
                f"The name {full[:80]} belongs to no table of the query; it may be a function",
            )
        elif _OWN_PACKAGES.fullmatch(name[-2].lower()) and full not in _PURE_MEMBERS:
            raise StatementRefusedError("function", f"The name {full[:80]} belongs to a package")


_PURE_MEMBERS: Final = frozenset({"dbms_random.value", "dbms_random.random", "dbms_random.normal"})


def _refuse_files(pieces: Sequence[SqlToken], tree: Tree) -> None:
    """Refuse table names that look like files, because DuckDB reads the file."""
    for name in tree.tables:
        if looks_like_file(".".join(name)):
            raise StatementRefusedError(
                "file", f"The name {'.'.join(name)[:80]} may be that of a file"
            )
    for at, piece in enumerate(pieces[1:], start=1):
        if piece.kind == "string" and pieces[at - 1].is_word("from", "join"):
            raise StatementRefusedError("file", f"The text {piece.text[:80]} names a file")


def _refuse_pragmas(tree: Tree, allowed: frozenset[str]) -> None:
    """Refuse pragmas as tables, which SQLite runs: `pragma_optimize` writes statistics.

    https://sqlite.org/pragma.html#pragfunc
    """
    for name in tree.tables:
        last = name[-1].lower()
        if last.startswith("pragma_") and last not in allowed:
            raise StatementRefusedError("setting", f"The name {last[:80]} runs a pragma")
