"""Tables: their columns, types, and keys."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

_GROUPS: Final[dict[str, frozenset[int]]] = {
    "text": frozenset({-9, -1, 1, 12, -15, -16, 2005, 2011}),
    "integer": frozenset({4, 5, -5, -6, -7, 16}),
    "number": frozenset({2, 3, 6, 7, 8}),
    "date": frozenset({91, 92, 93, 2013, 2014}),
    "media": frozenset({-2, -3, -4, 2004}),
}
"""Groups of java.sql.Types whose values are comparable."""

_PRIMARY: Final = 1
"""Flag of a primary key in Servoy's .dbi files."""
_ROW_ID: Final = 2
"""Flag of a row identifier in Servoy's .dbi files."""


@dataclass(frozen=True, kw_only=True)
class DbColumn:
    """A column of a table."""

    name: str
    """Name in the database."""

    sql_type: int
    """A number of java.sql.Types: 12 is text, 4 an integer, 93 a timestamp."""

    length: int = 0
    """Characters, or total digits."""

    scale: int = 0
    """Digits after the decimal point."""

    subtype: int = 0
    """Servoy's own subtype; 0: none."""

    flags: int = 0
    """Bits: 1 primary key, 2 row identifier, 4 UUID."""

    references: str = ""
    """Name of the table that it refers to; empty if none is declared."""

    @property
    def type(self) -> tuple[int, int, int, int]:
        """What must be equal for two columns to have the same type."""
        return (self.sql_type, self.length, self.scale, self.subtype)

    @property
    def shown_type(self) -> str:
        """The type as shown: `<12,50,0>`."""
        return f"<{self.sql_type},{self.length},{self.scale}>"


@dataclass(frozen=True, kw_only=True)
class DbTable:
    """A table or a view."""

    name: str
    """Name in the database."""

    columns: tuple[DbColumn, ...]
    """Columns, in the order of the source."""

    is_view: bool = False
    """Whether it is a view."""

    @cached_property
    def keys(self) -> tuple[DbColumn, ...]:
        """The columns that identify a row, by name."""
        for flag in (_PRIMARY, _ROW_ID):
            columns = [column for column in self.columns if column.flags & flag]
            if columns:
                return tuple(sorted(columns, key=lambda column: column.name))
        return ()

    def column(self, name: str) -> DbColumn | None:
        """Return a column, ignoring case as databases do; None if it does not exist."""
        folded = name.casefold()
        return next((column for column in self.columns if column.name.casefold() == folded), None)


@dataclass(frozen=True, kw_only=True)
class ReferringColumn:
    """A column that refers to a table."""

    table: str
    """Table of the column."""

    column: str
    """Name of the column."""

    target: str
    """The table that it refers to."""

    target_column: str = ""
    """The key of that table; empty if only the table is known."""


def group_of(column: DbColumn) -> str:
    """Return the group: `text`, `integer`, `number`, `date`, `media`, or the type itself."""
    if column.sql_type in {2, 3} and not column.scale:
        return "integer"
    for name, types in _GROUPS.items():
        if column.sql_type in types:
            return name
    return str(column.sql_type)
