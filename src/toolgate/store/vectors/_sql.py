"""What the SQL vector stores share: the tables of schema 0002, in plain SQL.

Rows go in and out by the ten thousand, so SQLAlchemy's preparation of each is left out. A view in
the form that other programs may expect, `mcp_tool_embeddings`, is made here and not by a migration,
since what it shows depends on the database: a migration that changes these tables drops it first,
and the next start makes it again.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolgate.base.ids import utc_now, utc_text
from toolgate.store import SqlAccess, escape_text, unescape_text
from toolgate.store.vectors._float16_rows import TopTexts, unpacked
from toolgate.store.vectors.base import (
    HASH_BYTES,
    HalfRows,
    PutRows,
    TextLink,
    TextMatch,
    VectorCounts,
    VectorSpace,
)

__all__ = ["SqlVectors"]

CHUNK = 4_096
"""Rows that are looked at together."""

PORTION = 10_000
"""Rows that a clean-up removes in one transaction."""

_MODEL_DAYS = 30.0
"""Days that vectors of a model are kept after its last use."""

_TOUCHED_AFTER_S = 3_600.0

VIEW = "mcp_tool_embeddings"

VIEW_SQL = """
SELECT t.project_id, t.server, t.tool AS tool_name, t.description AS tool_description,
  t.enriched AS enriched_description, {embedding} AS embedding,
  t.definition_hash AS input_schema_hash, m.model AS embedding_model, m.dim,
  t.created_at, t.updated_at
