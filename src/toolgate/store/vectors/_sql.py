"""Base of the SQL vector stores: vectors as bytes in the table `vectors`, in plain SQL.

Rows are read and written by the ten thousand, so SQLAlchemy's preparation of each is skipped.
The view `mcp_tool_embeddings`, which other programs may expect, is created here and not by a
migration, since its contents depend on the database: a migration that changes these tables drops
it first, and the next start creates it again.
"""

from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolgate.store import SqlAccess
from toolgate.store.vectors._rows import TopMatches, checked, unpacked
from toolgate.store.vectors.base import (
    KEY_BYTES,
    ReceiveRows,
    Rows,
    VectorCollection,
    VectorMatch,
)

CHUNK = 4_096
"""Rows that are read at a time (chosen)."""

_PORTION = 10_000
"""Rows that one transaction deletes, and keys in a page (chosen)."""

VIEW = "mcp_tool_embeddings"

VIEW_SQL = """
SELECT t.project_id, t.server, t.tool AS tool_name, t.description AS tool_description,
  t.enriched AS enriched_description, {embedding} AS embedding,
  t.definition_hash AS input_schema_hash, m.model AS embedding_model, m.dim,
  t.created_at, t.updated_at
FROM tool_texts t
JOIN vectors v ON v.key = t.text_hash
JOIN vector_models m ON m.collection_id = v.collection_id{join}
"""


