"""A database schema as a value: comparable, storable, printable."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any, Literal, TypeAlias, cast

import orjson

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
    """Whether it may be null."""

    default: str = ""
    """The default expression; empty: none."""

    computed: str = ""
    """The expression of a computed column, or `identity`; empty otherwise."""

    comment: str = ""
    """Its comment in the database."""


@dataclass(frozen=True, kw_only=True)
class ForeignKey:
    """A reference from columns to columns of another table."""

    columns: tuple[str, ...]
    """The referencing columns."""

    table: str
    """The referenced table, qualified if it is not in the default schema."""

    to: tuple[str, ...]
    """The referenced columns, in the same order."""

    rule: str = ""
    """Its actions, such as `ON DELETE CASCADE`."""


@dataclass(frozen=True, kw_only=True)
class Index:
    """An index that does not belong to a key."""

    name: str
    """Its name in the database."""

    columns: tuple[str, ...]
    """Columns or expressions, in order."""

    unique: bool = False
    """Whether it is unique."""

    where: str = ""
    """The condition of a partial index; empty otherwise."""


@dataclass(frozen=True, kw_only=True)
class TableSchema:
    """A table or a view."""

    name: str
    """Its name, qualified if it is not in the default schema: `sales.orders`."""

    kind: TableKind = "table"
    """Its kind."""

    columns: tuple[ColumnSchema, ...] = ()
    """Columns in the order of the database."""

    primary_key: tuple[str, ...] = ()
    """Columns of the primary key; empty: none."""

    foreign_keys: tuple[ForeignKey, ...] = ()
    """Foreign keys, sorted by columns."""

    unique_keys: tuple[tuple[str, ...], ...] = ()
    """Columns of each unique key, sorted."""

    checks: tuple[str, ...] = ()
    """Check constraints, sorted."""

    indexes: tuple[Index, ...] = ()
    """Indexes, sorted by name."""

    definition: str = ""
    """The statement of a view; empty otherwise."""

    comment: str = ""
    """Its comment in the database."""


@dataclass(frozen=True, kw_only=True)
class NamedType:
    """A named type, as in PostgreSQL."""

    name: str
    """Its name, qualified if it is not in the default schema."""

    kind: Literal["enum", "domain"]
    """A list of values, or another type with constraints."""

    values: tuple[str, ...] = ()
    """Values of an enum, in order."""

    definition: str = ""
    """Type and constraints of a domain."""


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The schema of a database. Names are unique and sorted."""

    tables: tuple[TableSchema, ...] = ()
    """Tables and views."""

    types: tuple[NamedType, ...] = ()
    """Named types."""

    unread: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)
    """Tables that could not be read, with the reason; not part of the schema."""

    @cached_property
    def content(self) -> bytes:
        """The schema as JSON; equal for equal schemas."""
        plain = {"tables": self.tables, "types": self.types}
        return orjson.dumps(plain, option=orjson.OPT_SORT_KEYS)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of `content` in hex."""
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
        """Create a schema of these parts and sort them."""
        return cls(
            tables=tuple(sorted(tables, key=lambda table: table.name)),
            types=tuple(sorted(types, key=lambda type_entry: type_entry.name)),
            unread=dict(unread or {}),
        )

    @classmethod
    def from_content(cls, content: bytes) -> "Schema":
        """Read a schema from `content`.

        Raises:
            ValueError: The content is invalid.
        """
        try:
            plain = orjson.loads(content)
            return cls(
                tables=tuple(_table(content) for content in plain["tables"]),
                types=tuple(NamedType(**_tuples(content)) for content in plain["types"]),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is not a schema: {error}") from error


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
