"""A connected database as a server, with tables read by SQLAlchemy."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final, Protocol

from anyio import from_thread
from sqlalchemy import Connection, Inspector, inspect
from sqlalchemy import types as sql

from toolgate.errors import ToolgateError
from toolgate.packs.builtin.servoy._errors import ToolRefusedError
from toolgate.packs.builtin.servoy.database.tables import DbColumn, DbTable

_TYPES: Final[tuple[tuple[type[sql.TypeEngine[Any]], int], ...]] = (
    (sql.Boolean, 16),
    (sql.BigInteger, -5),
    (sql.SmallInteger, 5),
    (sql.Integer, 4),
    (sql.Double, 8),
    (sql.Float, 8),
    (sql.Numeric, 2),
    (sql.DateTime, 93),
    (sql.Date, 91),
    (sql.Time, 92),
    (sql.LargeBinary, -4),
    (sql.Text, -1),
    (sql.String, 12),
    (sql.Uuid, 12),
)
"""Numbers of java.sql.Types, special types before general ones."""

_UUID_LENGTH: Final = 36
"""Characters of a UUID as text (RFC 9562, section 4)."""


class ReadableConnection(Protocol):
    """A configured connection, as in `toolgate.databases.connections`."""

    async def reading(
        self, work: "Callable[[Connection], dict[str, DbTable]]"
    ) -> dict[str, DbTable]:
        """Call `work` with an open connection, in a thread."""
        ...


class LiveServer:
    """A database that is queried on demand, for tools that run in a thread."""

    def __init__(self, name: str, connections: Mapping[str, ReadableConnection]) -> None:
        """Create a server without connecting to it.

        Args:
            name: Its name in data sources and in `[connections]`.
            connections: Used to look it up on first use.
        """
        self.name = name
        self._connections = connections

    def table_names(self) -> list[str]:
        """Return the names of its tables, sorted, without views."""
        return sorted(table.name for table in self._all.values() if not table.is_view)

    def table(self, name: str) -> DbTable | None:
        """Return a table or view; None if it does not exist."""
        return self._all.get(name)

    def tables(self) -> list[DbTable]:
        """Return all its tables, sorted, without views."""
        return sorted(
            (table for table in self._all.values() if not table.is_view),
            key=lambda table: table.name,
        )

    @cached_property
    def _all(self) -> dict[str, DbTable]:
        connection = self._connections[self.name]
        try:
            return from_thread.run(connection.reading, _tables)
        except ToolgateError as error:
            raise ToolRefusedError(
                f"Database server '{self.name}' cannot be used. {error}"
            ) from error


def _tables(opened: Connection) -> dict[str, DbTable]:
    inspector = inspect(opened)
    tables = {name: _table(inspector, name) for name in inspector.get_table_names()}
    for name in inspector.get_view_names():
        tables[name] = _table(inspector, name, is_view=True)
    return tables


def _table(inspector: Inspector, name: str, *, is_view: bool = False) -> DbTable:
    keys = set(inspector.get_pk_constraint(name)["constrained_columns"])
    targets = {
        column: foreign_key["referred_table"]
        for foreign_key in inspector.get_foreign_keys(name)
        for column in foreign_key["constrained_columns"]
    }
    columns = [
        _column(column["name"], column["type"], is_key=column["name"] in keys, target=targets)
        for column in inspector.get_columns(name)
    ]
    return DbTable(name=name, columns=tuple(columns), is_view=is_view)


def _column(
    name: str, kind: "sql.TypeEngine[Any]", *, is_key: bool, target: dict[str, str]
) -> DbColumn:
    number = next((number for sql_type, number in _TYPES if isinstance(kind, sql_type)), 12)
    length: int = getattr(kind, "length", None) or 0
    scale = 0
    if number == 2:  # NUMERIC
        length, scale = getattr(kind, "precision", None) or 0, getattr(kind, "scale", None) or 0
    if isinstance(kind, sql.Uuid):
        length = _UUID_LENGTH
    return DbColumn(
        name=name,
        sql_type=number,
        length=length,
        scale=scale,
        flags=1 if is_key else 0,
        references=target.get(name, ""),
    )
