"""The sort order of a table, from the URL."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from toolgate.console.request import PageRequest
from toolgate.types.values import dataclass

__all__ = ["TableOrder", "order_of"]

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class TableOrder:
    """Sort order of a table."""

    name: str
    """The column; empty: unsorted."""

    falls: bool = False
    """Whether the order is descending."""

    def sort(self, rows: Iterable[T], keys: Mapping[str, Callable[[T], Any]]) -> list[T]:
        """Sort rows; those without a value come last."""
        key = keys.get(self.name)
        if key is None:
            return list(rows)
        with_value, without = list[T](), list[T]()
        for row in rows:
            (without if key(row) is None else with_value).append(row)
        return sorted(with_value, key=key, reverse=self.falls) + without


def order_of(request: PageRequest, *, default: str = "", falls: bool = False) -> TableOrder:
    """Return the order that `sort` and `dir` in the URL name."""
    name = request.query_value("sort")
    if not name:
        return TableOrder(name=default, falls=falls)
    return TableOrder(name=name, falls=request.query_value("dir") == "down")
