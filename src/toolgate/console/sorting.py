"""The order of a table, as its address asks for it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from toolgate.console.request import Visit

__all__ = ["TableOrder", "order_of"]

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class TableOrder:
    """By which column a table is sorted."""

    name: str
    """The column; empty: as it comes."""

    falls: bool = False
    """Whether the largest comes first."""

    def sort(self, rows: Iterable[T], keys: Mapping[str, Callable[[T], Any]]) -> list[T]:
        """The rows in this order; those without a value come last."""
        key = keys.get(self.name)
        if key is None:
            return list(rows)
        with_value, without = list[T](), list[T]()
        for row in rows:
            (without if key(row) is None else with_value).append(row)
        return sorted(with_value, key=key, reverse=self.falls) + without


def order_of(visit: Visit, *, default: str = "", falls: bool = False) -> TableOrder:
    """The order that `sort` and `dir` ask for."""
    name = visit.asked("sort")
    if not name:
        return TableOrder(name=default, falls=falls)
    return TableOrder(name=name, falls=visit.asked("dir") == "down")
