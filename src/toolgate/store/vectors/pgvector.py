"""Vectors in the PostgreSQL database of the store; searched there if pgvector is installed.

Every vector is kept as bytes in `vectors`, which needs no extension and is what backups hold. Where
pgvector (0.7 or later) is or can be installed, `vector_nearest` holds them once more in its type
`halfvec`, with one HNSW index for each model; where it cannot, `notice` says so, and nearness is
computed here.
"""

import logging
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isnan
from struct import pack, unpack_from
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray

from toolgate.store import SqlAccess
from toolgate.store.vectors._float16_rows import packed, unpacked
from toolgate.store.vectors._sql import CHUNK, VIEW, VIEW_SQL, SqlVectors
from toolgate.store.vectors.base import HASH_BYTES, HalfRows, TextMatch, VectorSpace, VectorStore

__all__ = ["Options", "PgVectors", "build"]

log = logging.getLogger(__name__)

_LOCK = 0x746F6F6C76656374
"""Key of the advisory lock under which tables and view are made: `toolvect` in ASCII."""

_LOOKED_UP = 10_000
_MOST_INDEXED = 4_000
"""Numbers of a vector that an HNSW index of pgvector takes as `halfvec`.
https://github.com/pgvector/pgvector#hnsw"""

_HEAD = b"PGCOPY\n\xff\r\n\x00" + pack(">ii", 0, 0)
_TAIL = pack(">h", -1)
"""Of a binary COPY. https://www.postgresql.org/docs/current/sql-copy.html"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How the index of a model is built and searched."""

    m: int = 16
    """Connections of a vector in each layer of the HNSW index; 2 to 100."""

    ef_construction: int = 64
    """Vectors that are looked at when one is put into the index; 4 to 1,000."""

    ef_search: int = 100
    """Vectors that are looked at when the index is searched, at least; 1 to 1,000."""

    extension: bool = True
    """Whether to use the extension, and to install it where the database allows that."""


def build(options: Options, *, store: SqlAccess) -> "PgVectors":
    """Vectors in the store's database."""
    return PgVectors(store, options)


@dataclass(frozen=True, kw_only=True)
class _Extension:
    schema: str
    version: tuple[int, ...]


