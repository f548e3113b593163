"""The sort order of a table, from the URL."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from toolgate.console.request import PageRequest

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class TableOrder:
    """Sort order of a table."""

    name: str
    """The column; empty: unsorted."""

    falls: bool = False
    """Whether the order is descending."""

    @property
    def value(self) -> str:
        """What the parameter `sort` of the URL says; empty if the table is unsorted."""
        return f"-{self.name}" if self.falls else self.name

    def sort(self, rows: Iterable[T], keys: Mapping[str, Callable[[T], Any]]) -> list[T]:
        """Sort rows; those without a value come last."""
        key = keys.get(self.name)
        if key is None:
            return list(rows)
        with_value, without = list[T](), list[T]()
        for row in rows:
            (without if key(row) is None else with_value).append(row)
        return sorted(with_value, key=key, reverse=self.falls) + without


def order_of(request: PageRequest) -> TableOrder:
    """Return the order that `sort` in the URL names: a column, after `-` in descending order."""
    value = request.query_value("sort")
    return TableOrder(name=value.removeprefix("-"), falls=value.startswith("-"))
