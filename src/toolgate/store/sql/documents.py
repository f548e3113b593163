"""Collections of documents, their passages and words, in plain SQL over the driver.

Passages are read and written by the thousand, so SQLAlchemy's preparation of each row is
skipped. The word index depends on the database and is created here and not by a migration, since
it only repeats what is in `passages`: in SQLite an FTS5 table that triggers keep up to date, in
PostgreSQL a GIN index. The caller splits passages into words, separated by spaces; the store
adds a word for the collection in front, so that words of other collections are never counted.
"""

import re
from collections.abc import Collection, Sequence
from typing import Any

from toolgate.base.ids import utc_now
from toolgate.store.base import SqlAccess
from toolgate.store.engine.driver_sql import DriverSql, placeholders, portions, reads, writes
from toolgate.store.engine.text import escape_text, unescape_text
from toolgate.store.repositories.documents import (
    PassageSource,
    StoredCollection,
    StoredDocument,
    StoredFailure,
    StoredPassage,
    WordCounts,
)

_LOCK = 0x746F6F6C646F6373
"""Key of the advisory lock for creating the word index: `tooldocs` in ASCII."""

_WORD = re.compile(r"[^\W_]+")


class SqlDocuments(DriverSql):
    """Implements `DocumentRepository`."""

    def __init__(self, store: SqlAccess, *, is_sqlite: bool) -> None:
        super().__init__(store, is_sqlite=is_sqlite)
        self._is_prepared = False

    # Collections

    @reads
    def collections(
        self, driver: Any, project_id: str, *, counted: bool = True
    ) -> list[StoredCollection]:
        """The collections of a project, by name.

        Args:
            driver: The driver's connection.
            project_id: The project.
            counted: Whether to count their contents; if not, `passages` is 1 if there are any.
        """
        any_passage = "SELECT 1 FROM passages p WHERE p.collection_id = c.collection_id LIMIT 1"
        uncounted = f"0, (SELECT count(*) FROM ({any_passage}) x)"  # noqa: S608 - of ours
        counts = (
            "(SELECT count(*) FROM documents d WHERE d.collection_id = c.collection_id),"
            " (SELECT coalesce(sum(d.passages), 0) FROM documents d"
            " WHERE d.collection_id = c.collection_id)"
        )

        rows = self.rows(
            driver,
            f"SELECT {_COLLECTION}, {counts if counted else uncounted}"  # noqa: S608 - of ours
            " FROM document_collections c WHERE project_id = ? ORDER BY name_key",
            (escape_text(project_id),),
        )
        return [_collection(row) for row in rows]

    @writes
    def save_collection(self, driver: Any, row: StoredCollection) -> bool:
        """Insert or replace by id. False if another collection has the name."""
        values = (
            row.collection_id,
            escape_text(row.project_id),
            escape_text(row.name),
            _key(row.name),
            escape_text(row.alias),
            escape_text(row.description),
            escape_text(row.model),
            escape_text(row.model_identity),
            row.dim,
            row.metric,
            row.place,
            row.shelf_id,
            row.version,
            utc_now(),
        )

        taken = self.rows(
            driver,
            "SELECT 1 FROM document_collections"
            " WHERE project_id = ? AND name_key = ? AND collection_id <> ?",
            (escape_text(row.project_id), _key(row.name), row.collection_id),
        )
        if taken:
            return False
        changed = ", ".join(f"{name} = excluded.{name}" for name in (*_CHANGING, "updated_at"))
        self.run(
            driver,
            "INSERT INTO document_collections"  # noqa: S608 - names of ours
            " (collection_id, project_id, name, name_key,"
            " alias, description, model, model_identity, dim, metric, place, shelf_id, version,"
            f" updated_at) VALUES ({placeholders(values)})"
            f" ON CONFLICT (collection_id) DO UPDATE SET {changed}",
            values,
        )
        return True

    async def delete_collection(self, collection_id: str) -> None:
        """Delete a collection with its contents."""

        def work(driver: Any) -> None:
            of_documents = "SELECT document_id FROM documents WHERE collection_id = ?"
            statement = f"DELETE FROM vectors WHERE group_id IN ({of_documents})"  # noqa: S608
            self.run(driver, statement, (collection_id,))
            # Explicitly, since a cascade looks up each passage separately.
            for table in ("passages", "documents", "document_failures", "document_collections"):
                statement = f"DELETE FROM {table} WHERE collection_id = ?"  # noqa: S608
                self.run(driver, statement, (collection_id,))

        await self._prepare()
        await self.store.writing(work)

    # Documents

    @reads
    def documents(self, driver: Any, collection_id: str) -> list[StoredDocument]:
        """The documents of a collection, by origin and source."""
        rows = self.rows(
            driver,
            f"SELECT {_DOCUMENT} FROM documents WHERE collection_id = ?"  # noqa: S608
            " ORDER BY origin, source",
            (collection_id,),
        )
        return [_document(row) for row in rows]

    @reads
    def document(
        self, driver: Any, collection_id: str, origin: str, source: str
    ) -> StoredDocument | None:
        """The document with an origin and source; None if there is none."""
        rows = self.rows(
            driver,
            f"SELECT {_DOCUMENT} FROM documents"  # noqa: S608 - names of ours
            " WHERE collection_id = ? AND origin = ? AND source = ?",
            (collection_id, escape_text(origin), escape_text(source)),
        )
        return _document(rows[0]) if rows else None

    async def replace_document(
        self, document: StoredDocument, passages: Sequence[StoredPassage]
    ) -> list[str]:
        """Replace the documents with this origin and source.

        Returns:
            The ids of the replaced documents.
        """
        await self._prepare()
        collection_id = document.collection_id
        collection_word = _collection_word(collection_id)

        def work(driver: Any) -> list[str]:
            here = (collection_id, escape_text(document.origin), escape_text(document.source))
            gone = [
                row[0]
                for row in self.rows(
                    driver,
                    "SELECT document_id FROM documents"
                    " WHERE collection_id = ? AND origin = ? AND source = ?",
                    here,
                )
            ]
            self._remove(driver, gone)
            self.run(driver, _REMOVE_FAILURE, here)
            values = (
                document.document_id,
                *here,
                escape_text(document.title),
                document.media_type,
                document.content_hash,
                document.size_bytes,
                len(passages),
                utc_now(),
            )
            self.run(
                driver,
                "INSERT INTO documents"  # noqa: S608 - question marks only
                " (document_id, collection_id, origin, source, title,"
                f" media_type, content_hash, size_bytes, passages, added_at)"
                f" VALUES ({placeholders(values)})",
                values,
            )
            rows = [
                (
                    passage.passage_id,
                    collection_id,
                    document.document_id,
                    passage.ordinal,
                    escape_text(passage.heading),
                    passage.page,
                    escape_text(passage.text),
                    f"{collection_word} {passage.words}",
                    passage.words.count(" ") + 1 if passage.words else 0,
                )
                for passage in passages
            ]
            self.many(
                driver,
                "INSERT INTO passages (passage_id, collection_id, document_id, ordinal,"
                " heading, page, text, words, length) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )
            self._count_change(driver, collection_id)
            return gone

        return await self.store.writing(work)

    async def remove_documents(self, collection_id: str, documents: Collection[str]) -> int:
        """Delete documents. Returns how many existed."""
        await self._prepare()

        def work(driver: Any) -> int:
            removed = self._remove(driver, list(documents))
            if removed:
                self._count_change(driver, collection_id)
            return removed

        return await self.store.writing(work)

    # Failures

    @reads
    def failures(self, driver: Any, collection_id: str) -> list[StoredFailure]:
        """The documents that could not be imported, by origin and source."""
        rows = self.rows(
            driver,
            "SELECT origin, source, reason, failed_at FROM document_failures"
            " WHERE collection_id = ? ORDER BY origin, source",
            (collection_id,),
        )
        return [
            StoredFailure(
                origin=unescape_text(origin),
                source=unescape_text(source),
                reason=unescape_text(reason),
                failed_at=failed_at,
            )
            for origin, source, reason, failed_at in rows
        ]

    @writes
    def save_failures(
        self,
        driver: Any,
        collection_id: str,
        failures: Sequence[StoredFailure],
        *,
        origins: Collection[str],
    ) -> None:
        """Insert or replace failures, and delete others of `origins`."""
        now = utc_now()
        rows = [
            (
                collection_id,
                escape_text(failure.origin),
                escape_text(failure.source),
                escape_text(failure.reason),
                now,
            )
            for failure in failures
        ]

        self.many(
            driver,
            "DELETE FROM document_failures WHERE collection_id = ? AND origin = ?",
            [(collection_id, escape_text(origin)) for origin in origins],
        )
        self.many(
            driver,
            "INSERT INTO document_failures (collection_id, origin, source, reason, failed_at)"
            " VALUES (?, ?, ?, ?, ?) ON CONFLICT (collection_id, origin, source)"
            " DO UPDATE SET reason = excluded.reason, failed_at = excluded.failed_at",
            rows,
        )

    async def remove_failure(self, collection_id: str, origin: str, source: str) -> bool:
        """Delete a failure. False if there is none."""
        here = (collection_id, escape_text(origin), escape_text(source))
        return await self.store.writing(lambda driver: self.run(driver, _REMOVE_FAILURE, here) > 0)

    # Passages

    @reads
    def passages(self, driver: Any, numbers: Sequence[int]) -> dict[int, PassageSource]:
        """Existing passages by number."""
        sources: dict[int, PassageSource] = {}
        for part in portions(list(numbers)):
            statement = (
                "SELECT p.passage_id, p.ordinal, p.text, p.heading, p.page,"  # noqa: S608
                " p.document_id, d.source, d.title FROM passages p"
                " JOIN documents d ON d.document_id = p.document_id"
                f" WHERE p.passage_id IN ({placeholders(part)})"
            )
            for row in self.rows(driver, statement, part):
                sources[row[0]] = PassageSource(
                    passage=_passage(row),
                    document_id=row[5],
                    source=unescape_text(row[6]),
                    title=unescape_text(row[7]),
                )
        return sources

    @reads
    def passage_page(
        self, driver: Any, collection_id: str, *, after: int, limit: int
    ) -> list[tuple[str, StoredPassage]]:
        """Passages of a collection in the order of their numbers, each with its document.

        Args:
            driver: The driver's connection.
            collection_id: The collection.
            after: Return passages with higher numbers; -1: from the first one.
            limit: Largest number of passages.
        """
        rows = self.rows(
            driver,
            "SELECT passage_id, ordinal, text, heading, page, document_id FROM passages"
            " WHERE collection_id = ? AND passage_id > ? ORDER BY passage_id LIMIT ?",
            (collection_id, after, limit),
        )
        return [(row[5], _passage(row)) for row in rows]

    # Words

    async def word_counts(self, collection_id: str, words: Sequence[str]) -> WordCounts:
        """Frequencies of words in a collection."""
        await self._prepare()

        def work(driver: Any) -> WordCounts:
            [[passages, length]] = self.rows(
                driver,
                "SELECT count(*), coalesce(sum(length), 0) FROM passages WHERE collection_id = ?",
                (collection_id,),
            )
            having = {word: self._count_passages(driver, collection_id, word) for word in words}
            return WordCounts(passages=passages, words=int(length), having=having)

        return await self.store.reading(work)

    async def with_word(
        self, collection_id: str, word: str, *, limit: int
    ) -> list[tuple[int, str, str]]:
        """Passages that contain a word: number, document and search terms."""
        await self._prepare()
        condition = (
            _fts(collection_id, word)
            if self._is_sqlite
            else [_collection_word(collection_id), word]
        )
        statement = (
            "SELECT p.passage_id, p.document_id, p.words FROM passage_words w"
            " JOIN passages p ON p.passage_id = w.rowid"
            " WHERE w.words MATCH ? LIMIT ?"
            if self._is_sqlite
            else "SELECT passage_id, document_id, words FROM passages"
            " WHERE string_to_array(words, ' ') @> ?::text[] LIMIT ?"
        )

        def work(driver: Any) -> list[tuple[int, str, str]]:
            rows = self.rows(driver, statement, (condition, limit))
            return [(row[0], row[1], row[2].partition(" ")[2]) for row in rows]

        return await self.store.reading(work)

    async def _prepare(self) -> None:
        """Create the word index if it does not exist."""
        if not self._is_prepared:
            await self.store.writing(
                self._prepare_sqlite if self._is_sqlite else self._prepare_postgres
            )
            self._is_prepared = True

    def _prepare_sqlite(self, driver: Any) -> None:
        if self.rows(driver, "SELECT 1 FROM sqlite_master WHERE name = 'passage_words'"):
            return
        driver.execute(
            "CREATE VIRTUAL TABLE passage_words USING fts5(words, content = 'passages',"
            " content_rowid = 'passage_id', tokenize = 'unicode61 remove_diacritics 0',"
            " columnsize = 0)"
        )
        driver.execute(
            "CREATE TRIGGER passages_added AFTER INSERT ON passages BEGIN"
            " INSERT INTO passage_words (rowid, words) VALUES (new.passage_id, new.words); END"
        )
        driver.execute(
            "CREATE TRIGGER passages_removed AFTER DELETE ON passages BEGIN"
            " INSERT INTO passage_words (passage_words, rowid, words)"
            " VALUES ('delete', old.passage_id, old.words); END"
        )
        # Rows that a restored backup or another gateway wrote before.
        driver.execute("INSERT INTO passage_words (passage_words) VALUES ('rebuild')")

    def _prepare_postgres(self, driver: Any) -> None:
        driver.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        driver.execute(
            "CREATE INDEX IF NOT EXISTS passages_by_word ON passages"
            " USING gin (string_to_array(words, ' '))"
        )

    def _count_passages(self, driver: Any, collection_id: str, word: str) -> int:
        if self._is_sqlite:
            statement = "SELECT count(*) FROM passage_words WHERE words MATCH ?"
            return int(self.rows(driver, statement, (_fts(collection_id, word),))[0][0])
        statement = "SELECT count(*) FROM passages WHERE string_to_array(words, ' ') @> ?::text[]"
        return int(self.rows(driver, statement, ([_collection_word(collection_id), word],))[0][0])

    # The driver

    def _remove(self, driver: Any, documents: Sequence[str]) -> int:
        removed = 0
        for part in portions(list(documents)):
            for column in ("vectors.group_id", "passages.document_id", "documents.document_id"):
                table = column.partition(".")[0]
                statement = f"DELETE FROM {table} WHERE {column} IN ({placeholders(part)})"  # noqa: S608
                removed_here = self.run(driver, statement, part)
            removed += removed_here
        return removed

    def _count_change(self, driver: Any, collection_id: str) -> None:
        self.run(
            driver,
            "UPDATE document_collections SET version = version + 1, updated_at = ?"
            " WHERE collection_id = ?",
            (utc_now(), collection_id),
        )


_CHANGING = (
    *("name", "name_key", "alias", "description", "model", "model_identity"),
    *("dim", "metric", "place", "shelf_id"),
)
_COLLECTION = (
    "collection_id, project_id, name, alias, description, model, model_identity, dim, metric,"
    " place, shelf_id, version, updated_at"
)
_REMOVE_FAILURE = (
    "DELETE FROM document_failures WHERE collection_id = ? AND origin = ? AND source = ?"
)

_DOCUMENT = (
    "document_id, collection_id, origin, source, title, media_type, content_hash, size_bytes,"
    " passages, added_at"
)


def _collection(row: Sequence[Any]) -> StoredCollection:
    return StoredCollection(
        collection_id=row[0],
        project_id=unescape_text(row[1]),
        name=unescape_text(row[2]),
        alias=unescape_text(row[3]),
        description=unescape_text(row[4]),
        model=unescape_text(row[5]),
        model_identity=unescape_text(row[6]),
        dim=row[7],
        metric=row[8],
        place=row[9],
        shelf_id=row[10],
        version=row[11],
        updated_at=row[12],
        documents=int(row[13]),
        passages=int(row[14]),
    )


def _document(row: Sequence[Any]) -> StoredDocument:
    return StoredDocument(
        document_id=row[0],
        collection_id=row[1],
        origin=unescape_text(row[2]),
        source=unescape_text(row[3]),
        title=unescape_text(row[4]),
        media_type=row[5],
        content_hash=row[6],
        size_bytes=row[7],
        passages=row[8],
        added_at=row[9],
    )


def _passage(row: Sequence[Any]) -> StoredPassage:
    return StoredPassage(
        passage_id=row[0],
        ordinal=row[1],
        text=unescape_text(row[2]),
        heading=unescape_text(row[3]),
        page=row[4],
    )


def _key(name: str) -> str:
    return escape_text(name.casefold())


def _collection_word(collection_id: str) -> str:
    """Return the word for a collection, which does not occur in texts by chance."""
    return f"collection{collection_id}"


def _fts(collection_id: str, word: str) -> str:
    """Return an FTS5 query; words with unexpected characters match nothing."""
    pure = word if _WORD.fullmatch(word) else "x" * 64
    return f'"{_collection_word(collection_id)}" AND "{pure}"'