class PgVectors(SqlVectors):
    """Shared by all gateways of one database."""

    mark = "%s"

    def __init__(self, store: SqlAccess, options: Options) -> None:
        super().__init__(store)
        self._options = options
        self._extension: _Extension | None = None
        self._is_prepared = False

    async def prepare(self) -> None:
        """Install the extension where that is allowed; make its table, and the view."""
        if not self._is_prepared:
            await self._store.writing(self._prepare)
            self._is_prepared = True
            if self.notice:
                log.warning("vectors without pgvector", extra={"reason": self.notice})

    async def nearest(
        self,
        space: VectorSpace,
        query: NDArray[np.float32],
        *,
        limit: int,
        allowed: Sequence[bytes] | None = None,
    ) -> list[TextMatch]:
        """The nearest texts, found in the database."""
        await self.prepare()
        if self._extension is None or not query.any():
            return await super().nearest(space, query, limit=limit, allowed=allowed)
        extension = self._extension
        # More than halfvec can hold would overflow, and the length of a request says nothing.
        literal = _vector_literal(query / np.linalg.norm(query))

        def work(driver: Any) -> list[TextMatch]:
            model_id = self.model_id(driver, space)
            if model_id is None:
                return []
            _use(driver, extension)
            distance = f"embedding::halfvec({space.dim}) <=> %s::halfvec({space.dim})"
            if allowed is None:
                effort = min(1000, max(self._options.ef_search, 2 * limit))
                driver.execute(f"SET LOCAL hnsw.ef_search = {effort}")
                if extension.version >= (0, 8):
                    driver.execute("SET LOCAL hnsw.iterative_scan = strict_order")
                rows = driver.execute(
                    f"SELECT text_hash, {distance} AS distance FROM vector_nearest"  # noqa: S608
                    f" WHERE model_id = {model_id} ORDER BY {distance} LIMIT %s",
                    (literal, literal, limit),
                    binary=True,
                ).fetchall()
            else:
                # First those that are allowed, then their order: an index would look at the
                # nearest of all and find that none of them is allowed.
                rows = driver.execute(
                    "WITH permitted AS MATERIALIZED ("  # noqa: S608
                    "SELECT text_hash, embedding FROM vector_nearest"
                    f" WHERE model_id = {model_id} AND text_hash = ANY(%s))"
                    f" SELECT text_hash, {distance} AS distance FROM permitted"
                    " ORDER BY distance, text_hash LIMIT %s",
                    (list(allowed), literal, limit),
                    binary=True,
                ).fetchall()
            pairs = ((bytes(text), 1 - away) for text, away in rows)
            cosines = [(text, 0.0 if isnan(cosine) else cosine) for text, cosine in pairs]
            cosines.sort(key=lambda pair: (-pair[1], pair[0]))
            return [TextMatch(text_hash=text, cosine=cosine) for text, cosine in cosines]

        return await self._store.reading(work)

    async def settle(self, space: VectorSpace) -> None:
        """Bring what the extension searches up to date, and build the index of the model."""
        await super().settle(space)
        extension = self._extension
        if extension is None:
            return
        model_id = await self._store.writing(lambda driver: self._catch_up(driver, space))
        if space.dim <= _MOST_INDEXED:
            await self._store.maintaining(
                lambda driver: self._build_index(driver, extension, space, model_id)
            )

    # ------------------------------------------------------------------ many rows

    def scan(
        self, driver: Any, model_id: int, dim: int
    ) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Read the table as a stream; rows of another length are damaged and left out."""
        size = 2 * dim
        row = 2 + 4 + HASH_BYTES + 4 + size
        statement = (
            "COPY (SELECT text_hash, vector FROM vectors"  # noqa: S608 - numbers only
            f" WHERE model_id = {int(model_id)} AND length(vector) = {size}"
            f" AND length(text_hash) = {HASH_BYTES}) TO STDOUT (FORMAT BINARY)"
        )
        buffer = bytearray()
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            is_first = True
            for block in copy:
                buffer += block
                if is_first:
                    del buffer[: len(_HEAD) + unpack_from(">i", buffer, len(_HEAD) - 4)[0]]
                    is_first = False
                if len(buffer) >= CHUNK * row:
                    whole = len(buffer) // row * row
                    yield _pieces(bytes(buffer[:whole]), size)
                    del buffer[:whole]
        whole = len(buffer) // row * row
        if whole:
            yield _pieces(bytes(buffer[:whole]), size)

    def look_up(
        self, driver: Any, model_id: int, hashes: Sequence[bytes]
    ) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Ask for some rows by their hashes."""
        for at in range(0, len(hashes), _LOOKED_UP):
            rows = driver.execute(
                "SELECT text_hash, vector FROM vectors WHERE model_id = %s AND text_hash = ANY(%s)",
                (model_id, list(hashes[at : at + _LOOKED_UP])),
                binary=True,
            ).fetchall()
            yield [row[0] for row in rows], [row[1] for row in rows]

    def hashes_of(
        self, driver: Any, model_id: int, hashes: Sequence[bytes]
    ) -> Iterator[list[bytes]]:
        """Ask for them by themselves."""
        for at in range(0, len(hashes), _LOOKED_UP):
            rows = driver.execute(
                "SELECT text_hash FROM vectors WHERE model_id = %s AND text_hash = ANY(%s)",
                (model_id, list(hashes[at : at + _LOOKED_UP])),
                binary=True,
            ).fetchall()
            yield [row[0] for row in rows]

    def upsert(
        self, driver: Any, model_id: int, hashes: Sequence[bytes], rows: HalfRows, now: str
    ) -> int:
        """Write vectors that are new or different, from a table that the session forgets.

        In the order of their hashes: two gateways that write the same ones do not deadlock.
        """
        driver.execute(
            "CREATE TEMPORARY TABLE IF NOT EXISTS toolgate_incoming"
            " (text_hash bytea, vector bytea) ON COMMIT DELETE ROWS"
        )
        _copy_in(driver, "toolgate_incoming (text_hash, vector)", hashes, packed(rows))
        changed = [
            row[0]
            for row in driver.execute(
                "INSERT INTO vectors (model_id, text_hash, vector, stored_at)"
                " SELECT %s, text_hash, vector, %s FROM toolgate_incoming ORDER BY text_hash"
                " ON CONFLICT (model_id, text_hash) DO UPDATE"
                " SET vector = excluded.vector, stored_at = excluded.stored_at"
                " WHERE vectors.vector IS DISTINCT FROM excluded.vector"
                " RETURNING text_hash",
                (model_id, now),
                binary=True,
            ).fetchall()
        ]
        if changed and self._extension is not None:
            places = {text: position for position, text in enumerate(hashes)}
            self._put_nearest(driver, model_id, changed, rows[[places[text] for text in changed]])
        return len(changed)

    # ------------------------------------------------------------------ the extension

    def _prepare(self, driver: Any) -> None:
        driver.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        self._extension = self._find_extension(driver)
        embedding, join = "v.vector", ""
        if self._extension is not None:
            _use(driver, self._extension)
            driver.execute(
                "CREATE TABLE IF NOT EXISTS vector_nearest ("
                " model_id integer NOT NULL, text_hash bytea NOT NULL, embedding halfvec NOT NULL,"
                " PRIMARY KEY (model_id, text_hash),"
                " FOREIGN KEY (model_id, text_hash) REFERENCES vectors ON DELETE CASCADE)"
            )
            embedding = "n.embedding"
            join = (
                "\nLEFT JOIN vector_nearest n"
                " ON n.model_id = v.model_id AND n.text_hash = v.text_hash"
            )
        kind = driver.execute(
            "SELECT format_type(atttypid, NULL) FROM pg_attribute"
            " WHERE attrelid = to_regclass(%s) AND attname = 'embedding'",
            (VIEW,),
        ).fetchone()
        vector_type = "bytea" if self._extension is None else "halfvec"
        if kind is None or str(kind[0]).rpartition(".")[2] != vector_type:
            driver.execute(f"DROP VIEW IF EXISTS {VIEW}")
            driver.execute(
                f"CREATE VIEW {VIEW} AS {VIEW_SQL.format(embedding=embedding, join=join)}"
            )

    def _find_extension(self, driver: Any) -> _Extension | None:
        if not self._options.extension:
            self.notice = "pgvector is switched off, so nearness is computed in the gateway."
            return None
        extension = _installed(driver)
        if extension is None:
            if not driver.execute(
                "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"
            ).fetchone():
                self.notice = (
                    "This PostgreSQL has no pgvector, so nearness is computed in the gateway. "
                    "Install the extension (0.7 or later) on the database server and start again."
                )
                return None
            if not _install(driver):
                self.notice = (
                    "pgvector is there but this user may not install it, so nearness is computed "
                    "in the gateway. Run as an administrator: CREATE EXTENSION vector;"
                )
                return None
            extension = _installed(driver)
            assert extension is not None
        if extension.version < (0, 7):
            version = ".".join(map(str, extension.version))
            self.notice = (
                f"pgvector {version} is too old, so nearness is computed in the gateway. Install "
                "0.7 or later, and run: ALTER EXTENSION vector UPDATE;"
            )
            return None
        self.notice = ""
        return extension

    def _put_nearest(
        self, driver: Any, model_id: int, hashes: Sequence[bytes], rows: HalfRows
    ) -> None:
        assert self._extension is not None
        _use(driver, self._extension)
        driver.execute(
            "CREATE TEMPORARY TABLE IF NOT EXISTS toolgate_nearest"
            " (text_hash bytea, embedding halfvec) ON COMMIT DELETE ROWS"
        )
        head = pack(">hh", rows.shape[1], 0)
        blobs = [head + blob for blob in packed(rows.byteswap())]
        _copy_in(driver, "toolgate_nearest (text_hash, embedding)", hashes, blobs)
        driver.execute(
            "INSERT INTO vector_nearest (model_id, text_hash, embedding)"
            " SELECT %s, text_hash, embedding FROM toolgate_nearest ORDER BY text_hash"
            " ON CONFLICT (model_id, text_hash) DO UPDATE SET embedding = excluded.embedding",
            (model_id,),
        )
        driver.execute("DELETE FROM toolgate_nearest")

    def _catch_up(self, driver: Any, space: VectorSpace) -> int:
        """Take over vectors that came without the extension, such as those of a backup."""
        model_id = self.make_model(driver, space)
        missing = [
            bytes(row[0])
            for row in driver.execute(
                "SELECT v.text_hash FROM vectors v WHERE v.model_id = %s AND NOT EXISTS"
                " (SELECT 1 FROM vector_nearest n"
                " WHERE n.model_id = v.model_id AND n.text_hash = v.text_hash)",
                (model_id,),
                binary=True,
            ).fetchall()
        ]
        for hashes, blobs in self.look_up(driver, model_id, missing):
            places, rows = unpacked(blobs, space.dim)
            if len(places):
                sound: list[int] = places.tolist()
                self._put_nearest(driver, model_id, [hashes[at] for at in sound], rows)
        return model_id

    def _build_index(
        self, driver: Any, extension: _Extension, space: VectorSpace, model_id: int
    ) -> None:
        name = f"vector_nearest_hnsw_{model_id}"
        standing = driver.execute(
            "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", (name,)
        ).fetchone()
        if standing is not None and standing[0]:
            return
        if not driver.execute("SELECT pg_try_advisory_lock(%s)", (_LOCK + model_id,)).fetchone()[0]:
            return  # another gateway builds it
        waits, path = (
            driver.execute(f"SHOW {name}").fetchone()[0] for name in ("lock_timeout", "search_path")
        )
        try:
            driver.execute("SET lock_timeout = 0")
            driver.execute(
                "SELECT set_config('search_path',"
                " concat_ws(', ', %s::text, quote_ident(%s)), false)",
                (path, extension.schema),
            )
            driver.execute(f"DROP INDEX IF EXISTS {name}")  # what a killed build left
            driver.execute(
                f"CREATE INDEX CONCURRENTLY {name} ON vector_nearest"
                f" USING hnsw ((embedding::halfvec({space.dim})) halfvec_cosine_ops)"
                f" WITH (m = {self._options.m}, ef_construction = {self._options.ef_construction})"
                f" WHERE model_id = {model_id}"
            )
        finally:
            with _ignoring_the_dead():
                driver.execute("SELECT set_config('lock_timeout', %s, false)", (waits,))
                driver.execute("SELECT set_config('search_path', %s, false)", (path,))
                driver.execute("SELECT pg_advisory_unlock(%s)", (_LOCK + model_id,))


