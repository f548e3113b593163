"""Checks the syntax tree of a query: only nodes that are known to read are allowed."""

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Final

from toolgate.base.installation import install_hint
from toolgate.databases.sql_guard.dialects import Dialect, words
from toolgate.databases.sql_guard.lexer import SqlToken
from toolgate.databases.sql_guard.parsed_names import Tree
from toolgate.databases.sql_guard.refused import StatementRefusedError
from toolgate.errors import MissingExtraError

try:
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError
except ModuleNotFoundError as error:
    raise MissingExtraError(
        "SQL can only be checked with the library 'sqlglot', which is not installed.",
        hint=install_hint("sql"),
    ) from error

logging.getLogger("sqlglot").setLevel(logging.ERROR)

_ROOTS: Final = (exp.Select, exp.SetOperation, exp.Values, exp.Subquery)

_PARTS: Final = words(
    """
    All Any Column Literal Var WithinGroup Pseudocolumn Hint Identifier Star Null Boolean
    Alias PivotAlias PivotAny Aliases Bracket IgnoreNulls RespectNulls HavingMax Slice
    Filter Ordered AtIndex AtTimeZone FromTimeZone Between Distinct In DataTypeParam
    DataType PseudoType ObjectIdentifier IntervalSpan Interval With CTE TableAlias BitString
    HexString ByteString RawString UnicodeString ColumnDef Connect Prior From Having
    National Introducer Partition Fetch Group Cube Rollup GroupingSets Lambda Limit
    LimitOptions Join Lateral TableFromRows Offset Order Qualify Tuple Table Union Except
    Intersect Values Version HistoricalData Schema Select Subquery TableSample Pivot
    UnpivotColumns Window WindowSpec Where JSON JSONPath JSONPathPart JSONPathFilter
    JSONPathKey JSONPathRecursive JSONPathRoot JSONPathSlice JSONPathSelector
    JSONPathSubscript JSONPathUnion JSONPathWildcard FormatJson JSONKeyValue JSONColumnDef
    JSONSchema JSONValue OnCondition XMLNamespace XMLKeyValueOption Variadic CharacterSet
    Comprehension RecursiveWithSearch OverflowTruncateBehavior TranslateCharacters Heredoc
    ColumnConstraint PathColumnConstraint DefaultColumnConstraint NotNullColumnConstraint
    SessionParameter PositionalColumn Parameter ForIn Condition Predicate ColumnPosition
    """
)
"""Node types of queries besides functions and operators."""

_CHANGES: Final = (
    *(exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Copy, exp.Create, exp.Drop, exp.Alter),
)

_NO_PARTS: Final = (
    *(exp.Command, *_CHANGES, exp.Into, exp.Lock, exp.Property, exp.NextValueFor),
    *(exp.Placeholder, exp.Set, exp.Pragma, exp.ReadCSV, exp.Use, exp.Kill),
)


def parse(text: str, pieces: Sequence[SqlToken], dialect: Dialect) -> Tree:
    """Parse a query.

    Raises:
        StatementRefusedError: The query cannot be parsed, or has nodes not known to be harmless.
    """
    try:
        tokens = sqlglot.Dialect.get_or_raise(dialect.parser).tokenize(text)
        statements = sqlglot.parse(text, dialect=dialect.parser)
    except SqlglotError as error:
        raise StatementRefusedError(
            "syntax", f"It cannot be parsed as {dialect.name}: {_reason(error)}"
        ) from None
    except RecursionError:
        raise StatementRefusedError("syntax", "It is nested too deeply") from None
    except Exception as error:  # whatever stops the parser, the statement is not understood
        logging.getLogger(__name__).debug("parser failed", exc_info=True)
        raise StatementRefusedError("syntax", f"It cannot be parsed as {dialect.name}") from error
    if not pieces[0].is_word("table"):
        _refuse_other_reading(tokens, pieces)
    if len(statements) != 1 or statements[0] is None:
        raise StatementRefusedError("several", "There is not exactly one statement")
    root = statements[0]
    if not isinstance(root, _ROOTS) and not _is_from_first(root, dialect):
        raise StatementRefusedError("no query", f"It is not a query but {type(root).__name__}")
    return _walked(root, dialect)


