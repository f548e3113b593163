"""Passage vectors in the PostgreSQL database of the store; searched there with pgvector.

Every vector is kept as bytes in `passage_vectors`, which needs no extension and is what backups
hold. Where pgvector (0.7 or later) is or can be installed, `passage_nearest` holds them once more
as `halfvec`, with an HNSW index for each large shelf. What the index finds is compared again with
the whole numbers, so similarities are those of every other place.
"""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from pydantic import Field

from toolgate.store import SqlAccess
from toolgate.store.passages._exact_search import in_order, measured, sized, unit
from toolgate.store.passages._sql import SqlPassages, unpacked
from toolgate.store.passages.base import (
    Metric,
    PassageIndex,
    PassageKey,
    PassageMatch,
    VectorCollection,
    similarity,
)

__all__ = ["Options", "PgPassages", "build"]

log = logging.getLogger(__name__)

_LOCK = 0x746F6F6C70617373
"""Key of the advisory lock under which the table is made: `toolpass` in ASCII."""

_MOST_INDEXED = 4_000
"""Numbers of a vector that an HNSW index of pgvector takes as `halfvec`.
https://github.com/pgvector/pgvector#hnsw"""

_OPERATORS: dict[Metric, tuple[str, str]] = {
    "cosine": ("<#>", "halfvec_ip_ops"),  # of rows of length 1, so that zeros are no trouble
    "euclidean": ("<->", "halfvec_l2_ops"),
    "dot": ("<#>", "halfvec_ip_ops"),
}

_MORE = 4
"""Times as many as asked for that the index finds, for being compared exactly."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How the index of a shelf is built and searched."""

    m: Annotated[int, Field(ge=2, le=100)] = 16
    """Connections of a vector in each layer of the HNSW index; 2 to 100."""

    ef_construction: Annotated[int, Field(ge=4, le=1000)] = 64
    """Vectors that are looked at when one is put into the index; 4 to 1,000."""

    ef_search: Annotated[int, Field(ge=1, le=1000)] = 100
    """Vectors that are looked at when the index is searched, at least; 1 to 1,000."""

    hnsw_from: Annotated[int, Field(ge=1, le=2**31)] = 5_000
    """Passages from which a shelf gets an index; below, every row is looked at; 1 to
    2,147,483,648."""

    extension: bool = True
    """Whether to use the extension, and to install it where the database allows that."""


def build(options: Options, *, store: SqlAccess) -> "PgPassages":
    """Vectors in the store's database."""
    return PgPassages(store, options)


