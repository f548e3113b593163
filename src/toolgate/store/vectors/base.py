"""The contract of vector stores. Knows nothing of tools, documents, models or search.

A vector has a key within its collection. All vectors of a collection come from one model and are
compared by one metric, so what belongs to another model or metric gets a collection of its own. A
vector may belong to a group, such as the document that a passage is of.
"""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "KEY_BYTES",
    "METRICS",
    "Metric",
    "Precision",
    "ReceiveRows",
    "Rows",
    "VectorCollection",
    "VectorMatch",
    "VectorStore",
]

KEY_BYTES = 16
"""Length of a key."""

Metric: TypeAlias = Literal["cosine", "euclidean", "dot"]
"""How two vectors are compared."""

METRICS: tuple[Metric, ...] = ("cosine", "euclidean", "dot")
"""All of them."""

Precision: TypeAlias = Literal["half", "single"]
"""`half`: float16, for vectors that are no longer than 1. `single`: float32."""

Rows: TypeAlias = NDArray[np.floating[Any]]
"""Vectors, one in each row."""

ReceiveRows: TypeAlias = Callable[[NDArray[np.int64], Rows], None]
"""Takes vectors that were read: positions among the keys asked for, and their rows. Called in
another thread, some thousands at a time."""


@dataclass(frozen=True, kw_only=True)
class VectorCollection:
    """Vectors that are searched together."""

    collection_id: str
    """1 to 64 letters and digits, unique everywhere."""

    dim: int
    """Numbers of a vector; 1 to 65,535."""

    metric: Metric = "cosine"
    """How they are compared."""

    precision: Precision = "single"
    """How exactly they are stored."""

    version: int | None = None
    """Grows with each change that others make, so that a store may keep the vectors in memory while
    it stays the same; None: it is not known."""


@dataclass(frozen=True, kw_only=True)
class VectorMatch:
    """A vector that is near to a query."""

    key: bytes
    """Its key."""

    score: float
    """`cosine`: the cosine in [-1, 1]. `euclidean`: the distance, 0 or more, lower is nearer.
    `dot`: the product, which has no bounds."""


@runtime_checkable
class VectorStore(Protocol):
    """Stores vectors and finds near ones.

    Duties, checked by `toolgate.testing.contracts.vectors` on every implementation:

    * `put` replaces what a key had before; what was put is found by the next `nearest`.
    * `half` vectors are read as they were put, to the bit. `single` vectors compared by `cosine`
      may come back with length 1.
    * Collections never see each other's vectors. One that nobody has filled is empty, no error.
    * Vectors of another dimension than their collection's, or not finite, are a `ValueError`.
    * A stored row that is damaged is as if it did not exist, and putting it again repairs it.
    * Filters come before ranking: `keys` and `groups` never cost a match that they allow.
    * Scores are exact, and equal ones are in the order of their keys. A vector of zeros has the
      cosine 0 with all.
    * Tasks, threads and processes may use it at once; methods never block the event loop.
    * A failure raises `StoreError`, and the store is asked again next time.
    """

    @property
    def notice(self) -> str:
        """What a person should know, such as a missing extension; may be empty."""
        ...

    async def put(
        self,
        collection: VectorCollection,
        keys: Sequence[bytes],
        rows: Rows,
        *,
        groups: Sequence[str] | None = None,
    ) -> int:
        """Store vectors.

        Args:
            collection: Where they belong.
            keys: One for each row, all different, `KEY_BYTES` long.
            rows: Shape (len(keys), dim), finite.
            groups: One for each row, letters and digits; None: they have none.

        Returns:
            How many were written; a store may leave out those that it has already.
        """
        ...

    async def load(
        self, collection: VectorCollection, keys: Sequence[bytes], receive: ReceiveRows
    ) -> None:
        """Hand over the vectors of these keys, as far as they exist."""
        ...

    async def contains(
        self, collection: VectorCollection, keys: Sequence[bytes]
    ) -> NDArray[np.bool_]:
        """Which of these keys have a vector; does not look at the vectors themselves."""
        ...

    async def nearest(
        self,
        collection: VectorCollection,
        query: NDArray[np.float32],
        *,
        limit: int,
        keys: Sequence[bytes] | None = None,
        groups: Collection[str] | None = None,
    ) -> list[VectorMatch]:
        """The nearest vectors, best first.

        Args:
            collection: Where to look.
            query: Shape (dim,).
            limit: How many, 1 to 10,000.
            keys: Only among these; None: among all. Without a filter, a store may find less than
                the very best.
            groups: Only among the vectors of these groups; None: among all.
        """
        ...

    def keys(self, collection: VectorCollection) -> AsyncIterator[list[bytes]]:
        """All keys, some thousands at a time."""
        ...

    async def remove(
        self,
        collection: VectorCollection,
        *,
        keys: Collection[bytes] = (),
        groups: Collection[str] = (),
    ) -> None:
        """Remove the vectors of these keys and of these groups."""
        ...

    async def drop(self, collection: VectorCollection) -> None:
        """Remove a collection."""
        ...

    async def count(self, collection: VectorCollection) -> int:
        """How many vectors a collection has."""
        ...

    async def optimize(self, collection: VectorCollection) -> None:
        """Prepare for `nearest` after many were put, such as building an index; may be slow."""
        ...

    async def aclose(self) -> None:
        """Close what is open; it may be used again afterwards."""
        ...