class SqlVectors:
    """Base class; subclasses add their ways to read and write many rows."""

    notice = ""
    mark = "?"
    """The driver's placeholder for a value."""
    values_at_once = 500
    """Values in a statement; SQLite allows 32,766 (https://www.sqlite.org/limits.html)."""

    def __init__(self, store: SqlAccess) -> None:
        self.store = store

    async def put(
        self,
        collection: VectorCollection,
        keys: Sequence[bytes],
        rows: Rows,
        *,
        groups: Sequence[str] | None = None,
    ) -> int:
        """Store vectors."""
        checked(collection, rows, len(keys))
        if any(len(key) != KEY_BYTES for key in keys):
            raise ValueError(f"Keys that are not {KEY_BYTES} bytes long.")
        if not keys:
            return 0
        await self.prepare()
        group_of = groups or [None] * len(keys)
        return await self.store.writing(
            lambda driver: self.upsert(driver, collection, keys, group_of, rows)
        )

    async def load(
        self, collection: VectorCollection, keys: Sequence[bytes], receive: ReceiveRows
    ) -> None:
        """Pass the existing vectors of these keys to `receive`."""

        def work(driver: Any) -> None:
            for positions, rows in self._rows_of(driver, collection, keys):
                receive(positions, rows)

        if keys:
            await self.store.reading(work)

    async def contains(
        self, collection: VectorCollection, keys: Sequence[bytes]
    ) -> NDArray[np.bool_]:
        """Return which of these keys have a vector, without reading the vectors."""

        def work(driver: Any) -> NDArray[np.bool_]:
            statement = "SELECT key FROM vectors WHERE collection_id = ?"
            if self._is_large_part(driver, collection, keys):
                stored = set(self.rows(driver, statement, (collection.collection_id,)))
                return np.array([(key,) in stored for key in keys], np.bool_)
            existing = np.zeros(len(keys), np.bool_)
            position_of = {key: position for position, key in enumerate(keys)}
            for part in self._parts(keys):
                condition, values = self.among("key", part)
                for (key,) in self.rows(
                    driver,
                    f"{statement} AND {condition}",
                    (collection.collection_id, *values),
                ):
                    existing[position_of[key]] = True
            return existing

        return await self.store.reading(work)

    async def nearest(
        self,
        collection: VectorCollection,
        query: NDArray[np.float32],
        *,
        limit: int,
        keys: Sequence[bytes] | None = None,
        groups: Collection[str] | None = None,
    ) -> list[VectorMatch]:
        """Return the nearest vectors, best first."""
        best = TopMatches(collection, query, limit)

        def work(driver: Any) -> list[VectorMatch]:
            if keys is None:
                for found_keys, rows in self.compared(driver, collection, groups):
                    best.consider(found_keys, rows)
            else:
                for positions, rows in self._rows_of(driver, collection, keys):
                    found: list[int] = positions.tolist()
                    best.consider([keys[at] for at in found], rows)
            return best.matches()

        return await self.store.reading(work)

    async def keys(self, collection: VectorCollection) -> AsyncIterator[list[bytes]]:
        """Yield all keys, some thousands at a time."""
        last = b""
        while True:
            page = await self.store.reading(
                lambda driver: self.rows(
                    driver,
                    "SELECT key FROM vectors WHERE collection_id = ? AND key > ?"
                    " ORDER BY key LIMIT ?",
                    (collection.collection_id, last, _PORTION),  # noqa: B023 - awaited here
                )
            )
            if not page:
                return
            last = page[-1][0]
            yield [row[0] for row in page]

    async def remove(
        self,
        collection: VectorCollection,
        *,
        keys: Collection[bytes] = (),
        groups: Collection[str] = (),
    ) -> None:
        """Delete the vectors of these keys and groups."""

        def work(driver: Any) -> None:
            for column, doomed in (("key", list(keys)), ("group_id", list(groups))):
                for part in self._parts(doomed):
                    condition, values = self.among(column, part)
                    self.run(
                        driver,
                        f"DELETE FROM vectors WHERE collection_id = ? AND {condition}",  # noqa: S608
                        (collection.collection_id, *values),
                    )

        await self.store.writing(work)

    async def drop(self, collection: VectorCollection) -> None:
        """Delete a collection."""
        statement = (
            "DELETE FROM vectors WHERE collection_id = ? AND key IN"
            " (SELECT key FROM vectors WHERE collection_id = ? LIMIT ?)"
        )
        values = (collection.collection_id, collection.collection_id, _PORTION)
        while await self.store.writing(lambda driver: self.run(driver, statement, values)):
            pass

    async def count(self, collection: VectorCollection) -> int:
        """Return the number of vectors in a collection."""
        return await self.store.reading(lambda driver: self._count(driver, collection))

    async def optimize(self, collection: VectorCollection) -> None:
        """Prepare for `nearest` after many inserts, such as by building an index; may be slow."""
        del collection
        await self.prepare()

    async def aclose(self) -> None:
        """Close open resources; the store may be used again afterwards."""

    # For subclasses

    async def prepare(self) -> None:
        """Create what migrations do not create, once."""
        raise NotImplementedError

    def among(self, column: str, values: Sequence[Any]) -> tuple[str, Sequence[Any]]:
        """Return a condition that a column has one of these values, and its parameters."""
        return f"{column} IN ({', '.join('?' * len(values))})", values

    def scan(
        self, driver: Any, collection: VectorCollection
    ) -> Iterator[tuple[Sequence[bytes], Sequence[bytes]]]:
        """Yield keys and stored vectors of a whole collection in batches."""
        raise NotImplementedError

    def compared(
        self, driver: Any, collection: VectorCollection, groups: Collection[str] | None
    ) -> Iterator[tuple[Sequence[bytes], Rows]]:
        """Yield keys and undamaged vectors of a collection, or of some groups, in batches."""
        if groups is None:
            pieces = self.scan(driver, collection)
        else:
            pieces = self._look_up(driver, collection, "group_id", list(groups))
        for keys, blobs in pieces:
            positions, rows = unpacked(collection, blobs)
            is_whole = len(positions) == len(keys)
            yield keys if is_whole else [keys[at] for at in positions.tolist()], rows

    def upsert(
        self,
        driver: Any,
        collection: VectorCollection,
        keys: Sequence[bytes],
        groups: Sequence[str | None],
        rows: Rows,
    ) -> int:
        """Write new and changed vectors. Returns how many."""
        raise NotImplementedError

    def run(self, driver: Any, statement: str, values: Sequence[object] = ()) -> int:
        """Run a statement. Returns the number of affected rows."""
        return driver.execute(statement.replace("?", self.mark), tuple(values)).rowcount

    def rows(
        self, driver: Any, statement: str, values: Sequence[object] = ()
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return driver.execute(statement.replace("?", self.mark), tuple(values)).fetchall()

    # Helpers

    def _parts(self, values: Sequence[Any]) -> Iterator[Sequence[Any]]:
        for at in range(0, len(values), self.values_at_once):
            yield values[at : at + self.values_at_once]

    def _count(self, driver: Any, collection: VectorCollection) -> int:
        statement = "SELECT count(*) FROM vectors WHERE collection_id = ?"
        return int(self.rows(driver, statement, (collection.collection_id,))[0][0])

    def _is_large_part(
        self, driver: Any, collection: VectorCollection, keys: Sequence[bytes]
    ) -> bool:
        """Whether reading a whole collection is faster than looking up these keys."""
        return len(keys) > CHUNK and 4 * len(keys) > self._count(driver, collection)

    def _look_up(
        self, driver: Any, collection: VectorCollection, column: str, wanted: Sequence[Any]
    ) -> Iterator[tuple[Sequence[bytes], Sequence[bytes]]]:
        """Yield keys and stored vectors of the rows that have one of these values."""
        for part in self._parts(wanted):
            condition, values = self.among(column, part)
            rows = self.rows(
                driver,
                f"SELECT key, vector FROM vectors WHERE collection_id = ? AND {condition}",  # noqa: S608
                (collection.collection_id, *values),
            )
            yield [row[0] for row in rows], [row[1] for row in rows]

    def _rows_of(
        self, driver: Any, collection: VectorCollection, keys: Sequence[bytes]
    ) -> Iterator[tuple[NDArray[np.int64], Rows]]:
        """Yield the undamaged vectors of these keys, with the positions of their keys."""
        if self._is_large_part(driver, collection, keys):
            pieces = self.scan(driver, collection)
        else:
            pieces = self._look_up(driver, collection, "key", keys)
        position_of = {key: position for position, key in enumerate(keys)}
        for texts, read in pieces:
            positions, blobs = [position_of.get(key, -1) for key in texts], read
            if -1 in positions:
                blobs = [
                    blob for blob, position in zip(read, positions, strict=True) if position >= 0
                ]
                positions = [position for position in positions if position >= 0]
            sound, rows = unpacked(collection, blobs)
            if len(sound):
                yield np.array(positions, np.int64)[sound], rows
