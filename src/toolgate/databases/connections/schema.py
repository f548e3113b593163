"""A database schema as a value: comparable, storable, printable."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any, Literal, TypeAlias, cast

import orjson

__all__ = ["ColumnSchema", "ForeignKey", "Index", "NamedType", "Schema", "TableKind", "TableSchema"]

TableKind: TypeAlias = Literal["table", "view", "materialized view"]
"""What has columns."""


@dataclass(frozen=True, kw_only=True)
class ColumnSchema:
    """A column of a table or view."""

    name: str
    """As the database writes it."""

    type: str
    """As the database writes it: `varchar(20)`."""

    nullable: bool = True
    """Whether it may be empty."""

    default: str = ""
    """The expression; empty: none."""

    computed: str = ""
    """The expression of a computed column, or `identity`; else empty."""

    comment: str = ""
    """What the database says about it."""


@dataclass(frozen=True, kw_only=True)
class ForeignKey:
    """Columns that refer to those of another table."""

    columns: tuple[str, ...]
    """Here."""

    table: str
    """There; with its schema where that is not the usual one."""

    to: tuple[str, ...]
    """Columns there; as many as here."""

    rule: str = ""
    """What happens when they change: `ON DELETE CASCADE`."""


@dataclass(frozen=True, kw_only=True)
class Index:
    """An index that is not there for a key."""

    name: str
    """As the database writes it."""

    columns: tuple[str, ...]
    """Columns or expressions, in their order."""

    unique: bool = False
    """Whether it also forbids equal values."""

    where: str = ""
    """The condition of a partial index; else empty."""


@dataclass(frozen=True, kw_only=True)
class TableSchema:
    """A table or a view."""

    name: str
    """With its schema where that is not the usual one: `sales.orders`."""

    kind: TableKind = "table"
    """What it is."""

    columns: tuple[ColumnSchema, ...] = ()
    """In the order of the database."""

    primary_key: tuple[str, ...] = ()
    """Its columns; empty: none."""

    foreign_keys: tuple[ForeignKey, ...] = ()
    """By columns."""

    unique_keys: tuple[tuple[str, ...], ...] = ()
    """The columns of each, by columns."""

    checks: tuple[str, ...] = ()
    """Conditions on its rows, sorted."""

    indexes: tuple[Index, ...] = ()
    """By name."""

    definition: str = ""
    """The statement of a view; else empty."""

    comment: str = ""
    """What the database says about it."""


@dataclass(frozen=True, kw_only=True)
class NamedType:
    """A type that has a name of its own, as PostgreSQL has them."""

    name: str
    """With its schema where that is not the usual one."""

    kind: Literal["enum", "domain"]
    """A list of values, or another type with conditions."""

    values: tuple[str, ...] = ()
    """Of an enum, in their order."""

    definition: str = ""
    """Of a domain: its type and conditions."""


@dataclass(frozen=True, kw_only=True)
class Schema:
    """Everything that is known of a schema. Names are unique, and sorted."""

    tables: tuple[TableSchema, ...] = ()
    """Tables and views."""

    types: tuple[NamedType, ...] = ()
    """Types with names of their own."""

    unread: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)
    """Tables that are there but could not be read this time, and why; not part of the schema."""

    @cached_property
    def content(self) -> bytes:
        """The schema as JSON, the same for equal schemas."""
        plain = {"tables": self.tables, "types": self.types}
        return orjson.dumps(plain, option=orjson.OPT_SORT_KEYS)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of `content`, in hex."""
        return sha256(self.content).hexdigest()

    @cached_property
    def by_name(self) -> Mapping[str, TableSchema]:
        """Tables and views by name."""
        return {table.name: table for table in self.tables}

    @cached_property
    def type_by_name(self) -> Mapping[str, NamedType]:
        """Types by name."""
        return {type_entry.name: type_entry for type_entry in self.types}

    @classmethod
    def of(
        cls,
        tables: Iterable[TableSchema],
        types: Iterable[NamedType] = (),
        unread: Mapping[str, str] | None = None,
    ) -> "Schema":
        """A schema of these, in their order."""
        return cls(
            tables=tuple(sorted(tables, key=lambda table: table.name)),
            types=tuple(sorted(types, key=lambda type_entry: type_entry.name)),
            unread=dict(unread or {}),
        )

    @classmethod
    def from_content(cls, content: bytes) -> "Schema":
        """The schema of what `content` gave.

        Raises:
            ValueError: It is none.
        """
        try:
            plain = orjson.loads(content)
            return cls(
                tables=tuple(_table(content) for content in plain["tables"]),
                types=tuple(NamedType(**_tuples(content)) for content in plain["types"]),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is no schema: {error}") from error


def _table(plain: dict[str, Any]) -> TableSchema:
    fields: dict[str, Any] = {
        **plain,
        "columns": tuple(ColumnSchema(**column) for column in plain["columns"]),
        "primary_key": tuple(plain["primary_key"]),
        "foreign_keys": tuple(ForeignKey(**_tuples(key)) for key in plain["foreign_keys"]),
        "unique_keys": tuple(tuple(key) for key in plain["unique_keys"]),
        "checks": tuple(plain["checks"]),
        "indexes": tuple(Index(**_tuples(index)) for index in plain["indexes"]),
    }
    return TableSchema(**fields)


def _tuples(plain: dict[str, Any]) -> dict[str, Any]:
    return {
        key: tuple(cast("list[object]", value)) if isinstance(value, list) else value
        for key, value in plain.items()
    }