def _is_from_first(root: exp.Expr, dialect: Dialect) -> bool:
    return dialect.name == "duckdb" and isinstance(root, exp.From | exp.Table)


def _reason(error: Exception) -> str:
    line = str(error).partition("\n")[0]
    return line.partition(". Line ")[0].rstrip(".")[:160]


def _refuse_other_reading(tokens: Sequence[sqlglot.Token], pieces: Sequence[SqlToken]) -> None:
    """Refuse a text whose strings and quoted names the parser finds elsewhere than the lexer."""
    base = pieces[0].start
    ends = {token.end + 1: token.start for token in tokens}
    starts = sorted(ends.values())
    quoted = [piece for piece in pieces if piece.kind in {"string", "name"}]
    at = 0
    for piece in quoted:
        start, end = piece.start - base, piece.end - base
        begun = ends.get(end)
        if begun is None or begun < start:
            raise StatementRefusedError(
                "unclear", "What is a string and what is not can be read in two ways"
            )
        while at < len(starts) and starts[at] <= begun:
            at += 1
        if at < len(starts) and starts[at] < end:
            raise StatementRefusedError(
                "unclear", "What is a string and what is not can be read in two ways"
            )
    spans = {piece.end - base for piece in pieces if piece.kind in {"string", "name", "number"}}
    for token in tokens:
        is_quoted = (
            token.token_type.name.endswith("STRING") or token.token_type.name == "IDENTIFIER"
        )
        if is_quoted and token.end + 1 not in spans:
            raise StatementRefusedError(
                "unclear", "What is a string and what is not can be read in two ways"
            )


def _walked(root: exp.Expr, dialect: Dialect) -> Tree:
    aliases: Counter[str] = Counter()
    relations: set[str] = set()
    tables: list[tuple[str, ...]] = []
    columns: list[tuple[str, ...]] = []
    ctes: set[str] = set()
    for node in root.walk():
        _refuse_part(node)
        if isinstance(node, exp.TableAlias):
            relations.add(node.name.lower())
            if node.args.get("columns"):
                aliases[node.name.lower()] += 1
        elif isinstance(node, exp.CTE):
            ctes.add(node.alias.lower())
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            name = tuple(part.name for part in node.parts)
            relations.add(name[-1].lower())
            tables.append(name)
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Literal):
            tables.append((node.this.name,))
        elif isinstance(node, exp.Column | exp.Dot) and not isinstance(node.parent, exp.Dot):
            columns.append(_dotted(node))
    table_names = tuple(name for name in tables if len(name) != 1 or name[0].lower() not in ctes)
    only_dual = bool(table_names) and all(
        "dual" in {part.lower() for part in name} for name in table_names
    )
    return Tree(
        root=root,
        aliases=aliases,
        relations=frozenset(relations),
        tables=table_names,
        columns=tuple(filter(None, columns)),
        has_only_dual=dialect.name == "oracle" and (only_dual or not table_names) and not ctes,
    )


def _dotted(node: exp.Column | exp.Dot) -> tuple[str, ...]:
    """Return the parts of a column name; empty for a call, which is checked elsewhere."""
    if isinstance(node, exp.Column):
        return tuple(part.name for part in node.parts)
    names: list[str] = []
    for part in node.flatten():
        if isinstance(part, exp.Column):
            names += [part.name for part in part.parts]
        elif isinstance(part, exp.Identifier):
            names.append(part.name)
        else:
            return ()
    return tuple(names)


def _refuse_part(node: exp.Expr) -> None:
    if isinstance(node, _NO_PARTS):
        raise StatementRefusedError(
            "writes" if isinstance(node, (*_CHANGES, exp.Into)) else "unknown",
            f"{_words(node)} is not read-only",
        )
    if isinstance(node, exp.Func | exp.Binary | exp.Unary):
        return
    if type(node).__name__ not in _PARTS:
        raise StatementRefusedError("unknown", f"{_words(node)} is not known to be harmless")


def _words(node: exp.Expr) -> str:
    name = type(node).__name__
    return "".join(
        f" {sign}" if sign.isupper() and at else sign for at, sign in enumerate(name)
    ).upper()
