"""The contract of vector stores for passages. Knows no texts and no documents.

A passage is a piece of a document, known by a number. The passages of a collection have vectors of
one model, which are compared by one metric: that is a *shelf*. When a collection gets another model
or metric, a second shelf is filled beside the first and takes its place as a whole, so vectors of
two models never meet.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "METRICS",
    "Metric",
    "PassageIndex",
    "PassageKey",
    "PassageMatch",
    "VectorCollection",
    "similarity",
]

Metric: TypeAlias = Literal["cosine", "euclidean", "dot"]
"""How two vectors are compared."""

METRICS: tuple[Metric, ...] = ("cosine", "euclidean", "dot")
"""All of them."""


@dataclass(frozen=True, kw_only=True)
class VectorCollection:
    """The vectors of one collection under one model."""

    collection_id: str
    """Whose they are; letters and digits."""

    shelf_id: str
    """Which of the collection's; 1 to 64 letters and digits, unique everywhere."""

    dim: int
    """Numbers of a vector; 1 to 65,535."""

    metric: Metric
    """How they are compared."""


@dataclass(frozen=True, kw_only=True)
class PassageKey:
    """A passage that gets a vector."""

    passage_id: int
    """Its number, 0 to 2**62, unique everywhere."""

    document_id: str
    """The document that it is of; letters and digits."""


@dataclass(frozen=True, kw_only=True)
class PassageMatch:
    """A passage that is near to a question."""

    passage_id: int
    """Which one."""

    similarity: float
    """Higher is nearer; see `similarity` for the scale of each metric."""


@runtime_checkable
class PassageIndex(Protocol):
    """Keeps vectors of passages and finds near ones.

    Duties, checked by `toolgate.testing.contracts.passages` on every implementation:

    * `put` replaces what a number had before; what is put is found by the next `nearest`.
    * Shelves never see each other's vectors. A shelf that nobody has filled is empty, no error.
    * A vector or question of another dimension than its shelf's is a `ValueError`.
    * Filters come before ranking: `documents` never costs a hit that is allowed.
    * Equal similarities are in order of the numbers.
    * Several tasks may use it at once; methods never block the event loop.
    * A place that fails raises `StoreError` and is asked again next time.
    """

    @property
    def notice(self) -> str:
        """What a person should know of this place, such as a missing extension; may be empty."""
        ...

    async def put(
        self, shelf: VectorCollection, passages: Sequence[PassageKey], vectors: NDArray[np.float32]
    ) -> None:
        """Keep vectors, one row for each passage; all different, finite."""
        ...

    async def remove(self, shelf: VectorCollection, documents: Collection[str]) -> None:
        """Forget the passages of documents."""
        ...

    async def drop(self, shelf: VectorCollection) -> None:
        """Forget a shelf."""
        ...

    async def nearest(
        self,
        shelf: VectorCollection,
        question: NDArray[np.float32],
        *,
        limit: int,
        documents: Collection[str] | None = None,
    ) -> list[PassageMatch]:
        """The nearest passages, best first.

        Args:
            shelf: Where to look.
            question: The vector of a question.
            limit: How many, 1 to 1,000.
            documents: Only those of these documents; None: of all.
        """
        ...

    async def vectors(
        self, shelf: VectorCollection, passages: Sequence[int]
    ) -> dict[int, NDArray[np.float32]]:
        """Vectors of passages by number, as far as they are there."""
        ...

    async def count(self, shelf: VectorCollection) -> int:
        """Passages of a shelf."""
        ...

    async def settle(self, shelf: VectorCollection) -> None:
        """Prepare for `nearest` after many were put, such as building an index; may be slow."""
        ...

    async def aclose(self) -> None:
        """Let go of what is open; it may be asked again afterwards."""
        ...


def similarity(metric: Metric, measured: NDArray[np.float32]) -> NDArray[np.float32]:
    """Similarities of what a metric measures; higher is nearer.

    Args:
        metric: Which.
        measured: For `cosine` the cosine in [-1, 1], giving [0, 1], half of which is a right angle;
            for `euclidean` the distance, giving (0, 1]; for `dot` the product, which stays as it
            is, has no bounds and is never compared with others.
    """
    match metric:
        case "cosine":
            return ((1 + measured) / 2).astype(np.float32)
        case "euclidean":
            return (1 / (1 + measured)).astype(np.float32)
        case "dot":
            return measured
