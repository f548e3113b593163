"""Compares two states of a list: most of a catalog is unchanged when a server changes."""

from collections.abc import Iterable
from itertools import chain, islice
from typing import Any, TypeVar

T = TypeVar("T")

_STEP = 4_096
"""Number of elements compared at a time, in C: identical objects are equal without reading them;
chosen."""


def shared_head(old: tuple[Any, ...], new: tuple[Any, ...]) -> int:
    """Return how many elements at the beginning of both are the same objects, or equal."""
    at, limit = 0, min(len(old), len(new))
    while at < limit and old[at : min(at + _STEP, limit)] == new[at : min(at + _STEP, limit)]:
        at = min(at + _STEP, limit)
    while at < limit and (old[at] is new[at] or old[at] == new[at]):
        at += 1
    return at


def shared_tail(old: tuple[Any, ...], new: tuple[Any, ...], head: int) -> int:
    """Return how many elements at the end of both are equal; those in `head` do not count again."""
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
    """Replace the elements between the first `head` and the last `tail` ones.

    Each element is copied once: concatenating slices takes half as long again.
    """
    return tuple(chain(islice(old, head), middle, islice(old, len(old) - tail, None)))
