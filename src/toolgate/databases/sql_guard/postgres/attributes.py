"""Dotted names in a query: columns, or function calls that look like columns.

If a table has no column `f`, PostgreSQL reads `t.f` and `(t).f` as `f(t)`.
https://www.postgresql.org/docs/18/rowtypes.html#ROWTYPES-USAGE
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from sqlglot import exp

from toolgate.databases.sql_guard.lexer import SqlToken
from toolgate.databases.sql_guard.postgres.relations import QueryRelation, QueryRelations, folded
from toolgate.databases.sql_guard.postgres.system_columns import output_columns
from toolgate.databases.sql_guard.refused import StatementRefusedError


def refuse_attributes(
    root: exp.Expr,
    pieces: Sequence[SqlToken],
    columns: Mapping[str, Collection[str]] | None,
) -> tuple[frozenset[tuple[str, ...]], int]:
    """Refuse dotted names that may be function calls.

    Returns:
        Dotted names that are columns or tables, in lower case, and the number of fields selected
        from parenthesized expressions.

    Args:
        root: Tree of the query.
        pieces: Tokens of the query.
        columns: Known columns by table; None: dotted names are assumed to be table columns.

    Raises:
        StatementRefusedError: A name may be a function call.
    """
    relations = QueryRelations(columns)
    explained: Counter[tuple[str, ...]] = Counter()
    fields = 0
    for node in root.walk():
        if isinstance(node, exp.Dot):
            is_type = isinstance(node.parent, exp.DataType)
            if isinstance(node.expression, exp.Identifier) and not is_type:
                _refuse_field(node, relations)
                fields += 1
        elif isinstance(node, exp.Column) and node.args.get("table") is not None:
            if isinstance(node.parent, exp.Collate) and node.arg_key == "expression":
                continue  # the name of a collation
            _refuse_column(node, relations)
            explained[_key(part.name for part in node.parts)] += 1
        elif isinstance(node, exp.Table) and len(node.parts) > 1:
            explained[_key(part.name for part in node.parts)] += 1
    chains, selections = _chains(pieces)
    if selections > fields:
        raise _unclear("(…).name")
    for chain, count in chains.items():
        if count > explained[chain]:
            raise _unclear(".".join(chain))
    return frozenset(explained), fields


def defined_columns(root: exp.Expr, pieces: Sequence[SqlToken]) -> list[int]:
    """Return the positions of column names in definitions, which a type follows.

    Such definitions are `AS t(a integer)` and `COLUMNS (a integer)`.

    Raises:
        StatementRefusedError: A type cannot be found in the text.
    """
    base = pieces[0].start
    starts = {piece.start - base: at for at, piece in enumerate(pieces)}
    positions: list[int] = []
    for node in root.find_all(exp.ColumnDef, exp.JSONColumnDef):
        if node.args.get("kind") is None:
            continue
        name = node.this
        at = starts.get(name.meta.get("start", -1)) if isinstance(name, exp.Identifier) else None
        if at is None:
            raise StatementRefusedError("type", "It is not clear which type is meant")
        positions.append(at)
    return positions


def _refuse_column(node: exp.Column, relations: QueryRelations) -> None:
    if isinstance(node.this, exp.Star):
        return
    name = folded(node.this)
    table, schema = folded(node.args.get("table")), folded(node.args.get("db"))
    meant = [
        relation
        for relation in relations.visible_from(node, table)
        if not schema or relation.schema in {schema, ""}
    ]
    written = f"{table}.{name}"[:80]
    if not meant:
        raise StatementRefusedError(
            "attribute", f"The name {written} belongs to no table of the query"
        )
    if any(relation.columns is not None and name not in relation.columns for relation in meant):
        raise StatementRefusedError(
            "attribute", f"The name {written} may call a function: no column of this name is known"
        )


def _refuse_field(node: exp.Dot, relations: QueryRelations) -> None:
    """Refuse unknown fields: `(t).column`, `(column).field`, `(function(…)).column`."""
    field = folded(node.expression)
    inner = node.this.this if isinstance(node.this, exp.Paren) else None
    if isinstance(inner, exp.Anonymous) and field in output_columns(str(inner.this).lower()):
        return
    if isinstance(inner, exp.Column) and not isinstance(inner.this, exp.Star):
        visible = list(relations.visible_from(node))
        if _is_known_field(inner, field, visible):
            return
    raise StatementRefusedError(
        "attribute",
        f"What stands before .{field[:60]} may be given to a function of this name: "
        "no such field is known",
    )


def _is_known_field(inner: exp.Column, field: str, visible: Sequence[QueryRelation]) -> bool:
    """Whether every reading of `(inner).field` finds a column, or a field of a column."""
    name, table = folded(inner.this), folded(inner.args.get("table"))
    readings = [
        relation.columns is not None and f"{name}.{field}" in relation.columns
        for relation in visible
        if (relation.name == table if table else relation.columns and name in relation.columns)
    ]
    if not table:
        readings += [
            relation.is_row and relation.columns is not None and field in relation.columns
            for relation in visible
            if relation.name == name
        ]
    return bool(readings) and all(readings)


def _chains(pieces: Sequence[SqlToken]) -> tuple[Counter[tuple[str, ...]], int]:
    """Return dotted names that are not calls or types, and the number of `(…).field`."""
    chains: Counter[tuple[str, ...]] = Counter()
    selections = 0
    at = 0
    while at < len(pieces):
        start = at
        parts = list(_dotted(pieces, at))
        at += max(1, 2 * len(parts) - 1)
        if not parts:
            continue
        before = pieces[start - 1] if start else None
        if before is not None and before.is_sign("."):
            selections += len([part for part in parts if part != "*"])
        elif len(parts) > 1 and not _is_other(pieces, start, at):
            chains[_key(parts)] += 1
    return chains, selections


def _dotted(pieces: Sequence[SqlToken], at: int) -> Iterator[str]:
    if not pieces[at].is_named:
        return
    yield pieces[at].value
    while at + 2 < len(pieces) and pieces[at + 1].is_sign("."):
        at += 2
        if pieces[at].is_named or pieces[at].is_sign("*"):
            yield pieces[at].value
        else:
            return


def _is_other(pieces: Sequence[SqlToken], start: int, end: int) -> bool:
    """Whether a dotted name is a function, a type or a collation."""
    if end < len(pieces) and (pieces[end].is_sign("(") or pieces[end].kind == "string"):
        return True  # looked at elsewhere
    before = pieces[start - 1] if start else None
    if before is None:
        return False
    if before.is_word("collate", "returning", "tablesample"):
        return True
    if before.is_sign(":") and start >= 2 and pieces[start - 2].is_sign(":"):
        return True
    return before.is_word("as")


def _key(parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(part.lower() for part in parts)


def _unclear(written: str) -> StatementRefusedError:
    return StatementRefusedError(
        "attribute", f"The name {written[:80]} may call a function: it is not clear what it means"
    )
