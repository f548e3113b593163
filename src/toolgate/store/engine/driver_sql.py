"""Plain SQL over the driver, for rows that go in and out by the thousand."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from toolgate.store.base import SqlAccess

__all__ = ["DriverSql", "placeholders", "portions"]

T = TypeVar("T")

_PORTION = 500
"""Values in one statement; SQLite allows 32,766 (https://www.sqlite.org/limits.html)."""


class DriverSql:
    """Runs statements that are written with `?` in the form that the driver reads."""

    def __init__(self, store: SqlAccess, *, is_sqlite: bool) -> None:
        self._store = store
        self._is_sqlite = is_sqlite

    def dialect_sql(self, statement: str) -> str:
        """A statement with the driver's placeholders."""
        return statement if self._is_sqlite else statement.replace("?", "%s")

    def run(self, driver: Any, statement: str, values: Sequence[object] = ()) -> int:
        """Run a statement; gives how many rows it met."""
        return driver.execute(self.dialect_sql(statement), tuple(values)).rowcount

    def rows(
        self, driver: Any, statement: str, values: Sequence[object] = ()
    ) -> list[tuple[Any, ...]]:
        """Rows of a query."""
        return driver.execute(self.dialect_sql(statement), tuple(values)).fetchall()

    def many(self, driver: Any, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Run a statement for each row of values."""
        if rows:
            cursor = driver.cursor()
            cursor.executemany(self.dialect_sql(statement), rows)
            cursor.close()


def placeholders(values: Sequence[object]) -> str:
    """Question marks for values."""
    return ", ".join("?" * len(values))


def portions(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Values in portions that a statement takes."""
    for at in range(0, len(values), _PORTION):
        yield values[at : at + _PORTION]
