"""Finds stored collections by name, and checks their texts."""

from collections.abc import Sequence
from typing import cast

from toolgate.errors import ArgumentError
from toolgate.store import StoredCollection
from toolgate.store.passages import Metric, VectorCollection

__all__ = ["collection_named", "single_line", "vector_collection"]


def collection_named(rows: Sequence[StoredCollection], name: str) -> StoredCollection | None:
    """The collection with this name, else the one with this alias."""
    folded = name.strip().casefold()
    by_name = next((row for row in rows if row.name.casefold() == folded), None)
    return by_name or next(
        (row for row in rows if row.alias and row.alias.casefold() == folded), None
    )


def vector_collection(row: StoredCollection) -> VectorCollection:
    """Where the vectors of a collection are."""
    return VectorCollection(
        collection_id=row.collection_id,
        shelf_id=row.shelf_id,
        dim=row.dim,
        metric=cast("Metric", row.metric),
    )


def single_line(text: str, label: str, max_chars: int) -> str:
    """A text for people in one line."""
    line = " ".join(text.split())
    if len(line) > max_chars:
        raise ArgumentError(
            f"The {label} has {len(line):,} characters.", allowed=f"Allowed: {max_chars:,} at most."
        )
    return line
