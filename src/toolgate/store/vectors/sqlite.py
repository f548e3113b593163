"""Vectors in the SQLite file of the store, compared row by row."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from toolgate.store import SqlAccess
from toolgate.store.vectors._float16_rows import packed
from toolgate.store.vectors._sql import CHUNK, VIEW, VIEW_SQL, SqlVectors
from toolgate.store.vectors.base import HalfRows, VectorStore

__all__ = ["Options", "SqliteVectors", "build"]

_LOOKED_UP = 500
"""Hashes in one query; SQLite allows 32,766 values."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Nothing to choose."""


def build(options: Options, *, store: SqlAccess) -> "SqliteVectors":  # noqa: ARG001
    """Vectors in the store's file."""
    return SqliteVectors(store)


class SqliteVectors(SqlVectors):
    """Exact, in one file, with nothing to install."""

    def __init__(self, store: SqlAccess) -> None:
        super().__init__(store)
        self._is_prepared = False

    async def prepare(self) -> None:
        """Make the view."""
        if self._is_prepared:
            return
        view = VIEW_SQL.format(embedding="v.vector", join="")
        await self._store.writing(
            lambda driver: self.run(driver, f"CREATE VIEW IF NOT EXISTS {VIEW} AS {view}")
        )
        self._is_prepared = True

    def scan(
        self,
        driver: Any,
        model_id: int,
        dim: int,  # noqa: ARG002
    ) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Read the table in the order of the file, not of its index (`+`)."""
        cursor = driver.execute(
            "SELECT text_hash, vector FROM vectors WHERE +model_id = ?", (model_id,)
        )
        while rows := cursor.fetchmany(CHUNK):
            hashes, blobs = zip(*rows, strict=True)
            yield list(hashes), list(blobs)

    def look_up(
        self, driver: Any, model_id: int, hashes: Sequence[bytes]
    ) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Ask for some rows by their hashes."""
        for at in range(0, len(hashes), _LOOKED_UP):
            part = hashes[at : at + _LOOKED_UP]
            places = ", ".join("?" * len(part))
            statement = (
                "SELECT text_hash, vector FROM vectors"  # noqa: S608 - question marks only
                f" WHERE model_id = ? AND text_hash IN ({places})"
            )
            rows = driver.execute(statement, (model_id, *part)).fetchall()
            yield [row[0] for row in rows], [row[1] for row in rows]

    def hashes_of(
        self, driver: Any, model_id: int, hashes: Sequence[bytes]
    ) -> Iterator[list[bytes]]:
        """Read them from the index."""
        del hashes
        cursor = driver.execute("SELECT text_hash FROM vectors WHERE model_id = ?", (model_id,))
        while rows := cursor.fetchmany(CHUNK):
            yield [row[0] for row in rows]

    def upsert(
        self, driver: Any, model_id: int, hashes: Sequence[bytes], rows: HalfRows, now: str
    ) -> int:
        """Write vectors that are new or different."""
        before = driver.total_changes
        driver.executemany(
            "INSERT INTO vectors (model_id, text_hash, vector, stored_at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (model_id, text_hash) DO UPDATE"
            " SET vector = excluded.vector, stored_at = excluded.stored_at"
            " WHERE vectors.vector IS NOT excluded.vector",
            [(model_id, text, blob, now) for text, blob in zip(hashes, packed(rows), strict=True)],
        )
        return driver.total_changes - before


_: type[VectorStore] = SqliteVectors