def _installed(driver: Any) -> _Extension | None:
    row = driver.execute(
        "SELECT n.nspname, e.extversion FROM pg_extension e"
        " JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'"
    ).fetchone()
    if row is None:
        return None
    numbers = (part for part in str(row[1]).split(".") if part.isdigit())
    return _Extension(schema=row[0], version=tuple(map(int, numbers)))


def _install(driver: Any) -> bool:
    """Whether the extension is installed now; tried where all schemas see it, then in our own."""
    for where in (" SCHEMA public", ""):
        try:
            with driver.transaction():
                driver.execute(f"CREATE EXTENSION IF NOT EXISTS vector{where}")
        except psycopg.Error as error:
            log.info("pgvector was not installed", extra={"error": str(error).strip()})
        else:
            return True
    return False


def _use(driver: Any, extension: _Extension) -> None:
    """Until the end of the transaction, the names of the extension are known."""
    driver.execute(
        "SELECT set_config('search_path', concat_ws(', ',"
        " nullif(current_setting('search_path'), ''), quote_ident(%s)), true)",
        (extension.schema,),
    )


def _copy_in(driver: Any, target: str, hashes: Sequence[bytes], blobs: Sequence[bytes]) -> None:
    """Write two columns of bytes as a binary COPY."""
    parts = [_HEAD]
    for text, blob in zip(hashes, blobs, strict=True):
        parts += (pack(">hi", 2, len(text)), text, pack(">i", len(blob)), blob)
    parts.append(_TAIL)
    with (
        driver.cursor() as cursor,
        cursor.copy(f"COPY {target} FROM STDIN (FORMAT BINARY)") as copy,
    ):
        copy.write(b"".join(parts))


def _pieces(raw: bytes, size: int) -> tuple[list[bytes], list[bytes]]:
    """Hashes and vectors of the rows of a binary COPY."""
    row = np.dtype([("head", "V6"), ("text", f"V{HASH_BYTES}"), ("long", "V4"), ("at", f"V{size}")])
    rows = np.frombuffer(raw, row)
    return rows["text"].tolist(), rows["at"].tolist()


def _vector_literal(vector: NDArray[np.floating[Any]]) -> str:
    """As pgvector reads it."""
    return "[" + ",".join(f"{float(number):.6g}" for number in vector) + "]"


@contextmanager
def _ignoring_the_dead() -> Generator[None]:
    """A connection that is gone needs no tidying."""
    try:
        yield
    except psycopg.Error as error:
        log.info("connection not tidied", extra={"error": str(error).strip()})


_: type[VectorStore] = PgVectors
