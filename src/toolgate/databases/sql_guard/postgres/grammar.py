"""A second check of a query, with PostgreSQL's own grammar, if `pglast` is installed.

`pglast` is free software under the GNU General Public License 3, so it is not part of this
program or of an extra included in others. Users who install it get this check.
"""

import json
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, cast

from toolgate.databases.sql_guard.dialects import words
from toolgate.databases.sql_guard.postgres.rules import PostgresRules
from toolgate.databases.sql_guard.refused import StatementRefusedError

_NODES: Final = words(
    """
    SelectStmt ResTarget ColumnRef A_Star A_Const String Integer Float Boolean BitString A_Expr List
    FuncCall TypeCast TypeName RangeVar JoinExpr RangeSubselect RangeFunction RangeTableFunc
    RangeTableFuncCol RangeTableSample CommonTableExpr WithClause CTESearchClause CTECycleClause
    SortBy WindowDef SubLink CaseExpr CaseWhen CoalesceExpr MinMaxExpr NullTest BooleanTest BoolExpr
    A_ArrayExpr A_Indirection A_Indices RowExpr GroupingSet GroupingFunc SQLValueFunction XmlExpr
    XmlSerialize NamedArgExpr CollateClause ColumnDef Alias JsonFormat JsonReturning JsonValueExpr
    JsonOutput JsonArgument JsonFuncExpr JsonTablePathSpec JsonTable JsonTableColumn JsonKeyValue
    JsonParseExpr JsonScalarExpr JsonSerializeExpr JsonObjectConstructor JsonArrayConstructor
    JsonArrayQueryConstructor JsonAggConstructor JsonObjectAgg JsonArrayAgg JsonIsPredicate
    JsonBehavior
    """
)
"""Grammar nodes that only read."""

_SAMPLES: Final = frozenset({"system", "bernoulli"})


def refuse_other_names(
    text: str, rules: PostgresRules, chains: frozenset[tuple[str, ...]], fields: int
) -> None:
    """Refuse a query in which PostgreSQL finds a name not known to be harmless.

    Args:
        text: The query.
        rules: Names known to be harmless.
        chains: Dotted names that are columns or tables, in lower case.
        fields: Number of fields selected from parenthesized expressions.

    Raises:
        StatementRefusedError: There is such a name, or PostgreSQL cannot parse the query.
    """
    if find_spec("pglast") is None:
        return
    parser: Any = import_module("pglast.parser")
    try:
        statements = json.loads(parser.parse_sql_json(text))["stmts"]
    except parser.ParseError as error:
        reason = str(error.args[0])[:160]
        raise StatementRefusedError(
            "syntax", f"It cannot be parsed by PostgreSQL: {reason}"
        ) from None
    except (ValueError, RecursionError):
        raise StatementRefusedError("syntax", "It cannot be parsed by PostgreSQL") from None
    if len(statements) != 1:
        raise StatementRefusedError("several", "There is not exactly one statement")
    read_fields = 0
    for kind, node in _nodes(statements[0]["stmt"]):
        if kind not in _NODES:
            raise StatementRefusedError("unknown", f"{kind} is not known to be harmless")
        if node.get("intoClause") or node.get("lockingClause"):
            raise StatementRefusedError("writes", "It does more than read")
        _refuse_names(kind, node, rules)
        if kind == "ColumnRef":
            if "A_Star" not in node["fields"][-1]:
                _refuse_chain(_texts(node["fields"]), chains)
        elif kind == "A_Indirection":
            read_fields += len(_texts(node.get("indirection")))
    if read_fields > fields:
        raise StatementRefusedError(
            "attribute", "What stands before a dot may be given to a function of the name behind it"
        )


def _nodes(value: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield all nodes below a value with their kind, which may depend on their shape."""
    waiting = [value]
    while waiting:
        current = waiting.pop()
        if isinstance(current, list):
            waiting += cast("list[object]", current)
        elif isinstance(current, dict):
            for key, inner in cast("dict[str, object]", current).items():
                waiting.append(inner)
                if isinstance(inner, dict):
                    node = cast("dict[str, Any]", inner)
                    yield _kind(key, node), node


def _kind(key: str, node: Mapping[str, object]) -> str:
    """Return the kind of a node: its capitalized key, or else a kind inferred from its shape."""
    if key[:1].isupper():
        return key
    return "TypeName" if "names" in node and "typemod" in node else "List"


def _refuse_names(kind: str, node: Mapping[str, Any], rules: PostgresRules) -> None:
    if kind == "FuncCall":
        rules.refuse_function(*_qualified(node["funcname"]))
    elif kind == "TypeName" and node.get("names"):
        rules.refuse_type(*_qualified(node["names"]))
    elif kind == "RangeTableSample" and _qualified(node["method"])[1] not in _SAMPLES:
        raise StatementRefusedError("function", "Only SYSTEM and BERNOULLI sample a table")
    elif kind == "A_Expr":
        for name in ("BETWEEN", "NOT BETWEEN", "BETWEEN SYMMETRIC", "NOT BETWEEN SYMMETRIC"):
            if _texts(node.get("name")) == (name,):
                return
        rules.refuse_operator(*_qualified(node["name"]))
    for key in ("useOp", "operName"):
        if node.get(key):
            rules.refuse_operator(*_qualified(node[key]))


def _refuse_chain(parts: tuple[str, ...], chains: frozenset[tuple[str, ...]]) -> None:
    if len(parts) > 1 and tuple(part.lower() for part in parts) not in chains:
        raise StatementRefusedError(
            "attribute", f"The name {'.'.join(parts)[:80]} may call a function"
        )


def _qualified(names: Any) -> tuple[str, str]:
    texts = _texts(names)
    return ".".join(texts[:-1]), texts[-1]


def _texts(names: Any) -> tuple[str, ...]:
    return tuple(name["String"]["sval"] for name in names or () if "String" in name)
