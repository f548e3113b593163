"""Columns of the relations in a query, as far as its text and known columns show."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from toolgate.databases.sql_guard.postgres.system_columns import output_columns, system_columns

_SYSTEM_COLUMNS: Final = frozenset({"ctid", "tableoid", "xmin", "xmax", "cmin", "cmax"})
_MOST_DEEP: Final = 60
"""Maximum nesting depth of queries; chosen for the same reasons as the lexer's limit."""
_AGGREGATES: Final[Mapping[type[exp.Expr], str]] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Min: "min",
    exp.Max: "max",
    exp.Avg: "avg",
}
"""Functions that name their column if it has no alias."""

Columns = frozenset[str] | None
"""Column names, as PostgreSQL folds them; None if unknown."""


@dataclass(frozen=True, kw_only=True)
class QueryRelation:
    """A relation in FROM."""

    name: str
    """Name by which columns refer to it; empty: they cannot."""

    schema: str
    """Schema before its name; empty: none."""

    columns: Columns
    """Its columns, and fields of columns as `column.field`."""

    is_row: bool
    """Whether its name in parentheses is a row with these columns; for a function it can be a
    value."""


def folded(name: exp.Expr | None) -> str:
    """Return a name as PostgreSQL folds it: in lower case unless it is quoted."""
    if not isinstance(name, exp.Identifier):
        return ""
    text = str(name.this)
    if name.args.get("quoted"):
        return text
    return "".join(sign.lower() if sign.isascii() else sign for sign in text)


class QueryRelations:
    """Relations that are visible from a position in a query."""

    def __init__(self, columns: Mapping[str, Collection[str]] | None) -> None:
        """Store the known columns.

        Args:
            columns: Columns by table; None: no columns are known.
        """
        self._known = columns
        self._relations: dict[int, Sequence[QueryRelation]] = {}
        self._named: dict[int, dict[str, list[QueryRelation]]] = {}
        self._outputs: dict[int, Columns] = {}

    def visible_from(self, node: exp.Expr, name: str | None = None) -> Iterator[QueryRelation]:
        """Yield all relations that a part of a query may refer to, or those of a name.

        They include relations of enclosing queries, and some that PostgreSQL does not consider
        there: which one a name means depends on LATERAL and on the order in FROM.
        """
        inner: exp.Expr = node
        outer = node.parent
        while outer is not None:
            if isinstance(outer, exp.Select) and inner.arg_key != "with_":
                relations = self._relations_of(outer, 0)
                yield from relations if name is None else self._named[id(outer)].get(name, ())
            inner, outer = outer, outer.parent

    def has_unnamed_columns(self, root: exp.Expr) -> bool:
        """Whether a query can use columns that it does not name.

        It can with `*`, with other names for the columns of a table, and with a whole row.
        """
        for node in root.walk():
            if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
                return True
            if isinstance(node, exp.TableAlias) and node.args.get("columns"):
                return True
            if (
                isinstance(node, exp.Column)
                and node.args.get("table") is None
                and any(row.is_row for row in self.visible_from(node, folded(node.this)))
            ):
                return True
        return False

    def _relations_of(self, query: exp.Select, depth: int) -> Sequence[QueryRelation]:
        if id(query) not in self._relations:
            relations = [self._relation(item, depth) for item in _items(query)]
            self._relations[id(query)] = relations
            named = self._named.setdefault(id(query), {})
            for relation in relations:
                named.setdefault(relation.name, []).append(relation)
        return self._relations[id(query)]

    def _relation(self, item: exp.Expr, depth: int) -> QueryRelation:
        alias = item.args.get("alias")
        alias_name = folded(alias.this) if isinstance(alias, exp.TableAlias) else ""
        renamed = _alias_columns(alias)
        name, schema = alias_name, ""
        if isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier) and not alias_name:
            name, schema = folded(item.this), folded(item.args.get("db"))
        return QueryRelation(
            name=name,
            schema=schema,
            columns=renamed or self._columns_of(item, name, depth + 1),
            is_row=_is_row(item),
        )

    def _columns_of(self, item: exp.Expr, name: str, depth: int) -> Columns:
        if depth > _MOST_DEEP:
            return frozenset()
        inner = item.this
        if isinstance(item, exp.Table) and isinstance(inner, exp.Identifier):
            return self._table_columns(item, depth)
        if isinstance(item, exp.Lateral) and isinstance(inner, exp.Subquery):
            inner = inner.this
        if isinstance(item, exp.Values):
            return _value_columns(item)
        if isinstance(inner, exp.Select | exp.SetOperation | exp.Values | exp.Subquery):
            return self._output(inner, depth)
        if isinstance(inner, exp.Table):  # a join in brackets
            parts = [self._relation(part, depth) for part in (inner, *_joined(inner))]
            return _together(part.columns for part in parts)
        if isinstance(inner, exp.XMLTable):
            return frozenset(folded(column.this) for column in inner.args.get("columns") or ())
        if isinstance(inner, exp.JSONTable):
            return frozenset(folded(column.this) for column in inner.find_all(exp.JSONColumnDef))
        if item.args.get("rows_from") or len(item.expressions) > 1:
            return frozenset()  # columns named like functions, which nobody writes
        ordinality = (
            {"ordinality"} if item.args.get("ordinality") or item.args.get("offset") else ()
        )
        return frozenset({*(_named_outputs(inner) or {name}), *ordinality})

    def _table_columns(self, table: exp.Table, depth: int) -> Columns:
        name, schema = folded(table.this), folded(table.args.get("db"))
        cte = None if schema else _cte(table, name)
        if cte is not None:
            return _alias_columns(cte.args.get("alias")) or self._output(cte.this, depth)
        if self._known is not None:
            for key in (f"{schema}.{name}", name) if schema else (name,):
                if key in self._known:
                    return frozenset(self._known[key]) | _SYSTEM_COLUMNS
        own = system_columns(schema, name)
        if own is not None:
            return own | _SYSTEM_COLUMNS
        return None if self._known is None else frozenset()

    def _output(self, query: exp.Expr, depth: int) -> Columns:
        """Return the names of the columns that a query returns."""
        if id(query) not in self._outputs:
            self._outputs[id(query)] = frozenset()  # of a query that refers to itself
            self._outputs[id(query)] = self._new_output(query, depth)
        return self._outputs[id(query)]

    def _new_output(self, query: exp.Expr, depth: int) -> Columns:
        if depth > _MOST_DEEP:
            return frozenset()
        if isinstance(query, exp.SetOperation | exp.Subquery):
            return self._output(query.this, depth + 1)
        if isinstance(query, exp.Values):
            return _value_columns(query)
        if not isinstance(query, exp.Select):
            return frozenset()
        return _together(
            self._output_of(query, expression, depth + 1) for expression in query.expressions
        )

    def _output_of(self, query: exp.Select, expression: exp.Expr, depth: int) -> Columns:
        if isinstance(expression, exp.Star):
            return _together(relation.columns for relation in self._relations_of(query, depth))
        if isinstance(expression, exp.Column) and isinstance(expression.this, exp.Star):
            table = folded(expression.args.get("table"))
            return _together(
                relation.columns
                for relation in self._relations_of(query, depth)
                if relation.name == table
            )
        if isinstance(expression, exp.Alias):
            return frozenset({folded(expression.args.get("alias"))})
        if isinstance(expression, exp.Column):
            return frozenset({folded(expression.this)})
        return frozenset({_AGGREGATES[type(expression)]} if type(expression) in _AGGREGATES else ())


