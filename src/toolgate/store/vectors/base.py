"""The contract of vector stores. Knows nothing of tools, documents, models or search.

A vector has a key within its collection. All vectors of a collection come from one model and are
compared by one metric, so other models and metrics need collections of their own. A vector may
belong to a group, such as the document of a passage.
"""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

KEY_BYTES = 16
"""Length of a key in bytes."""

Metric: TypeAlias = Literal["cosine", "euclidean", "dot"]
"""How two vectors are compared."""

METRICS: tuple[Metric, ...] = ("cosine", "euclidean", "dot")
"""All metrics."""

Precision: TypeAlias = Literal["half", "single"]
"""`half`: float16, for vectors of length 1 at most. `single`: float32."""

Rows: TypeAlias = NDArray[np.floating[Any]]
"""Vectors, one in each row."""

ReceiveRows: TypeAlias = Callable[[NDArray[np.int64], Rows], None]
"""Receives loaded vectors: positions in the requested keys, and their rows. Called in another
thread, with some thousands at a time."""


@dataclass(frozen=True, kw_only=True)
class VectorCollection:
    """Vectors that are searched together."""

    collection_id: str
    """1 to 64 letters and digits, unique everywhere."""

    dim: int
    """Dimension of its vectors; 1 to 65,535."""

    metric: Metric = "cosine"
    """How they are compared."""

    precision: Precision = "single"
    """Precision of the stored vectors."""

    version: int | None = None
    """Grows with each change by other processes, so that a store may cache the vectors until it
    changes; None: unknown."""


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
    """Stores vectors and finds the nearest ones.

    Duties, checked by `toolgate.testing.contracts.vectors` on every implementation:

    * `put` replaces the previous vector of a key; the next `nearest` finds what was stored.
    * `half` vectors are returned exactly as they were stored. `single` vectors compared by
        `cosine` may be returned with length 1.
    * Collections are isolated from each other. A collection that was never filled is empty, not
        an error.
    * Vectors of another dimension than their collection's, or with non-finite values, are a
        `ValueError`.
    * A damaged row counts as missing, and storing it again repairs it.
    * Filters apply before ranking: `keys` and `groups` never lose a match that they allow.
    * Scores are exact, and matches with equal scores are sorted by key. A vector of zeros has
        the cosine 0 with all others.
    * Tasks, threads and processes may use it concurrently; methods never block the event loop.
    * A failure raises `StoreError`; the next call tries again.
    """

    @property
    def notice(self) -> str:
        """A message for the operator, such as about a missing extension; may be empty."""
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
            collection: Their collection.
            keys: One for each row, all different, `KEY_BYTES` long.
            rows: Shape (len(keys), dim), finite.
            groups: One for each row, letters and digits; None: no groups.

        Returns:
            The number of written vectors; a store may skip unchanged ones.
        """
        ...

    async def load(
        self, collection: VectorCollection, keys: Sequence[bytes], receive: ReceiveRows
    ) -> None:
        """Pass the existing vectors of these keys to `receive`."""
        ...

    async def contains(
        self, collection: VectorCollection, keys: Sequence[bytes]
    ) -> NDArray[np.bool_]:
        """Return which of these keys have a vector, without reading the vectors."""
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
        """Return the nearest vectors, best first.

        Args:
            collection: The collection to search.
            query: Shape (dim,).
            limit: Largest number of matches, 1 to 10,000.
            keys: Only among these; None: among all. Without a filter, a store may miss some of
                the very nearest.
            groups: Only among the vectors of these groups; None: among all.
        """
        ...

    def keys(self, collection: VectorCollection) -> AsyncIterator[list[bytes]]:
        """Yield all keys, some thousands at a time."""
        ...

    async def remove(
        self,
        collection: VectorCollection,
        *,
        keys: Collection[bytes] = (),
        groups: Collection[str] = (),
    ) -> None:
        """Delete the vectors of these keys and groups."""
        ...

    async def drop(self, collection: VectorCollection) -> None:
        """Delete a collection."""
        ...

    async def count(self, collection: VectorCollection) -> int:
        """Return the number of vectors in a collection."""
        ...

    async def optimize(self, collection: VectorCollection) -> None:
        """Prepare for `nearest` after many inserts, such as by building an index; may be slow."""
        ...

    async def aclose(self) -> None:
        """Close open resources; the store may be used again afterwards."""
        ...
