"""Passage vectors in the SQLite file of the store; exact, nothing to install."""

from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from toolgate.store import SqlAccess
from toolgate.store.passages._sql import SqlPassages
from toolgate.store.passages.base import PassageIndex, PassageKey, VectorCollection

__all__ = ["Options", "SqlitePassages", "build"]

_MIB = 2**20


@dataclass(frozen=True, kw_only=True)
class Options:
    """How much is kept in memory."""

    cache_mb: Annotated[int, Field(ge=0, le=65_536)] = 64
    """Megabytes of vectors that stay in memory between questions; 0 to 65,536. What does not fit is
    read for each question: 100,000 passages take some tenths of a second then."""


def build(options: Options, *, store: SqlAccess) -> "SqlitePassages":
    """Vectors in the store's file."""
    return SqlitePassages(store, options)


@dataclass(frozen=True)
class _CachedRows:
    version: int
    numbers: NDArray[np.int64]
    vectors: NDArray[np.float32]


class SqlitePassages(SqlPassages):
    """Every row is looked at."""

    def __init__(self, store: SqlAccess, options: Options) -> None:
        super().__init__(store)
        self._most_bytes = options.cache_mb * _MIB
        self._kept: OrderedDict[str, _CachedRows] = OrderedDict()
        self._looking = Lock()  # several threads read

    def write(
        self,
        driver: Any,
        shelf: VectorCollection,
        passages: Sequence[PassageKey],
        rows: NDArray[np.float32],
    ) -> None:
        """Write rows; what is in memory of the shelf is old then."""
        super().write(driver, shelf, passages, rows)
        self._forget(shelf)

    async def remove(self, shelf: VectorCollection, documents: Collection[str]) -> None:
        """Forget the passages of documents."""
        await super().remove(shelf, documents)
        self._forget(shelf)

    async def drop(self, shelf: VectorCollection) -> None:
        """Forget a shelf."""
        await super().drop(shelf)
        self._forget(shelf)

    def scan(
        self, driver: Any, shelf: VectorCollection, documents: Collection[str] | None
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """From memory where the collection is what it was, else from the file."""
        if documents is not None:
            yield from super().scan(driver, shelf, documents)
            return
        # Every change of a collection, also by another process, makes its version grow.
        rows = self.rows(
            driver,
            "SELECT version FROM document_collections WHERE collection_id = ?",
            (shelf.collection_id,),
        )
        version = int(rows[0][0]) if rows else -1
        with self._looking:
            cached = self._kept.get(shelf.shelf_id)
            if cached is not None and cached.version == version:
                self._kept.move_to_end(shelf.shelf_id)
        if cached is not None and cached.version == version:
            yield cached.numbers, cached.vectors
            return
        pieces: list[tuple[NDArray[np.int64], NDArray[np.float32]]] = []
        size = 0
        for numbers, vectors in super().scan(driver, shelf, None):
            size += vectors.nbytes
            if size <= self._most_bytes:
                pieces.append((numbers, vectors))
            else:
                pieces.clear()
            yield numbers, vectors
        if pieces and size <= self._most_bytes and version >= 0:
            self._keep(shelf, version, pieces)

    def _keep(
        self,
        shelf: VectorCollection,
        version: int,
        pieces: Sequence[tuple[NDArray[np.int64], NDArray[np.float32]]],
    ) -> None:
        cached = _CachedRows(
            version,
            np.concatenate([numbers for numbers, _ in pieces]),
            np.concatenate([vectors for _, vectors in pieces]),
        )
        with self._looking:
            self._kept[shelf.shelf_id] = cached
            while sum(entry.vectors.nbytes for entry in self._kept.values()) > self._most_bytes:
                self._kept.popitem(last=False)

    def _forget(self, shelf: VectorCollection) -> None:
        with self._looking:
            self._kept.pop(shelf.shelf_id, None)


_: type[PassageIndex] = SqlitePassages
