"""Vectors in the PostgreSQL database of the store; searched there if pgvector is installed.

Every vector is stored as bytes in `vectors`, which needs no extension and is what backups
contain. If pgvector (0.7 or later) is or can be installed, `vector_nearest` has a copy of them
in its type `halfvec`, with an HNSW index for each large collection; what the index finds is
compared again with the stored numbers. If not, `notice` says so, and similarity is computed
here.
"""

import logging
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from struct import pack, unpack_from
from typing import Annotated, Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from pydantic import Field

from toolgate.store import SqlAccess
from toolgate.store.vectors._nearest_tools import make_nearest_tools
from toolgate.store.vectors._rows import TopMatches, packed, row_bytes, unit, unpacked
from toolgate.store.vectors._sql import CHUNK, VIEW, VIEW_SQL, SqlVectors
from toolgate.store.vectors.base import (
    KEY_BYTES,
    Metric,
    Rows,
    VectorCollection,
    VectorMatch,
    VectorStore,
)

log = logging.getLogger(__name__)

_LOCK = 0x746F6F6C76656374
"""Key of the advisory lock for creating tables and view: `toolvect` in ASCII."""

_MOST_NUMBERS = 16_000
"""Largest dimension of a `halfvec`. https://github.com/pgvector/pgvector#half-precision-vectors"""

_MOST_INDEXED = 4_000
"""Largest dimension of a `halfvec` in an HNSW index. https://github.com/pgvector/pgvector#hnsw"""

_MOST_HALF = 65_504.0
"""Largest number in IEEE 754 binary16."""

_OPERATORS: dict[Metric, tuple[str, str]] = {
    "cosine": ("<=>", "halfvec_cosine_ops"),
    "euclidean": ("<->", "halfvec_l2_ops"),
    "dot": ("<#>", "halfvec_ip_ops"),
}

_OVERSAMPLING = 4
"""Factor by which more `single` vectors than requested are compared exactly, since the index has
them as `half` (chosen)."""

_HEAD = b"PGCOPY\n\xff\r\n\x00" + pack(">ii", 0, 0)
_TAIL = pack(">h", -1)
"""End of a binary COPY. https://www.postgresql.org/docs/current/sql-copy.html"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How the index of a collection is built and searched."""

    m: Annotated[int, Field(ge=2, le=100)] = 16
    """Connections of a vector in each layer of the HNSW index; 2 to 100."""

    ef_construction: Annotated[int, Field(ge=4, le=1000)] = 64
    """Candidates when a vector is inserted into the index; 4 to 1,000."""

    ef_search: Annotated[int, Field(ge=1, le=1000)] = 100
    """Smallest number of candidates in a search of the index; 1 to 1,000."""

    hnsw_from: Annotated[int, Field(ge=1, le=2**31)] = 5_000
    """Number of vectors from which a collection has an index; smaller ones are compared row by
    row; 1 to 2,147,483,648."""

    extension: bool = True
    """Whether to use the extension, and to install it if the database allows that."""


def build(options: Options, *, store: SqlAccess) -> "PgVectors":
    """Create a store for vectors in the store's database."""
    return PgVectors(store, options)


@dataclass(frozen=True, kw_only=True)
class _Extension:
    schema: str
    version: tuple[int, ...]


