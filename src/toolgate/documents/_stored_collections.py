"""Finds stored collections by name, and checks their texts."""

from collections.abc import Sequence

from toolgate.errors import ArgumentError
from toolgate.store import StoredCollection


def collection_named(rows: Sequence[StoredCollection], name: str) -> StoredCollection | None:
    """Return the collection with this name, else the one with this alias."""
    folded = name.strip().casefold()
    by_name = next((row for row in rows if row.name.casefold() == folded), None)
    return by_name or next(
        (row for row in rows if row.alias and row.alias.casefold() == folded), None
    )


def single_line(text: str, label: str, max_chars: int) -> str:
    """Return a display text as a single line."""
    line = " ".join(text.split())
    if len(line) > max_chars:
        raise ArgumentError(
            f"The {label} has {len(line):,} characters.", allowed=f"Allowed: {max_chars:,} at most."
        )
    return line
