"""What the SQL passage stores share: vectors as bytes in `passage_vectors`."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolgate.store import SqlAccess
from toolgate.store.passages._exact_search import TopPassages, measured, sized
from toolgate.store.passages.base import PassageKey, PassageMatch, VectorCollection, similarity

__all__ = ["SqlPassages"]

CHUNK = 4_096
"""Rows that are looked at together."""

_AT_ONCE = 500
"""Values in one statement; SQLite allows 32,766."""


class SqlPassages:
    """What a database module completes."""

    notice = ""
    mark = "?"
    """How the driver writes a value's place."""

    def __init__(self, store: SqlAccess) -> None:
        self.store = store

    async def put(
        self, shelf: VectorCollection, passages: Sequence[PassageKey], vectors: NDArray[np.float32]
    ) -> None:
        """Keep vectors."""
        rows = sized(shelf, vectors, len(passages))
        if passages:
            await self.prepare()
            await self.store.writing(lambda driver: self.write(driver, shelf, passages, rows))

    async def remove(self, shelf: VectorCollection, documents: Collection[str]) -> None:
        """Forget the passages of documents."""

        def work(driver: Any) -> None:
            for part in parts(list(documents)):
                self.run(
                    driver,
                    "DELETE FROM passage_vectors WHERE shelf_id = ?"  # noqa: S608
                    f" AND document_id IN ({places(part)})",
                    (shelf.shelf_id, *part),
                )

        await self.store.writing(work)

    async def drop(self, shelf: VectorCollection) -> None:
        """Forget a shelf."""
        statement = "DELETE FROM passage_vectors WHERE shelf_id = ?"
        await self.store.writing(lambda driver: self.run(driver, statement, (shelf.shelf_id,)))

    async def nearest(
        self,
        shelf: VectorCollection,
        question: NDArray[np.float32],
        *,
        limit: int,
        documents: Collection[str] | None = None,
    ) -> list[PassageMatch]:
        """The nearest passages, each row looked at."""
        [query] = sized(shelf, question[np.newaxis], 1)

        def work(driver: Any) -> list[PassageMatch]:
            best = TopPassages(limit)
            for numbers, rows in self.scan(driver, shelf, documents):
                best.look_at(numbers, similarity(shelf.metric, measured(shelf.metric, rows, query)))
            return best.found()

        return await self.store.reading(work)

    async def vectors(
        self, shelf: VectorCollection, passages: Sequence[int]
    ) -> dict[int, NDArray[np.float32]]:
        """Vectors of passages by number."""

        def work(driver: Any) -> dict[int, NDArray[np.float32]]:
            vectors: dict[int, NDArray[np.float32]] = {}
            for part in parts(list(passages)):
                statement = (
                    "SELECT passage_id, vector FROM passage_vectors"  # noqa: S608
                    f" WHERE shelf_id = ? AND passage_id IN ({places(part)})"
                )
                for number, blob in self.rows(driver, statement, (shelf.shelf_id, *part)):
                    if len(blob) == 4 * shelf.dim:
                        vectors[number] = np.frombuffer(blob, "<f4")
            return vectors

        return await self.store.reading(work)

    async def count(self, shelf: VectorCollection) -> int:
        """Passages of a shelf."""
        statement = "SELECT count(*) FROM passage_vectors WHERE shelf_id = ?"
        rows = await self.store.reading(
            lambda driver: self.rows(driver, statement, (shelf.shelf_id,))
        )
        return int(rows[0][0])

    async def settle(self, shelf: VectorCollection) -> None:
        """Nothing to prepare: every row is looked at."""
        del shelf

    async def aclose(self) -> None:
        """The store is its owner's."""

    # For the databases

    async def prepare(self) -> None:
        """Make what the migrations leave to us, once."""

    def write(
        self,
        driver: Any,
        shelf: VectorCollection,
        passages: Sequence[PassageKey],
        rows: NDArray[np.float32],
    ) -> None:
        """Write rows, over what is there."""
        cursor = driver.cursor()
        cursor.executemany(
            "INSERT INTO passage_vectors"
            " (shelf_id, passage_id, collection_id, document_id, vector)"
            " VALUES (?, ?, ?, ?, ?) ON CONFLICT (shelf_id, passage_id) DO UPDATE SET"
            " document_id = excluded.document_id, vector = excluded.vector".replace("?", self.mark),
            [
                (shelf.shelf_id, passage.passage_id, shelf.collection_id, passage.document_id, blob)
                for passage, blob in zip(passages, packed(rows), strict=True)
            ],
        )
        cursor.close()

    def scan(
        self, driver: Any, shelf: VectorCollection, documents: Collection[str] | None
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """Numbers and vectors, piece by piece; rows that are damaged are left out."""
        portions: Sequence[Sequence[str]] = (
            [()] if documents is None else list(parts(list(documents)))
        )
        for part in portions:
            condition = f" AND document_id IN ({places(part)})" if documents is not None else ""
            cursor = driver.cursor()
            cursor.execute(
                "SELECT passage_id, vector FROM passage_vectors"  # noqa: S608
                f" WHERE shelf_id = ?{condition}".replace("?", self.mark),
                (shelf.shelf_id, *part),
            )
            while rows := cursor.fetchmany(CHUNK):
                yield unpacked(rows, shelf.dim)
            cursor.close()

    def run(self, driver: Any, statement: str, values: Sequence[object]) -> int:
        """Run a statement; gives how many rows it met."""
        return driver.execute(statement.replace("?", self.mark), tuple(values)).rowcount

    def rows(self, driver: Any, statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        """Rows of a query."""
        return driver.execute(statement.replace("?", self.mark), tuple(values)).fetchall()


def packed(rows: NDArray[np.float32]) -> list[bytes]:
    """Each row as bytes, little-endian."""
    raw, size = np.ascontiguousarray(rows, "<f4").tobytes(), 4 * rows.shape[1]
    return [raw[at : at + size] for at in range(0, len(raw), size)]


def unpacked(
    rows: Sequence[tuple[Any, ...]], dim: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Numbers and vectors of rows whose blobs have the right length and are finite."""
    sound = [(number, blob) for number, blob in rows if len(blob) == 4 * dim]
    numbers = np.array([number for number, _ in sound], np.int64)
    vectors = np.frombuffer(b"".join(blob for _, blob in sound), "<f4").reshape(-1, dim)
    finite = np.isfinite(vectors).all(axis=1)
    return (numbers, vectors) if finite.all() else (numbers[finite], vectors[finite])


def places(values: Sequence[object]) -> str:
    """Question marks for values."""
    return ", ".join("?" * len(values))


def parts(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Values in portions that a statement takes."""
    for at in range(0, len(values), _AT_ONCE):
        yield values[at : at + _AT_ONCE]