def _is_row(item: exp.Expr) -> bool:
    inner = item.this
    return isinstance(item, exp.Values | exp.Subquery) or isinstance(
        inner, exp.Identifier | exp.Subquery
    )


def _items(query: exp.Expr) -> Iterator[exp.Expr]:
    """Yield all items in FROM of a query, including joins."""
    start = query.args.get("from_")
    if start is not None:
        yield from _with_joined(start.this)
    for join in (*(query.args.get("joins") or ()), *(query.args.get("laterals") or ())):
        yield from _with_joined(join.this if isinstance(join, exp.Join) else join)


def _with_joined(item: exp.Expr) -> Iterator[exp.Expr]:
    inner = item.this
    is_join = isinstance(item, exp.Subquery) and isinstance(inner, exp.Table | exp.Subquery)
    if is_join and item.args.get("alias") is None:
        yield from _with_joined(inner)
    else:
        yield item
    yield from _joined(item)


def _joined(item: exp.Expr) -> Iterator[exp.Expr]:
    for join in item.args.get("joins") or ():
        yield from _with_joined(join.this)


def _cte(node: exp.Expr, name: str) -> exp.CTE | None:
    """Return the nearest CTE that this table name refers to; None if there is none."""
    inner: exp.Expr = node
    outer = node.parent
    while outer is not None:
        clause = outer if isinstance(outer, exp.With) else outer.args.get("with_")
        if clause is not None and inner is not clause:
            for cte in clause.expressions:
                if cte is inner and not clause.args.get("recursive"):
                    break  # neither it nor those behind it
                if folded(cte.args["alias"].this) == name:
                    return cte
        inner, outer = outer, outer.parent
    return None


def _alias_columns(alias: object) -> frozenset[str]:
    if not isinstance(alias, exp.TableAlias):
        return frozenset()
    columns: Iterable[exp.Expr] = alias.args.get("columns") or ()
    return frozenset(
        folded(column.this if isinstance(column, exp.ColumnDef) else column) for column in columns
    )


def _value_columns(values: exp.Values) -> frozenset[str]:
    first = values.expressions[0] if values.expressions else None
    width = len(first.expressions) if isinstance(first, exp.Tuple) else 1
    return frozenset(f"column{number}" for number in range(1, width + 1))


def _named_outputs(function: object) -> frozenset[str]:
    if isinstance(function, exp.Anonymous):
        return output_columns(str(function.this).lower())
    return frozenset()


def _together(columns: Iterable[Columns]) -> Columns:
    parts = list(columns)
    if any(part is None for part in parts):
        return None
    return frozenset(name for part in parts for name in part or ())
