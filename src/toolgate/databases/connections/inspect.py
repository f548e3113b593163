"""Reads a schema from a database through SQLAlchemy.

PostgreSQL formats types itself; for other databases SQLAlchemy does, if it knows the type.
SQLite has a separate reader.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine.reflection import Inspector, ObjectKind
from sqlalchemy.exc import CompileError, SAWarning, SQLAlchemyError

from toolgate.databases.connections.schema import (
    ColumnSchema,
    ForeignKey,
    Index,
    NamedType,
    Schema,
    TableKind,
    TableSchema,
)
from toolgate.databases.connections.sqlite import read_sqlite_schema

_Key: TypeAlias = tuple[str | None, str]
"""Schema and name, as SQLAlchemy returns them."""

_OWN_SCHEMAS: Final = frozenset(
    {"information_schema", "pg_catalog", "pg_toast", "mysql", "performance_schema", "sys"}
)
"""System schemas."""

_RULES: Final = (("ondelete", "ON DELETE"), ("onupdate", "ON UPDATE"))
_NO_RULE: Final = frozenset({"", "NO ACTION"})

_PARTS: Final = (
    "columns",
    "pk_constraint",
    "foreign_keys",
    "unique_constraints",
    "check_constraints",
    "indexes",
    "table_comment",
)
"""The properties that are read of every table."""


def read_schema(
    connection: sa.Connection, *, schemas: Sequence[str] = (), exclude: Sequence[str] = ()
) -> Schema:
    """Read the current schema; the connection should provide a consistent snapshot.

    Args:
        connection: An open connection.
        schemas: Schemas to read; empty: the default schema; `*`: all but system schemas. A
            SQLite file has one.
        exclude: Patterns of tables to leave out.

    Raises:
        SQLAlchemyError: The database did not answer.
        sqlite3.Error: The same, for SQLite.
    """
    if connection.dialect.name == "sqlite":
        driver: Any = connection.connection.driver_connection
        return read_sqlite_schema(driver, exclude=exclude)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SAWarning)  # of types that it does not know
        return _SchemaReader(connection, exclude).schema(schemas)


def schemas_of(inspector: Inspector, requested: Sequence[str]) -> list[str | None]:
    """Names of the requested schemas; None is the default schema.

    Args:
        inspector: Inspector of the database.
        requested: Schema names; empty: the default schema; `*`: all but system schemas.
    """
    if not requested:
        return [None]
    names = list(requested)
    if "*" in names:
        names = [
            name
            for name in inspector.get_schema_names()
            if name.casefold() not in _OWN_SCHEMAS and not name.startswith("pg_")
        ]
    # The default schema is requested without its name, so that references to it are unqualified.
    usual = inspector.default_schema_name
    return list(dict.fromkeys(None if name == usual else name for name in names))


class _SchemaReader:
    def __init__(self, connection: sa.Connection, exclude: Sequence[str]) -> None:
        self._connection = connection
        self._exclude = exclude
        self._inspector: Inspector = sa.inspect(connection)
        # Not `isinstance`: that would load `PGInspector` even without PostgreSQL.
        self._postgres: Any = self._inspector if connection.dialect.name == "postgresql" else None
        self._usual = self._inspector.default_schema_name
        self._unread: dict[str, str] = {}

    def schema(self, requested: Sequence[str]) -> Schema:
        tables: list[TableSchema] = []
        types: list[NamedType] = []
        for schema in schemas_of(self._inspector, requested):
            tables += self._tables(schema)
            types += self._types(schema)
        return Schema.of(tables, types, self._unread)

    def _name(self, schema: str | None, name: str) -> str:
        return name if schema is None or schema == self._usual else f"{schema}.{name}"

    def _is_wanted(self, name: str) -> bool:
        return not any(fnmatchcase(name, pattern) for pattern in self._exclude)

    def _tables(self, schema: str | None) -> Iterator[TableSchema]:
        kinds: dict[str, TableKind] = {
            name: kind
            for name, kind in self._kinds(schema).items()
            if self._is_wanted(self._name(schema, name))
        }
        parts = {part: self._part(part, schema, kinds) for part in _PARTS}
        written = self._written_types(schema)
        for name, kind in kinds.items():
            full_name = self._name(schema, name)
            if full_name in self._unread:
                continue
            key: _Key = (schema, name)
            details: dict[str, Any] = {part: values.get(key) for part, values in parts.items()}
            columns = details["columns"] or ()
            key_of_it: Mapping[str, Any] = details["pk_constraint"] or {}
            comment: Mapping[str, Any] = details["table_comment"] or {}
            yield TableSchema(
                name=full_name,
                kind=kind,
                columns=tuple(self._column(column, written.get(name, {})) for column in columns),
                primary_key=tuple(key_of_it.get("constrained_columns") or ()),
                foreign_keys=tuple(self._foreign_keys(details["foreign_keys"] or ())),
                unique_keys=_unique_keys(details),
                checks=tuple(sorted(_one_line(check) for check in _checks(details))),
                indexes=tuple(_indexes(details["indexes"] or ())),
                definition=self._definition(schema, name) if kind != "table" else "",
                comment=comment.get("text") or "",
            )

    def _kinds(self, schema: str | None) -> dict[str, TableKind]:
        """Names of all relations with columns, with their kind."""
        kinds: dict[str, TableKind] = dict.fromkeys(
            self._inspector.get_table_names(schema), "table"
        )
        listings: tuple[tuple[Callable[[str | None], list[str]], TableKind], ...] = (
            (self._inspector.get_view_names, "view"),
            (self._inspector.get_materialized_view_names, "materialized view"),
        )
        for names, kind in listings:
            try:
                kinds.update(dict.fromkeys(names(schema), kind))
            except NotImplementedError:
                continue
        if self._postgres is not None:
            kinds.update(dict.fromkeys(self._postgres.get_foreign_table_names(schema), "table"))
        return kinds

    def _part(self, part: str, schema: str | None, names: Iterable[str]) -> Mapping[_Key, Any]:
        """A property of all tables, read one by one if a table fails the bulk query."""
        together = getattr(self._inspector, f"get_multi_{part}")
        try:
            return together(schema=schema, kind=ObjectKind.ANY)
        except NotImplementedError:
            return {}
        except SQLAlchemyError:
            if self._postgres is not None:
                raise  # nothing more can be read in this transaction
        values: dict[_Key, Any] = {}
        for name in names:
            try:
                values[schema, name] = getattr(self._inspector, f"get_{part}")(name, schema=schema)
            except SQLAlchemyError as error:
                self._unread[self._name(schema, name)] = _reason(error)
        return values

    def _written_types(self, schema: str | None) -> Mapping[str, Mapping[str, str]]:
        """Types by table and column as the database formats them, if it can."""
        types_by_table: dict[str, dict[str, str]] = {}
        if self._postgres is not None:
            rows = self._connection.execute(_POSTGRES_TYPES, {"schema": schema or self._usual})
            for table, column, written in rows:
                types_by_table.setdefault(table, {})[column] = written
        return types_by_table

    def _column(self, column: Mapping[str, Any], written: Mapping[str, str]) -> ColumnSchema:
        computed = "identity" if column.get("identity") else ""
        if column.get("computed"):
            computed = _one_line(column["computed"].get("sqltext") or "computed")
        default = column.get("default")
        return ColumnSchema(
            name=column["name"],
            type=written.get(column["name"]) or self._compiled(column["type"]),
            nullable=bool(column.get("nullable", True)),
            default="" if default is None or computed else _one_line(str(default)),
            computed=computed,
            comment=column.get("comment") or "",
        )

    def _compiled(self, type_: sa.types.TypeEngine[Any]) -> str:
        if isinstance(type_, sa.types.NullType):
            return "unknown"
        try:
            return type_.compile(dialect=self._connection.dialect)
        except (CompileError, NotImplementedError):
            return type(type_).__name__

    def _foreign_keys(self, keys: Iterable[Mapping[str, Any]]) -> list[ForeignKey]:
        foreign_keys = [
            ForeignKey(
                columns=tuple(key["constrained_columns"]),
                table=self._name(key.get("referred_schema"), key["referred_table"]),
                to=tuple(key["referred_columns"]),
                rule=_rule(key.get("options") or {}),
            )
            for key in keys
        ]
        return sorted(foreign_keys, key=lambda key: (key.columns, key.table, key.to))

    def _definition(self, schema: str | None, name: str) -> str:
        try:
            return _one_line(self._inspector.get_view_definition(name, schema=schema) or "")
        except (SQLAlchemyError, NotImplementedError):
            return ""

    def _types(self, schema: str | None) -> Iterator[NamedType]:
        if self._postgres is None:
            return
        for enum in self._postgres.get_enums(schema):
            name = self._name(enum["schema"], enum["name"])
            yield NamedType(name=name, kind="enum", values=tuple(enum["labels"]))
        for domain in self._postgres.get_domains(schema):
            name = self._name(domain["schema"], domain["name"])
            definition = [domain["type"], *(["NOT NULL"] if not domain["nullable"] else [])]
            definition += [f"DEFAULT {domain['default']}"] if domain["default"] else []
            definition += sorted(f"CHECK ({item['check']})" for item in domain["constraints"])
            yield NamedType(name=name, kind="domain", definition=" ".join(definition))


_POSTGRES_TYPES: Final = sa.text(
    "SELECT c.relname, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod)"
    " FROM pg_catalog.pg_attribute a"
    " JOIN pg_catalog.pg_class c ON c.oid = a.attrelid"
    " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = :schema AND a.attnum > 0 AND NOT a.attisdropped"
    " AND c.relkind IN ('r', 'p', 'f', 'v', 'm')"
)


def _rule(options: Mapping[str, Any]) -> str:
    parts = [
        f"{words} {options[key].upper()}"
        for key, words in _RULES
        if (options.get(key) or "").upper() not in _NO_RULE
    ]
    return " ".join(parts)


def _unique_keys(details: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        sorted({tuple(key["column_names"]) for key in details["unique_constraints"] or ()})
    )


def _checks(details: Mapping[str, Any]) -> list[str]:
    return [item["sqltext"] for item in details["check_constraints"] or () if item.get("sqltext")]


def _indexes(indexes: Iterable[Mapping[str, Any]]) -> list[Index]:
    """Indexes except those of unique keys."""
    collected: list[Index] = []
    for index in indexes:
        if index.get("duplicates_constraint") or not index.get("name"):
            continue
        columns = index.get("expressions") or index.get("column_names") or ()
        options: Mapping[str, Any] = index.get("dialect_options") or {}
        where = next((str(options[key]) for key in options if key.endswith("_where")), "")
        collected.append(
            Index(
                name=index["name"],
                columns=tuple(map(str, columns)),
                unique=bool(index.get("unique")),
                where=_one_line(where),
            )
        )
    return sorted(collected, key=lambda index: index.name)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _reason(error: Exception) -> str:
    lines = str(getattr(error, "orig", None) or error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