class PgVectors(SqlVectors):
    """A vector store that all gateways with the same database share."""

    mark = "%s"
    values_at_once = 10_000

    def __init__(self, store: SqlAccess, options: Options) -> None:
        super().__init__(store)
        self._options = options
        self._extension: _Extension | None = None
        self._is_prepared = False
        self._complete: set[str] = set()
        """Collections whose vectors are all in the extension's table."""

    async def prepare(self) -> None:
        """Install the extension if possible; create table, view and function."""
        if not self._is_prepared:
            await self.store.writing(self._prepare)
            self._is_prepared = True
            if self.notice:
                log.warning("vectors without pgvector", extra={"reason": self.notice})

    async def nearest(
        self,
        collection: VectorCollection,
        query: NDArray[np.float32],
        *,
        limit: int,
        keys: Sequence[bytes] | None = None,
        groups: Collection[str] | None = None,
    ) -> list[VectorMatch]:
        """Return the nearest vectors, found in the database and compared exactly."""
        await self.prepare()
        extension = self._extension_for(collection)
        best = TopMatches(collection, query, limit)
        if extension is None or not query.any():
            return await super().nearest(collection, query, limit=limit, keys=keys, groups=groups)
        if collection.collection_id not in self._complete:
            await self.store.writing(lambda driver: self._catch_up(driver, collection))
            self._complete.add(collection.collection_id)
        name, literal = _literal(collection), _vector_literal(collection, query)
        candidates = limit if collection.precision == "half" else _OVERSAMPLING * limit
        operator = _OPERATORS[collection.metric][0]
        size = collection.dim
        distance = f"embedding::halfvec({size}) {operator} %s::halfvec({size})"

        def work(driver: Any) -> list[VectorMatch]:
            _use(driver, extension)
            if keys is None and groups is None:
                effort = min(1000, max(self._options.ef_search, 2 * limit, candidates))
                driver.execute(f"SET LOCAL hnsw.ef_search = {effort}")
                if extension.version >= (0, 8):
                    driver.execute("SET LOCAL hnsw.iterative_scan = strict_order")
                near = (
                    "SELECT key FROM vector_nearest"  # noqa: S608 - names of ours
                    f" WHERE collection_id = {name} ORDER BY {distance} LIMIT %s"
                )
                values: list[object] = [literal, candidates]
            else:
                # First filter, then sort: an index would visit the nearest of all vectors and find
                # none that is allowed.
                filters = [("key", keys), ("group_id", groups)]
                allowed = [(column, list(some)) for column, some in filters if some is not None]
                conditions = "".join(f" AND {column} = ANY(%s)" for column, _ in allowed)
                near = (
                    "WITH permitted AS MATERIALIZED (SELECT key, embedding"  # noqa: S608
                    f" FROM vector_nearest WHERE collection_id = {name}{conditions})"
                    f" SELECT key FROM permitted ORDER BY {distance}, key LIMIT %s"
                )
                values = [*(some for _, some in allowed), literal, candidates]
            rows = driver.execute(
                f"SELECT v.key, v.vector FROM ({near}) n"  # noqa: S608
                f" JOIN vectors v ON v.collection_id = {name} AND v.key = n.key",
                values,
                binary=True,
            ).fetchall()
            positions, sound = unpacked(collection, [row[1] for row in rows])
            best.consider([rows[at][0] for at in positions.tolist()], sound)
            return best.matches()

        return await self.store.reading(work)

    async def drop(self, collection: VectorCollection) -> None:
        """Delete a collection and its index."""
        await super().drop(collection)
        index = _index_name(collection)
        await self.store.maintaining(lambda driver: driver.execute(f"DROP INDEX IF EXISTS {index}"))

    async def optimize(self, collection: VectorCollection) -> None:
        """Update the extension's table, and build the index of the collection."""
        await self.prepare()
        extension = self._extension_for(collection)
        if extension is None:
            return
        await self.store.writing(lambda driver: self._catch_up(driver, collection))
        self._complete.add(collection.collection_id)
        is_large = await self.count(collection) >= self._options.hnsw_from
        if is_large and collection.dim <= _MOST_INDEXED:
            await self.store.maintaining(
                lambda driver: self._build_index(driver, extension, collection)
            )

    # Many rows

    def among(self, column: str, values: Sequence[Any]) -> tuple[str, Sequence[Any]]:
        """Return a condition that a column has one of these values, and its parameters."""
        return f"{column} = ANY(?)", [list(values)]

    def rows(
        self, driver: Any, statement: str, values: Sequence[object] = ()
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a query, with bytes as stored."""
        statement = statement.replace("?", self.mark)
        return driver.execute(statement, tuple(values), binary=True).fetchall()

    def scan(
        self, driver: Any, collection: VectorCollection
    ) -> Iterator[tuple[Sequence[bytes], Sequence[bytes]]]:
        """Stream the table; rows of the wrong length are damaged and skipped."""
        size = row_bytes(collection)
        row = 2 + 4 + KEY_BYTES + 4 + size
        statement = (
            "COPY (SELECT key, vector FROM vectors"  # noqa: S608 - an id of ours
            f" WHERE collection_id = {_literal(collection)} AND length(vector) = {size}"
            f" AND length(key) = {KEY_BYTES}) TO STDOUT (FORMAT BINARY)"
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

    def upsert(
        self,
        driver: Any,
        collection: VectorCollection,
        keys: Sequence[bytes],
        groups: Sequence[str | None],
        rows: Rows,
    ) -> int:
        """Write new and changed vectors, by way of a temporary table.

        Sorted by key, so that two gateways that write the same ones do not deadlock.
        """
        driver.execute(
            "CREATE TEMPORARY TABLE IF NOT EXISTS toolgate_incoming"
            " (key bytea, group_id text, vector bytea) ON COMMIT DELETE ROWS"
        )
        _copy_in(driver, "toolgate_incoming", keys, groups, packed(collection, rows))
        changed = [
            row[0]
            for row in self.rows(
                driver,
                "INSERT INTO vectors (collection_id, key, group_id, vector)"
                " SELECT ?, key, group_id, vector FROM toolgate_incoming ORDER BY key"
                " ON CONFLICT (collection_id, key) DO UPDATE"
                " SET group_id = excluded.group_id, vector = excluded.vector"
                " WHERE vectors.vector IS DISTINCT FROM excluded.vector"
                " OR vectors.group_id IS DISTINCT FROM excluded.group_id"
                " RETURNING key",
                (collection.collection_id,),
            )
        ]
        driver.execute("DELETE FROM toolgate_incoming")
        extension = self._extension_for(collection)
        if changed and extension is not None:
            position_of = {key: position for position, key in enumerate(keys)}
            positions = [position_of[key] for key in changed]
            self._put_nearest(
                driver,
                extension,
                collection,
                changed,
                [groups[at] for at in positions],
                rows[positions],
            )
        return len(changed)

    # The extension

    def _extension_for(self, collection: VectorCollection) -> _Extension | None:
        return self._extension if collection.dim <= _MOST_NUMBERS else None

    def _prepare(self, driver: Any) -> None:
        driver.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        self._extension = self._find_extension(driver)
        embedding, join = "v.vector", ""
        if self._extension is not None:
            _use(driver, self._extension)
            driver.execute(
                'CREATE TABLE IF NOT EXISTS vector_nearest (collection_id text COLLATE "C"'
                ' NOT NULL, key bytea NOT NULL, group_id text COLLATE "C",'
                " embedding halfvec NOT NULL, PRIMARY KEY (collection_id, key),"
                " FOREIGN KEY (collection_id, key) REFERENCES vectors ON DELETE CASCADE)"
            )
            driver.execute(
                "CREATE INDEX IF NOT EXISTS vector_nearest_group_id ON vector_nearest (group_id)"
                " WHERE group_id IS NOT NULL"
            )
            make_nearest_tools(driver, self._extension.version)
            embedding = "n.embedding"
            join = (
                "\nLEFT JOIN vector_nearest n"
                " ON n.collection_id = v.collection_id AND n.key = v.key"
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
        self,
        driver: Any,
        extension: _Extension,
        collection: VectorCollection,
        keys: Sequence[bytes],
        groups: Sequence[str | None],
        rows: Rows,
    ) -> None:
        _use(driver, extension)
        driver.execute(
            "CREATE TEMPORARY TABLE IF NOT EXISTS toolgate_nearest"
            " (key bytea, group_id text, embedding halfvec) ON COMMIT DELETE ROWS"
        )
        head = pack(">hh", rows.shape[1], 0)
        raw = _halves(collection, rows).astype(">f2").tobytes()
        size = 2 * rows.shape[1]
        blobs = [head + raw[at : at + size] for at in range(0, len(raw), size)]
        _copy_in(driver, "toolgate_nearest", keys, groups, blobs)
        driver.execute(
            "INSERT INTO vector_nearest (collection_id, key, group_id, embedding)"
            " SELECT %s, key, group_id, embedding FROM toolgate_nearest ORDER BY key"
            " ON CONFLICT (collection_id, key) DO UPDATE"
            " SET group_id = excluded.group_id, embedding = excluded.embedding",
            (collection.collection_id,),
        )
        driver.execute("DELETE FROM toolgate_nearest")

    def _catch_up(self, driver: Any, collection: VectorCollection) -> None:
        """Copy vectors that were written without the extension, such as those of a backup."""
        extension = self._extension_for(collection)
        assert extension is not None
        missing = [
            row[0]
            for row in self.rows(
                driver,
                "SELECT v.key FROM vectors v WHERE v.collection_id = ? AND NOT EXISTS"
                " (SELECT 1 FROM vector_nearest n"
                " WHERE n.collection_id = v.collection_id AND n.key = v.key)",
                (collection.collection_id,),
            )
        ]
        for at in range(0, len(missing), self.values_at_once):
            stored = self.rows(
                driver,
                "SELECT key, group_id, vector FROM vectors WHERE collection_id = ?"
                " AND key = ANY(?)",
                (collection.collection_id, missing[at : at + self.values_at_once]),
            )
            positions, rows = unpacked(collection, [row[2] for row in stored])
            sound: list[int] = positions.tolist()
            keys, groups = [stored[at][0] for at in sound], [stored[at][1] for at in sound]
            if sound:
                self._put_nearest(driver, extension, collection, keys, groups, rows)

    def _build_index(
        self, driver: Any, extension: _Extension, collection: VectorCollection
    ) -> None:
        name = _index_name(collection)
        existing = driver.execute(
            "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", (name,)
        ).fetchone()
        if existing is not None and existing[0]:
            return
        if not driver.execute(
            "SELECT pg_try_advisory_lock(%s, hashtext(%s))", (_LOCK >> 32, name)
        ).fetchone()[0]:
            return  # another gateway builds it
        waits, path = (
            driver.execute(f"SHOW {setting}").fetchone()[0]
            for setting in ("lock_timeout", "search_path")
        )
        try:
            driver.execute("SET lock_timeout = 0")
            driver.execute(
                "SELECT set_config('search_path',"
                " concat_ws(', ', nullif(%s, ''), quote_ident(%s)), false)",
                (path, extension.schema),
            )
            driver.execute(f"DROP INDEX IF EXISTS {name}")  # left by an interrupted build
            driver.execute(
                f"CREATE INDEX CONCURRENTLY {name} ON vector_nearest USING hnsw"
                f" ((embedding::halfvec({collection.dim})) {_OPERATORS[collection.metric][1]})"
                f" WITH (m = {self._options.m}, ef_construction = {self._options.ef_construction})"
                f" WHERE collection_id = {_literal(collection)}"
            )
        finally:
            with _ignoring_lost_connections():
                driver.execute("SELECT set_config('lock_timeout', %s, false)", (waits,))
                driver.execute("SELECT set_config('search_path', %s, false)", (path,))
                driver.execute("SELECT pg_advisory_unlock(%s, hashtext(%s))", (_LOCK >> 32, name))


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
    """Whether the extension is installed; tries to, first for all schemas, then in our own."""
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
    """Add the extension's schema to the search path until the end of the transaction."""
    driver.execute(
        "SELECT set_config('search_path', concat_ws(', ',"
        " nullif(current_setting('search_path'), ''), quote_ident(%s)), true)",
        (extension.schema,),
    )


def _copy_in(
    driver: Any,
    table: str,
    keys: Sequence[bytes],
    groups: Sequence[str | None],
    blobs: Sequence[bytes],
) -> None:
    """Write keys, groups and vectors with a binary COPY."""
    parts = [_HEAD]
    for key, group, blob in zip(keys, groups, blobs, strict=True):
        text = b"" if group is None else group.encode()
        parts += (
            *(pack(">hi", 3, len(key)), key),
            *(pack(">i", -1 if group is None else len(text)), text),
            *(pack(">i", len(blob)), blob),
        )
    parts.append(_TAIL)
    with driver.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN (FORMAT BINARY)") as copy:
        copy.write(b"".join(parts))


def _pieces(raw: bytes, size: int) -> tuple[list[bytes], list[bytes]]:
    """Return keys and vectors from the rows of a binary COPY."""
    row = np.dtype(
        [("head", "V6"), ("key", f"V{KEY_BYTES}"), ("long", "V4"), ("vector", f"V{size}")]
    )
    rows = np.frombuffer(raw, row)
    return rows["key"].tolist(), rows["vector"].tolist()


def _halves(collection: VectorCollection, rows: Rows) -> NDArray[np.float32]:
    """Fit vectors into `halfvec`: scale them to length 1 for cosines, else clip numbers."""
    if collection.metric == "cosine":
        return unit(rows)
    return np.clip(rows.astype(np.float32), -_MOST_HALF, _MOST_HALF)


def _vector_literal(collection: VectorCollection, query: NDArray[np.float32]) -> str:
    """Return a query in pgvector's syntax."""
    [row] = _halves(collection, query[np.newaxis])
    return "[" + ",".join(f"{float(number):.6g}" for number in row) + "]"


def _literal(collection: VectorCollection) -> str:
    """Return the id of a collection as an SQL constant, which partial indexes require."""
    if not collection.collection_id.isalnum():
        raise ValueError(f"{collection.collection_id!r} is not an id of a collection.")
    return f"'{collection.collection_id}'"


def _index_name(collection: VectorCollection) -> str:
    return f"vector_hnsw_{_literal(collection)[1:-1].lower()[-40:]}"


@contextmanager
def _ignoring_lost_connections() -> Generator[None]:
    """Ignore lost connections, which need no clean-up."""
    try:
        yield
    except psycopg.Error as error:
        log.info("connection not tidied", extra={"error": str(error).strip()})


_: type[VectorStore] = PgVectors
