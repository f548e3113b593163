"""What two states of a list have in common: most of a catalog stays when a server changes."""

from collections.abc import Iterable
from itertools import chain, islice
from typing import Any, TypeVar

__all__ = ["exchanged", "shared_head", "shared_tail"]

T = TypeVar("T")

_STEP = 4_096
"""Elements that are compared at a time, in C: the same object is equal without a look into it;
chosen."""


def shared_head(old: tuple[Any, ...], new: tuple[Any, ...]) -> int:
    """How many at the beginning of both are the same objects, or equal."""
    at, limit = 0, min(len(old), len(new))
    while at < limit and old[at : min(at + _STEP, limit)] == new[at : min(at + _STEP, limit)]:
        at = min(at + _STEP, limit)
    while at < limit and (old[at] is new[at] or old[at] == new[at]):
        at += 1
    return at


def shared_tail(old: tuple[Any, ...], new: tuple[Any, ...], head: int) -> int:
    """How many at the end of both are the same; those of `head` do not count again."""
    at, limit = 0, min(len(old), len(new)) - head
    o, n = len(old), len(new)
    while at < limit:
        end = min(at + _STEP, limit)
        if old[o - end : o - at] != new[n - end : n - at]:
            break
        at = end
    while at < limit and (old[o - at - 1] is new[n - at - 1] or old[o - at - 1] == new[n - at - 1]):
        at += 1
    return at


def exchanged(old: tuple[T, ...], head: int, middle: Iterable[T], tail: int) -> tuple[T, ...]:
    """The old ones with others between the first `head` and the last `tail` of them.

    Each is touched once: slices that are put together take half as long again.
    """
    return tuple(chain(islice(old, head), middle, islice(old, len(old) - tail, None)))