class PgPassages(SqlPassages):
    """Shared by all gateways of one database."""

    mark = "%s"

    def __init__(self, store: SqlAccess, options: Options) -> None:
        super().__init__(store)
        self._options = options
        self._schema = ""
        self._is_prepared = False
        self._seen: set[str] = set()

    async def prepare(self) -> None:
        """Install the extension where that is allowed, and make its table."""
        if not self._is_prepared:
            await self.store.writing(self._prepare)
            self._is_prepared = True
            if self.notice:
                log.warning("passages without pgvector", extra={"reason": self.notice})

    async def nearest(
        self,
        shelf: VectorCollection,
        question: NDArray[np.float32],
        *,
        limit: int,
        documents: Collection[str] | None = None,
    ) -> list[PassageMatch]:
        """The nearest passages, found in the database and compared exactly."""
        await self.prepare()
        if not self._schema:
            return await super().nearest(shelf, question, limit=limit, documents=documents)
        if shelf.shelf_id not in self._seen:  # a backup brings none of what the extension has
            await self.store.writing(lambda driver: self._catch_up(driver, shelf))
            self._seen.add(shelf.shelf_id)
        [query] = sized(shelf, question[np.newaxis], 1)
        literal = _vector_literal(unit(query[np.newaxis])[0] if shelf.metric == "cosine" else query)
        operator = _OPERATORS[shelf.metric][0]
        distance = f"embedding::halfvec({shelf.dim}) {operator} %s::halfvec({shelf.dim})"

        def work(driver: Any) -> list[PassageMatch]:
            self._use(driver)
            candidates = _MORE * limit
            if documents is None:
                effort = min(1000, max(self._options.ef_search, candidates))
                driver.execute(f"SET LOCAL hnsw.ef_search = {effort}")
                hits = driver.execute(
                    "SELECT passage_id FROM passage_nearest"  # noqa: S608 - names of ours
                    f" WHERE shelf_id = {_literal(shelf)} ORDER BY {distance} LIMIT %s",
                    (literal, candidates),
                ).fetchall()
            else:
                # First those that are allowed: an index would look at the nearest of all.
                hits = driver.execute(
                    "WITH permitted AS MATERIALIZED ("  # noqa: S608 - names of ours
                    "SELECT passage_id, embedding FROM passage_nearest"
                    f" WHERE shelf_id = {_literal(shelf)} AND document_id = ANY(%s))"
                    f" SELECT passage_id FROM permitted ORDER BY {distance} LIMIT %s",
                    (list(documents), literal, candidates),
                ).fetchall()
            rows = driver.execute(
                "SELECT passage_id, vector FROM passage_vectors"
                " WHERE shelf_id = %s AND passage_id = ANY(%s)",
                (shelf.shelf_id, [row[0] for row in hits]),
            ).fetchall()
            numbers, vectors = unpacked(rows, shelf.dim)
            values = similarity(shelf.metric, measured(shelf.metric, vectors, query))
            pairs: list[tuple[int, float]] = list(
                zip(numbers.tolist(), values.tolist(), strict=True)
            )
            return in_order(pairs)[:limit]

        return await self.store.reading(work)

    async def drop(self, shelf: VectorCollection) -> None:
        """Forget a shelf, and its index."""
        await super().drop(shelf)
        await self.store.maintaining(
            lambda driver: driver.execute(f"DROP INDEX IF EXISTS {_index_name(shelf)}")
        )

    async def settle(self, shelf: VectorCollection) -> None:
        """Take over what came without the extension, and build the index of a large shelf."""
        await self.prepare()
        if not self._schema:
            return
        await self.store.writing(lambda driver: self._catch_up(driver, shelf))
        if shelf.dim <= _MOST_INDEXED and await self.count(shelf) >= self._options.hnsw_from:
            await self.store.maintaining(lambda driver: self._build_index(driver, shelf))

    def write(
        self,
        driver: Any,
        shelf: VectorCollection,
        passages: Sequence[PassageKey],
        rows: NDArray[np.float32],
    ) -> None:
        """Write rows, in both forms."""
        super().write(driver, shelf, passages, rows)
        if self._schema:
            self._put_nearest(
                driver,
                shelf,
                [(passage.passage_id, passage.document_id) for passage in passages],
                rows,
            )

    def _put_nearest(
        self,
        driver: Any,
        shelf: VectorCollection,
        passages: Sequence[tuple[int, str]],
        rows: NDArray[np.float32],
    ) -> None:
        self._use(driver)
        stored = unit(rows) if shelf.metric == "cosine" else rows
        cursor = driver.cursor()
        cursor.executemany(
            "INSERT INTO passage_nearest (shelf_id, passage_id, document_id, embedding)"
            " VALUES (%s, %s, %s, %s::halfvec) ON CONFLICT (shelf_id, passage_id) DO UPDATE SET"
            " document_id = excluded.document_id, embedding = excluded.embedding",
            [
                (shelf.shelf_id, number, document, _vector_literal(row))
                for (number, document), row in zip(passages, stored, strict=True)
            ],
        )
        cursor.close()

    def _catch_up(self, driver: Any, shelf: VectorCollection) -> None:
        missing = driver.execute(
            "SELECT v.passage_id, v.document_id, v.vector FROM passage_vectors v"
            " WHERE v.shelf_id = %s AND NOT EXISTS (SELECT 1 FROM passage_nearest n"
            " WHERE n.shelf_id = v.shelf_id AND n.passage_id = v.passage_id)",
            (shelf.shelf_id,),
        ).fetchall()
        sound = [row for row in missing if len(row[2]) == 4 * shelf.dim]
        if sound:
            rows = np.frombuffer(b"".join(row[2] for row in sound), "<f4").reshape(-1, shelf.dim)
            self._put_nearest(driver, shelf, [(row[0], row[1]) for row in sound], rows)

    def _build_index(self, driver: Any, shelf: VectorCollection) -> None:
        name = _index_name(shelf)
        standing = driver.execute(
            "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", (name,)
        ).fetchone()
        if standing is not None and standing[0]:
            return
        key = _LOCK + 1
        if not driver.execute("SELECT pg_try_advisory_lock(%s)", (key,)).fetchone()[0]:
            return  # another gateway builds one
        path = driver.execute("SELECT current_setting('search_path')").fetchone()[0]
        try:
            driver.execute(
                "SELECT set_config('search_path', concat_ws(', ', nullif(%s, ''), quote_ident(%s)),"
                " false)",
                (path, self._schema),
            )
            driver.execute(f"DROP INDEX IF EXISTS {name}")  # what a killed build left
            driver.execute(
                f"CREATE INDEX CONCURRENTLY {name} ON passage_nearest"
                f" USING hnsw ((embedding::halfvec({shelf.dim})) {_OPERATORS[shelf.metric][1]})"
                f" WITH (m = {self._options.m}, ef_construction = {self._options.ef_construction})"
                f" WHERE shelf_id = {_literal(shelf)}"
            )
        finally:
            driver.execute("SELECT set_config('search_path', %s, false)", (path,))
            driver.execute("SELECT pg_advisory_unlock(%s)", (key,))

    def _prepare(self, driver: Any) -> None:
        driver.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        self._schema = self._find_extension(driver)
        if self._schema:
            self._use(driver)
            driver.execute(
                "CREATE TABLE IF NOT EXISTS passage_nearest ("
                ' shelf_id text COLLATE "C" NOT NULL, passage_id bigint NOT NULL,'
                ' document_id text COLLATE "C" NOT NULL, embedding halfvec NOT NULL,'
                " PRIMARY KEY (shelf_id, passage_id),"
                " FOREIGN KEY (shelf_id, passage_id) REFERENCES passage_vectors ON DELETE CASCADE)"
            )

    def _find_extension(self, driver: Any) -> str:
        """The schema of the extension; empty: there is none that can be used, and `notice` says."""
        if not self._options.extension:
            self.notice = "pgvector is switched off, so nearness is computed in the gateway."
            return ""
        extension = _installed(driver)
        if extension is None:
            try:
                with driver.transaction():
                    driver.execute("CREATE EXTENSION IF NOT EXISTS vector")
            except psycopg.Error as error:
                log.info("pgvector was not installed", extra={"error": str(error).strip()})
            extension = _installed(driver)
        if extension is None or extension[1] < (0, 7):
            self.notice = (
                "This PostgreSQL has no pgvector 0.7 or later, so nearness is computed in the"
                " gateway. Install it on the database server and run: CREATE EXTENSION vector;"
            )
            return ""
        self.notice = ""
        return extension[0]

    def _use(self, driver: Any) -> None:
        """Until the end of the transaction, the names of the extension are known."""
        driver.execute(
            "SELECT set_config('search_path', concat_ws(', ',"
            " nullif(current_setting('search_path'), ''), quote_ident(%s)), true)",
            (self._schema,),
        )


def _installed(driver: Any) -> tuple[str, tuple[int, ...]] | None:
    row = driver.execute(
        "SELECT n.nspname, e.extversion FROM pg_extension e"
        " JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'"
    ).fetchone()
    if row is None:
        return None
    return row[0], tuple(int(part) for part in str(row[1]).split(".") if part.isdigit())


def _literal(shelf: VectorCollection) -> str:
    """The id of a shelf in SQL: an index over a part of the rows needs it as a constant."""
    if not shelf.shelf_id.isalnum():
        raise ValueError(f"{shelf.shelf_id!r} is no id of a shelf")
    return f"'{shelf.shelf_id}'"


def _index_name(shelf: VectorCollection) -> str:
    return f"passage_hnsw_{_literal(shelf)[1:-1].lower()[-40:]}"


def _vector_literal(vector: NDArray[np.float32]) -> str:
    """As pgvector reads it."""
    return "[" + ",".join(f"{float(number):.6g}" for number in vector) + "]"


_: type[PassageIndex] = PgPassages
