"""Plain SQL over the driver, for reading and writing rows by the thousand."""

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from types import CoroutineType
from typing import Any, Concatenate, ParamSpec, TypeVar

from toolgate.store.base import SqlAccess

T = TypeVar("T")
P = ParamSpec("P")
DriverT = TypeVar("DriverT", bound="DriverSql")

_PORTION = 500
"""Values per statement (chosen); SQLite allows 32,766 (https://www.sqlite.org/limits.html)."""


class DriverSql:
    """Runs statements written with `?` placeholders on every driver."""

    def __init__(self, store: SqlAccess, *, is_sqlite: bool) -> None:
        self.store = store
        """Runs the transactions."""
        self._is_sqlite = is_sqlite

    def dialect_sql(self, statement: str) -> str:
        """The statement with the driver's placeholders."""
        return statement if self._is_sqlite else statement.replace("?", "%s")

    def run(self, driver: Any, statement: str, values: Sequence[object] = ()) -> int:
        """Run a statement. Returns the number of affected rows."""
        return driver.execute(self.dialect_sql(statement), tuple(values)).rowcount

    def rows(
        self, driver: Any, statement: str, values: Sequence[object] = ()
    ) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        return driver.execute(self.dialect_sql(statement), tuple(values)).fetchall()

    def many(self, driver: Any, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Run a statement for each row of values."""
        if rows:
            cursor = driver.cursor()
            cursor.executemany(self.dialect_sql(statement), rows)
            cursor.close()


def reads(
    method: Callable[Concatenate[DriverT, Any, P], T],
) -> "Callable[Concatenate[DriverT, P], CoroutineType[Any, Any, T]]":
    """Run a method in a transaction that reads; it gets the driver's connection."""

    @wraps(method)
    async def transaction(self: DriverT, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.store.reading(lambda driver: method(self, driver, *args, **kwargs))

    return transaction


def writes(
    method: Callable[Concatenate[DriverT, Any, P], T],
) -> "Callable[Concatenate[DriverT, P], CoroutineType[Any, Any, T]]":
    """Run a method in a transaction that reads and writes; see `reads`."""

    @wraps(method)
    async def transaction(self: DriverT, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.store.writing(lambda driver: method(self, driver, *args, **kwargs))

    return transaction


def placeholders(values: Sequence[object]) -> str:
    """A list of placeholders for values."""
    return ", ".join("?" * len(values))


def portions(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Split values into portions that fit into a statement."""
    for at in range(0, len(values), _PORTION):
        yield values[at : at + _PORTION]
