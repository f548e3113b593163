"""Vectors in the SQLite file of the store; exact, nothing to install."""

from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from toolgate.store import SqlAccess
from toolgate.store.vectors._rows import packed
from toolgate.store.vectors._sql import CHUNK, VIEW, VIEW_SQL, SqlVectors
from toolgate.store.vectors.base import KEY_BYTES, Rows, VectorCollection, VectorStore

_MIB = 2**20
"""Bytes per MiB, as IEC 80000-13 defines it."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Size of the cache."""

    cache_mb: Annotated[int, Field(ge=0, le=65_536)] = 64
    """Megabytes of document vectors to cache between questions; 0 to 65,536. Other vectors are
    read for each question: 100,000 passages then take some tenths of a second."""


def build(options: Options, *, store: SqlAccess) -> "SqliteVectors":
    """Create a store for vectors in the store's file."""
    return SqliteVectors(store, options)


@dataclass(frozen=True)
class _CachedRows:
    version: int
    keys: Any
    rows: Rows


class SqliteVectors(SqlVectors):
    """A vector store that compares every row."""

    def __init__(self, store: SqlAccess, options: Options) -> None:
        super().__init__(store)
        self._is_prepared = False
        self._max_bytes = options.cache_mb * _MIB
        self._cache: OrderedDict[str, _CachedRows] = OrderedDict()
        self._cache_lock = Lock()  # several threads read

    async def prepare(self) -> None:
        """Create the view."""
        if self._is_prepared:
            return
        view = VIEW_SQL.format(embedding="v.vector", join="")
        await self.store.writing(
            lambda driver: self.run(driver, f"CREATE VIEW IF NOT EXISTS {VIEW} AS {view}")
        )
        self._is_prepared = True

    async def remove(
        self,
        collection: VectorCollection,
        *,
        keys: Collection[bytes] = (),
        groups: Collection[str] = (),
    ) -> None:
        """Delete the vectors of these keys and groups."""
        await super().remove(collection, keys=keys, groups=groups)
        self._forget(collection)

    async def drop(self, collection: VectorCollection) -> None:
        """Delete a collection."""
        await super().drop(collection)
        self._forget(collection)

    def scan(
        self, driver: Any, collection: VectorCollection
    ) -> Iterator[tuple[Sequence[bytes], Sequence[bytes]]]:
        """Read the table in the order of the file, not of its index (`+`)."""
        cursor = driver.execute(
            "SELECT key, vector FROM vectors WHERE +collection_id = ?",
            (collection.collection_id,),
        )
        while rows := cursor.fetchmany(CHUNK):
            keys, blobs = zip(*rows, strict=True)
            yield keys, blobs

    def compared(
        self, driver: Any, collection: VectorCollection, groups: Collection[str] | None
    ) -> Iterator[tuple[Sequence[bytes], Rows]]:
        """Yield vectors from the cache if the collection is unchanged, else from the file."""
        version = collection.version
        if groups is not None or version is None:
            yield from super().compared(driver, collection, groups)
            return
        with self._cache_lock:
            cached = self._cache.get(collection.collection_id)
            if cached is not None and cached.version == version:
                self._cache.move_to_end(collection.collection_id)
        if cached is not None and cached.version == version:
            yield cached.keys, cached.rows
            return
        pieces: list[tuple[Sequence[bytes], Rows]] = []
        size = 0
        for keys, rows in super().compared(driver, collection, None):
            size += rows.nbytes
            if size <= self._max_bytes:
                pieces.append((keys, rows))
            else:
                pieces.clear()
            yield keys, rows
        if pieces and size <= self._max_bytes:
            self._remember(collection, version, pieces)

    def _remember(
        self,
        collection: VectorCollection,
        version: int,
        pieces: Sequence[tuple[Sequence[bytes], Rows]],
    ) -> None:
        cached = _CachedRows(
            version,
            np.concatenate([np.array(keys, f"V{KEY_BYTES}") for keys, _ in pieces]),
            np.concatenate([rows for _, rows in pieces]),
        )
        with self._cache_lock:
            self._cache[collection.collection_id] = cached
            while sum(entry.rows.nbytes for entry in self._cache.values()) > self._max_bytes:
                self._cache.popitem(last=False)

    def _forget(self, collection: VectorCollection) -> None:
        with self._cache_lock:
            self._cache.pop(collection.collection_id, None)

    def upsert(
        self,
        driver: Any,
        collection: VectorCollection,
        keys: Sequence[bytes],
        groups: Sequence[str | None],
        rows: Rows,
    ) -> int:
        """Write new and changed vectors, and drop the collection from the cache."""
        before = driver.total_changes
        name = collection.collection_id
        driver.executemany(
            "INSERT INTO vectors (collection_id, key, group_id, vector) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (collection_id, key) DO UPDATE"
            " SET group_id = excluded.group_id, vector = excluded.vector"
            " WHERE vectors.vector IS NOT excluded.vector"
            " OR vectors.group_id IS NOT excluded.group_id",
            [
                (name, key, group, blob)
                for key, group, blob in zip(keys, groups, packed(collection, rows), strict=True)
            ],
        )
        self._forget(collection)
        return driver.total_changes - before


_: type[VectorStore] = SqliteVectors