FROM tool_texts t
JOIN vectors v ON v.text_hash = t.text_hash
JOIN vector_models m ON m.model_id = v.model_id{join}
"""


class SqlVectors:
    """What a database module completes with its ways to read and write many rows."""

    notice = ""
    mark = "?"
    """How the driver writes a value's place."""

    def __init__(self, store: SqlAccess) -> None:
        self._store = store

    # ------------------------------------------------------------------ vectors

    async def load(self, space: VectorSpace, hashes: Sequence[bytes], put: PutRows) -> None:
        """Hand over the vectors of these texts, as far as they are there."""
        if hashes:
            await self._store.reading(lambda driver: self._load(driver, space, hashes, put))

    async def known(self, space: VectorSpace, hashes: Sequence[bytes]) -> NDArray[np.bool_]:
        """Which of these texts have a vector."""

        def work(driver: Any) -> NDArray[np.bool_]:
            model_id = self.model_id(driver, space)
            there = np.zeros(len(hashes), np.bool_)
            if model_id is not None and hashes:
                places = {text: position for position, text in enumerate(hashes)}
                for chunk in self.hashes_of(driver, model_id, hashes):
                    present = [places[text] for text in chunk if text in places]
                    there[present] = True
            return there

        return await self._store.reading(work)

    async def save(self, space: VectorSpace, hashes: Sequence[bytes], rows: HalfRows) -> int:
        """Keep vectors; gives how many were new or different."""
        if rows.shape != (len(hashes), space.dim) or any(len(h) != HASH_BYTES for h in hashes):
            raise ValueError(f"{len(hashes)} hashes and rows of shape {rows.shape} do not fit")
        if not hashes:
            return 0
        await self.prepare()

        def work(driver: Any) -> int:
            return self.upsert(driver, self.make_model(driver, space), hashes, rows, utc_now())

        return await self._store.writing(work)

    async def nearest(
        self,
        space: VectorSpace,
        query: NDArray[np.float32],
        *,
        limit: int,
        allowed: Sequence[bytes] | None = None,
    ) -> list[TextMatch]:
        """The nearest texts, each row looked at."""

        def work(driver: Any) -> list[TextMatch]:
            best = TopTexts(query, limit)
            model_id = self.model_id(driver, space)
            if allowed is not None:
                self._load(driver, space, allowed, _looker(best, allowed))
            elif model_id is not None:
                for hashes, blobs in self.scan(driver, model_id, space.dim):
                    places, rows = unpacked(blobs, space.dim)
                    _looker(best, hashes)(places, rows)
            return best.found()

        return await self._store.reading(work)

    async def settle(self, space: VectorSpace) -> None:
        """Note that the model is in use."""
        await self.prepare()
        await self._store.writing(lambda driver: self.make_model(driver, space))

    # ------------------------------------------------------------------ tools

    async def link(self, project_id: str, server: str, links: Sequence[TextLink]) -> int:
        """Make these the tools of a server; gives how many rows that changed."""
        await self.prepare()
        project, name, now = escape_text(project_id), escape_text(server), utc_now()
        links_by_tool = {escape_text(link.tool): link for link in links}

        def work(driver: Any) -> int:
            rows = self.rows(
                driver,
                "SELECT tool, text_hash, definition_hash FROM tool_texts"
                " WHERE project_id = ? AND server = ?",
                (project, name),
            )
            there = {tool: (bytes(text), definition) for tool, text, definition in rows}
            gone = [(project, name, tool) for tool in there if tool not in links_by_tool]
            fresh = [
                (
                    project,
                    name,
                    tool,
                    link.text_hash,
                    escape_text(link.description),
                    escape_text(link.enriched),
                    escape_text(link.definition_hash),
                    now,
                    now,
                )
                for tool, link in links_by_tool.items()
                if there.get(tool) != (link.text_hash, escape_text(link.definition_hash))
            ]
            self.many(
                driver,
                "DELETE FROM tool_texts WHERE project_id = ? AND server = ? AND tool = ?",
                gone,
            )
            self.many(
                driver,
                "INSERT INTO tool_texts (project_id, server, tool, text_hash, description,"
                " enriched, definition_hash, created_at, updated_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (project_id, server, tool) DO UPDATE SET"
                " text_hash = excluded.text_hash, description = excluded.description,"
                " enriched = excluded.enriched, definition_hash = excluded.definition_hash,"
                " updated_at = excluded.updated_at",
                fresh,
            )
            return len(gone) + len(fresh)

        return await self._store.writing(work)

    async def links(self, project_id: str) -> dict[str, dict[str, bytes]]:
        """Hashes of texts by server and tool."""

        def work(driver: Any) -> dict[str, dict[str, bytes]]:
            hashes: dict[str, dict[str, bytes]] = {}
            for server, tool, text in self.rows(
                driver,
                "SELECT server, tool, text_hash FROM tool_texts WHERE project_id = ?",
                (escape_text(project_id),),
            ):
                hashes.setdefault(unescape_text(server), {})[unescape_text(tool)] = bytes(text)
            return hashes

        return await self._store.reading(work)

    async def texts(self, project_id: str, server: str, tool: str) -> str | None:
        """The text of a tool that was embedded."""

        def work(driver: Any) -> str | None:
            rows = self.rows(
                driver,
                "SELECT enriched FROM tool_texts WHERE project_id = ? AND server = ? AND tool = ?",
                (escape_text(project_id), escape_text(server), escape_text(tool)),
            )
            return unescape_text(rows[0][0]) if rows else None

        return await self._store.reading(work)

    async def unlink(self, project_id: str, server: str) -> int:
        """Forget the tools of a server, with the vectors that no other tool has."""
        project, name = escape_text(project_id), escape_text(server)

        def work(driver: Any) -> int:
            models = [row[0] for row in self.rows(driver, "SELECT model_id FROM vector_models")]
            for model_id in models:
                self.run(
                    driver,
                    "DELETE FROM vectors WHERE model_id = ? AND text_hash IN"
                    " (SELECT text_hash FROM tool_texts WHERE project_id = ? AND server = ?)"
                    " AND NOT EXISTS (SELECT 1 FROM tool_texts o"
                    " WHERE o.text_hash = vectors.text_hash"
                    " AND (o.project_id <> ? OR o.server <> ?))",
                    (model_id, project, name, project, name),
                )
            return self.run(
                driver,
                "DELETE FROM tool_texts WHERE project_id = ? AND server = ?",
                (project, name),
            )

        return await self._store.writing(work)

    # ------------------------------------------------------------------ upkeep

    async def prune(self, *, before: str) -> int:
        """Remove vectors of texts that no tool has, and of models that nobody uses."""
        unused = utc_text(datetime.fromisoformat(before) - timedelta(days=_MODEL_DAYS))

        def unlink(driver: Any) -> list[int]:
            self.run(
                driver,
                "DELETE FROM tool_texts WHERE updated_at < ? AND NOT EXISTS"
                " (SELECT 1 FROM snapshots s WHERE s.project_id = tool_texts.project_id"
                " AND s.server = tool_texts.server)",
                (before,),
            )
            self.run(
                driver,
                "DELETE FROM vector_models WHERE used_at < ? AND NOT EXISTS"
                " (SELECT 1 FROM vectors v WHERE v.model_id = vector_models.model_id)",
                (unused,),
            )
            return [
                row[0]
                for row in self.rows(
                    driver, "SELECT model_id FROM vector_models WHERE used_at < ?", (unused,)
                )
            ]

        old = await self._store.writing(unlink)
        orphans = (
            "stored_at < ? AND NOT EXISTS"
            " (SELECT 1 FROM tool_texts t WHERE t.text_hash = vectors.text_hash)"
        )
        removed = await self._drop(orphans, (before,))
        for model_id in old:
            removed += await self._drop("model_id = ?", (model_id,))
        return removed

    async def counts(self, space: VectorSpace, project_id: str) -> VectorCounts:
        """How much is kept."""

        def work(driver: Any) -> VectorCounts:
            model_id = self.model_id(driver, space)
            statement = "SELECT count(*) FROM vectors WHERE model_id = ?"
            [[everything]] = self.rows(driver, "SELECT count(*) FROM vectors")
            vectors = 0 if model_id is None else self.rows(driver, statement, (model_id,))[0][0]
            [[tools, servers]] = self.rows(
                driver,
                "SELECT count(*), count(DISTINCT server) FROM tool_texts WHERE project_id = ?",
                (escape_text(project_id),),
            )
            return VectorCounts(
                vectors=vectors,
                vectors_of_other_models=everything - vectors,
                tools=tools,
                servers=servers,
            )

        return await self._store.reading(work)

    async def _drop(self, condition: str, values: tuple[object, ...]) -> int:
        statement = (
            "DELETE FROM vectors WHERE (model_id, text_hash) IN"  # noqa: S608 - of ours
            f" (SELECT model_id, text_hash FROM vectors WHERE {condition} LIMIT {PORTION})"
        )
        dropped = 0
        while True:
            count = await self._store.writing(lambda driver: self.run(driver, statement, values))
            dropped += count
            if count < PORTION:
                return dropped

    # ------------------------------------------------------------------ for the databases

    async def prepare(self) -> None:
        """Make what the migrations leave to us, once."""
        raise NotImplementedError

    def scan(
        self, driver: Any, model_id: int, dim: int
    ) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Hashes and vectors of a model, piece by piece."""
        raise NotImplementedError

    def look_up(
        self, driver: Any, model_id: int, hashes: Sequence[bytes]
    ) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Hashes and vectors of some texts, piece by piece."""
        raise NotImplementedError

    def hashes_of(
        self, driver: Any, model_id: int, hashes: Sequence[bytes]
    ) -> Iterator[list[bytes]]:
        """Those of these hashes (or more) that have a vector, piece by piece."""
        raise NotImplementedError

    def upsert(
        self, driver: Any, model_id: int, hashes: Sequence[bytes], rows: HalfRows, now: str
    ) -> int:
        """Write vectors that are new or different; gives how many."""
        raise NotImplementedError

    def run(self, driver: Any, statement: str, values: Sequence[object] = ()) -> int:
        """Run a statement; gives how many rows it met."""
        return driver.execute(statement.replace("?", self.mark), values).rowcount

    def rows(
        self, driver: Any, statement: str, values: Sequence[object] = ()
    ) -> list[tuple[Any, ...]]:
        """Rows of a query."""
        return driver.execute(statement.replace("?", self.mark), values).fetchall()

    def many(self, driver: Any, statement: str, values: Sequence[tuple[object, ...]]) -> None:
        """Run a statement for each row of values."""
        if values:
            cursor = driver.cursor()
            cursor.executemany(statement.replace("?", self.mark), values)
            cursor.close()

    # ------------------------------------------------------------------ helpers

    def model_id(self, driver: Any, space: VectorSpace) -> int | None:
        """Number of a model; None: nothing of it is kept."""
        rows = self.rows(
            driver,
            "SELECT model_id FROM vector_models WHERE model = ? AND dim = ?",
            (escape_text(space.model), space.dim),
        )
        return rows[0][0] if rows else None

    def make_model(self, driver: Any, space: VectorSpace) -> int:
        """Number of a model, made when it is new; notes that it is used."""
        now = utc_now()
        while (model_id := self.model_id(driver, space)) is None:
            # Two processes may take the same number: the second tries again with the next.
            self.run(
                driver,
                "INSERT INTO vector_models (model_id, model, dim, used_at)"
                " SELECT coalesce(max(model_id), 0) + 1, ?, CAST(? AS INTEGER), ?"
                " FROM vector_models WHERE true ON CONFLICT DO NOTHING",
                (escape_text(space.model), space.dim, now),
            )
        self.run(
            driver,
            "UPDATE vector_models SET used_at = ? WHERE model_id = ? AND used_at < ?",
            (now, model_id, utc_now(plus_s=-_TOUCHED_AFTER_S)),
        )
        return model_id

    def _load(self, driver: Any, space: VectorSpace, hashes: Sequence[bytes], put: PutRows) -> None:
        model_id = self.model_id(driver, space)
        if model_id is None:
            return
        places = {text: position for position, text in enumerate(hashes)}
        whole = False
        if len(hashes) > CHUNK:
            count = "SELECT count(*) FROM vectors WHERE model_id = ?"
            whole = 4 * len(hashes) > self.rows(driver, count, (model_id,))[0][0]
        pieces = (
            self.scan(driver, model_id, space.dim)
            if whole
            else self.look_up(driver, model_id, hashes)
        )
        for texts, read in pieces:
            positions, blobs = [places.get(text, -1) for text in texts], read
            if -1 in positions:
                blobs = [
                    blob for blob, position in zip(read, positions, strict=True) if position >= 0
                ]
                positions = [position for position in positions if position >= 0]
            sound, rows = unpacked(blobs, space.dim)
            if len(sound):
                put(np.array(positions, np.int64)[sound], rows)


def _looker(best: TopTexts, hashes: Sequence[bytes]) -> PutRows:
    """Has rows considered, under the hashes of their positions."""

    def put(places: NDArray[np.int64], rows: HalfRows) -> None:
        positions: list[int] = places.tolist()
        best.look_at([hashes[at] for at in positions], rows)

    return put
