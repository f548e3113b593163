"""Fields of tables that the loader treats in a special way."""

from dataclasses import field
from typing import TypeVar

DERIVED = {"derived": True}
"""Marks a field that no key sets: it says what was read."""

NumberT = TypeVar("NumberT", int, float, None)


def between(default: NumberT, low: float, high: float) -> NumberT:
    """A field whose value must lie in [low, high]."""
    return field(default=default, metadata={"low": low, "high": high})
