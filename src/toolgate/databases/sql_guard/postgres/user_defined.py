"""Contents of the catalog of a PostgreSQL database outside `pg_catalog`."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from toolgate.databases.sql_guard.refused import StatementRefusedError


@dataclass(frozen=True, kw_only=True)
class CatalogObject:
    """A function, operator, type or cast outside `pg_catalog`."""

    schema: str
    """Schema of the object."""

    name: str
    """Name of the object; for a cast, its source type."""

    function: str = ""
    """The function that the object runs, as `schema.name`; empty: none."""

    is_visible: bool = True
    """Whether its schema is in the search path, so that the unqualified name can refer to it."""

    is_harmless: bool = False
    """Whether an extension owns it and declares it immutable or stable; for a type, whether
    converting to it runs no function."""


@dataclass(frozen=True, kw_only=True)
class PostgresCatalog:
    """Objects in a database with names from a statement, outside `pg_catalog`."""

    functions: tuple[CatalogObject, ...] = ()
    """Functions with these names."""

    operators: tuple[CatalogObject, ...] = ()
    """Operators with these names."""

    types: tuple[CatalogObject, ...] = ()
    """Types with these names."""

    casts: tuple[CatalogObject, ...] = ()
    """Casts with a function, from types that can occur in the statement."""

    comparisons: tuple[CatalogObject, ...] = ()
    """Functions that compare or hash values of types that can occur in the statement, by type."""

    checks: tuple[CatalogObject, ...] = ()
    """Functions in the checks of domains that occur in a column's type, by column."""

    columns: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])
    """Columns by table; see `check_statement`."""

    def refuse_functions(self, schema: str, name: str, allowed: frozenset[str]) -> None:
        """Refuse a function that may run user code.

        Raises:
            StatementRefusedError: A function of this name may run user code.
        """
        _refuse(_named(self.functions, schema, name), "function", "function", name, allowed)

    def refuse_operators(self, schema: str, name: str, allowed: frozenset[str]) -> None:
        """Refuse an operator that may run user code.

        Raises:
            StatementRefusedError: An operator of this name may run user code.
        """
        _refuse(_named(self.operators, schema, name), "operator", "operator", name, allowed)

    def refuse_types(self, schema: str, name: str, allowed: frozenset[str]) -> None:
        """Refuse a type whose conversions may run user code.

        Raises:
            StatementRefusedError: Conversions of a type of this name may run user code.
        """
        _refuse(_named(self.types, schema, name), "type", "type", name, allowed)

    def refuse_implied(self, allowed: frozenset[str]) -> None:
        """Refuse casts and comparisons that may run user code if values of their type can occur.

        Raises:
            StatementRefusedError: A cast or a comparison may run user code.
        """
        for cast in self.casts:
            _refuse((cast,), "type", "cast of the type", cast.name, allowed)
        for compared in self.comparisons:
            _refuse((compared,), "type", "comparison of the type", compared.name, allowed)

    def refuse_checks(self, columns: Collection[str] | None, allowed: frozenset[str]) -> None:
        """Refuse columns whose domain may run user code to check a value.

        Args:
            columns: Names that may be columns; None: any column may be meant.
            allowed: User functions that change nothing.

        Raises:
            StatementRefusedError: A check may run user code.
        """
        for check in self.checks:
            if columns is None or check.name in columns:
                _refuse((check,), "type", "domain of the column", check.name, allowed)

    def has_function(self, schema: str, name: str) -> bool:
        """Whether a function of this name exists."""
        return bool(_named(self.functions, schema, name))

    def has_operator(self, schema: str, name: str) -> bool:
        """Whether an operator of this name exists."""
        return bool(_named(self.operators, schema, name))

    def has_type(self, schema: str, name: str) -> bool:
        """Whether a type of this name exists."""
        return bool(_named(self.types, schema, name))


def _named(objects: Iterable[CatalogObject], schema: str, name: str) -> tuple[CatalogObject, ...]:
    return tuple(
        found
        for found in objects
        if found.name == name and (found.schema == schema if schema else found.is_visible)
    )


def _refuse(
    objects: Iterable[CatalogObject], rule: str, kind: str, name: str, allowed: frozenset[str]
) -> None:
    for found in objects:
        function = found.function.lower()
        if found.is_harmless or {function, function.rpartition(".")[2]} & allowed:
            continue
        runs = (
            f", which runs {found.function[:80]}," if found.function and rule != "function" else ""
        )
        raise StatementRefusedError(
            rule, f"The {kind} {name[:80]} of the schema {found.schema[:80]}{runs} may run any code"
        )
