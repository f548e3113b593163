"""Maintenance of the vectors of an index: status, recomputation, deletion."""

from collections.abc import Collection
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from toolgate.search.semantic.first_stage import HybridState
from toolgate.types import Json


@runtime_checkable
class VectorIndex(Protocol):
    """A search with vectors that can be maintained."""

    async def index_status(self) -> Json:
        """Return the status of the index, for REST and `--json`."""
        ...

    async def refresh(self, servers: Collection[str] | None) -> int:
        """Recompute the vectors of some servers (None for all); return the number of tools."""
        ...

    async def forget(self, server: str) -> int:
        """Delete what is stored of a server, and store nothing of it until it is refreshed.

        Returns:
            Number of its tools that were stored.

        Raises:
            StoreError: The vector store failed.
        """
        ...


def slots_of(state: HybridState, servers: Collection[str] | None) -> NDArray[np.int64]:
    """Return the slots of the tools of some servers (None for all)."""
    words = state.words
    slots = np.arange(words.size) if words.slots is None else words.slots.astype(np.int64)
    if servers is None:
        return slots
    names = frozenset(servers)
    return slots[[words.tools[slot].server in names for slot in slots.tolist()]]


def per_server(state: HybridState) -> list[Json]:
    """Count tools and vectors of each server, in the order of the tools."""
    rows: dict[str, Json] = {}
    there = state.there
    slots: list[int] = slots_of(state, None).tolist()
    for slot in slots:
        name = state.words.tools[slot].server
        row = rows.setdefault(name, {"name": name, "tools": 0, "vectors": 0})
        row["tools"] += 1
        if state.vectors is not None and (there is None or there[slot]):
            row["vectors"] += 1
    return list(rows.values())
