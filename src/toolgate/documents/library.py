"""Document collections: create, fill, delete, search."""

import logging
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from collections.abc import Collection as Some
from contextlib import asynccontextmanager
from dataclasses import replace
from time import monotonic
from typing import Final, cast

import anyio
import numpy as np
from numpy.typing import NDArray

from toolgate.base.ids import new_id
from toolgate.documents._ingestion import cut_document, embed_collection, embed_document
from toolgate.documents._library_types import AddedDocument, DocumentResources, NewDocument
from toolgate.documents._passage_search import PassageSearch, search_collection
from toolgate.documents._passage_vectors import vector_collection
from toolgate.documents._stored_collections import collection_named, single_line
from toolgate.documents.base import Collection, FoundPassage
from toolgate.documents.conversion_process import DocumentConverter
from toolgate.errors import (
    ArgumentError,
    ConfigError,
    DocumentError,
    SettingError,
    StoreError,
    ToolgateError,
)
from toolgate.models.embedders import Embedder, embedded
from toolgate.models.rerankers import Reranker
from toolgate.settings import DocumentSettings
from toolgate.store import (
    DocumentRepository,
    StoredCollection,
    StoredDocument,
    StoredFailure,
    StoredPassage,
)
from toolgate.store.vectors import METRICS, Metric

log = logging.getLogger(__name__)

_REASON_CHARS: Final = 1_000
"""Characters of the reason for a failure that are kept (chosen: a few sentences)."""

_NAME: Final = re.compile(r"[^\W_][\w.-]{0,63}")
_CUT_VERSION: Final = 2
"""Incremented when documents are read or split differently, so that they are added again."""

_PASSAGES_AT_ONCE: Final = 512
"""Passages that are read at a time when a whole collection is read (chosen)."""

_FAILURES: Final = 3
"""Consecutive failures after which a collection is not searched for a while."""


class DocumentLibrary:
    """The documents of all projects."""

    def __init__(
        self,
        rows: DocumentRepository,
        workshop: DocumentResources,
        *,
        settings: Callable[[], DocumentSettings],
    ) -> None:
        self._rows = rows
        self._workshop = workshop
        self._settings = settings
        self._failures: dict[str, tuple[int, float]] = {}
        self._writing: dict[str, anyio.Lock] = {}
        self.converter = DocumentConverter(settings)
        """Converts files to text."""

    @property
    def settings(self) -> DocumentSettings:
        """The current settings."""
        return self._settings()

    # Collections

    async def collections(self, project_id: str, *, counted: bool = True) -> list[Collection]:
        """Return the collections of a project by name, with problems that prevent searching.

        Args:
            project_id: The project.
            counted: Whether to count their contents; if not, `passages` is 1 if there are any.
        """
        rows = await self._rows.collections(project_id, counted=counted)
        return [self._collection_of(row) for row in rows]

    async def collection(self, project_id: str, name: str) -> Collection:
        """Return a collection by its name or alias.

        Raises:
            ArgumentError: It does not exist.
        """
        return self._collection_of(await self._row(project_id, name, counted=True))

    async def make(
        self,
        project_id: str,
        name: str,
        *,
        alias: str | None = None,
        description: str | None = None,
        model: str | None = None,
        metric: str | None = None,
        place: str | None = None,
    ) -> Collection:
        """Create a collection, or change the alias or description of an existing one.

        Raises:
            ArgumentError: The name is invalid, or the collection has another model, metric or
                place.
            ConfigError: The model or place does not exist.
            EmbedderError: The model cannot be used.
        """
        rows = await self._rows.collections(project_id)
        existing = collection_named(rows, name)
        if existing is not None:
            for setting, requested, has in (
                ("model", model, existing.model),
                ("metric", metric, existing.metric),
                ("place", place and self._workshop.place_of(place), existing.place),
            ):
                if requested is not None and requested != has:
                    raise ArgumentError(
                        f"The collection {existing.name!r} has the {setting} {has!r}, not "
                        f"{requested!r}.",
                        hint=f"Run: toolgate docs reindex {existing.name} --{setting} {requested}",
                    )
            changed = replace(
                existing,
                alias=existing.alias if alias is None else single_line(alias, "alias", 100),
                description=existing.description
                if description is None
                else single_line(description, "description", 2000),
            )
            if changed != existing:
                await self._rows.save_collection(changed)
            return self._collection_of(changed)
        if not _NAME.fullmatch(name):
            raise ArgumentError(
                f"{name[:80]!r} is not a name for a collection.",
                allowed="Allowed: letters, digits, and . _ - after the first; 64 at most.",
            )
        row = await self._fresh(
            StoredCollection(
                collection_id=new_id(),
                project_id=project_id,
                name=name,
                alias=single_line(alias or "", "alias", 100),
                description=single_line(description or "", "description", 2000),
                model=model or self.settings.model,
                model_identity="",
                dim=1,
                metric=metric or self.settings.metric,
                place=place or self.settings.place,
                shelf_id="",
            )
        )
        if not await self._rows.save_collection(row):
            row = await self._row(project_id, name)  # created by someone else in the meantime
        return self._collection_of(row)

    async def _fresh(self, row: StoredCollection) -> StoredCollection:
        """Return a collection with new, empty vectors for its model, metric and place."""
        if row.metric not in METRICS:
            raise ArgumentError(
                f"There is no metric {row.metric[:40]!r}.",
                allowed=f"Metrics: {', '.join(METRICS)}.",
            )
        embedder = self._workshop.embedder(row.model)
        place = self._workshop.place_of(row.place)
        self._workshop.vectors(place)  # raises if it cannot be used
        [probe] = await embedded(embedder, ["a text"], "document")
        return replace(
            row,
            model_identity=embedder.identity,
            dim=len(probe),
            place=place,
            shelf_id=new_id(),
        )

    async def delete(self, project_id: str, name: str) -> Collection:
        """Delete a collection with its contents.

        Raises:
            ArgumentError: It does not exist.
        """
        before = await self._row(project_id, name, counted=True)
        async with self._alone(before) as row:
            try:
                await self._workshop.vectors(row.place).drop(vector_collection(row))
            except (ConfigError, StoreError) as error:
                log.warning("vectors not removed", extra={"place": row.place, "error": str(error)})
            await self._rows.delete_collection(row.collection_id)
        return self._collection_of(before)

    async def delete_all(self, project_id: str) -> None:
        """Delete all collections of a project, with their vectors in any vector store."""
        for row in await self._rows.collections(project_id, counted=False):
            await self.delete(project_id, row.name)

    async def reindex(
        self,
        project_id: str,
        name: str,
        *,
        model: str | None = None,
        metric: str | None = None,
        place: str | None = None,
    ) -> Collection:
        """Compute the vectors of a collection again, also for another model, metric or place.

        Searches use the old vectors until the new ones are complete.

        Raises:
            ArgumentError: The collection or metric does not exist.
            ConfigError: The model or place does not exist.
            EmbedderError: The model failed; nothing was changed.
        """
        async with self._alone(await self._row(project_id, name)) as row:
            fresh = await self._fresh(
                replace(
                    row,
                    model=model or row.model,
                    metric=metric or row.metric,
                    place=place or row.place,
                )
            )
            store = self._workshop.vectors(fresh.place)
            try:
                await embed_collection(
                    self._rows, fresh, self._workshop.embedder(fresh.model), store
                )
                await store.optimize(vector_collection(fresh))
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await store.drop(vector_collection(fresh))
                raise
            await self._rows.save_collection(fresh)
            current_row = await self._row(project_id, name, counted=True)
            if await store.count(vector_collection(fresh)) != current_row.passages:
                # Another gateway has added documents in the meantime.
                await embed_collection(
                    self._rows, fresh, self._workshop.embedder(fresh.model), store
                )
            try:
                await self._workshop.vectors(row.place).drop(vector_collection(row))
            except (ConfigError, StoreError) as error:
                log.warning("vectors not removed", extra={"place": row.place, "error": str(error)})
        return self._collection_of(
            replace(fresh, documents=current_row.documents, passages=current_row.passages)
        )

    # Documents

    async def documents(self, project_id: str, name: str) -> list[StoredDocument]:
        """Return the documents of a collection, by origin and source.

        Raises:
            ArgumentError: The collection does not exist.
        """
        row = await self._row(project_id, name)
        return await self._rows.documents(row.collection_id)

    async def passages(
        self, project_id: str, name: str, document_id: str | None = None
    ) -> list[tuple[str, StoredPassage]]:
        """Return the passages of a collection or document, each with its document's id.

        They are sorted by document, then in the order of the text.

        Raises:
            ArgumentError: The collection does not exist.
        """
        row = await self._row(project_id, name)
        passages: list[tuple[str, StoredPassage]] = []
        after = -1
        while page := await self._rows.passage_page(
            row.collection_id, after=after, limit=_PASSAGES_AT_ONCE
        ):
            passages += [pair for pair in page if document_id in (None, pair[0])]
            after = page[-1][1].passage_id
        return passages

    async def passage_texts(
        self, project_id: str, name: str, passage_ids: Some[int]
    ) -> dict[int, str]:
        """Return texts of passages by number; those of other collections are left out.

        Raises:
            ArgumentError: The collection does not exist.
        """
        row = await self._row(project_id, name)
        documents = {
            document.document_id for document in await self._rows.documents(row.collection_id)
        }
        sources = await self._rows.passages(list(passage_ids))
        return {
            number: source.passage.text
            for number, source in sources.items()
            if source.document_id in documents
        }

    def kept_hash(self, sha256: str) -> str:
        """Return a key that changes with a document's file and with how it is split."""
        return f"{sha256}-{self.settings.passage_tokens}-{_CUT_VERSION}"

    async def add(self, project_id: str, name: str, document: NewDocument) -> AddedDocument:
        """Add a document, or replace the one with the same origin and source.

        Raises:
            ArgumentError: The collection does not exist.
            DocumentError: The document has no text.
            EmbedderError: The model failed; nothing was changed.
            StoreError: The vectors could not be stored; nothing was changed.
        """
        if not document.source.strip():
            raise ArgumentError("A document without a source was given.", hint="Name its source.")
        async with self._alone(await self._row(project_id, name)) as row:
            embedder = self._current(row)
            kept_hash = self.kept_hash(document.sha256)
            existing = await self._rows.document(
                row.collection_id, document.origin, document.source
            )
            if existing is not None and document.sha256 and existing.content_hash == kept_hash:
                return AddedDocument(
                    source=document.source, status="unchanged", passages=existing.passages
                )
            pieces, passages = await anyio.to_thread.run_sync(
                cut_document, document, self.settings.passage_tokens
            )
            if not pieces:
                raise DocumentError(
                    f"{document.source} has no text.",
                    hint="If it contains images of text, run OCR first.",
                )
            document_id = new_id()
            store, shelf = self._workshop.vectors(row.place), vector_collection(row)
            await embed_document(document_id, pieces, passages, embedder, store, shelf)
            # From here on searches find it, which they did not by its vectors alone.
            gone = await self._rows.replace_document(
                StoredDocument(
                    document_id=document_id,
                    collection_id=row.collection_id,
                    source=document.source,
                    origin=document.origin,
                    title=document.title,
                    media_type=document.media_type,
                    content_hash=kept_hash,
                    size_bytes=document.size_bytes,
                ),
                passages,
            )
            if gone:
                await store.remove(shelf, groups=gone)
        status = "replaced" if gone else "added"
        return AddedDocument(source=document.source, status=status, passages=len(passages))

    async def remove(
        self,
        project_id: str,
        name: str,
        *,
        sources: Some[str] = (),
        origins: Some[str] = (),
        documents: Some[str] = (),
    ) -> list[StoredDocument]:
        """Delete documents by source, origin or id. Returns those that existed.

        Raises:
            ArgumentError: The collection does not exist.
        """
        async with self._alone(await self._row(project_id, name)) as row:
            doomed = [
                document
                for document in await self._rows.documents(row.collection_id)
                if document.source in sources
                or document.origin in origins
                or document.document_id in documents
            ]
            ids = [document.document_id for document in doomed]
            if ids:
                await self._rows.remove_documents(row.collection_id, ids)
                await self._workshop.vectors(row.place).remove(vector_collection(row), groups=ids)
        return doomed

    async def failures(self, project_id: str, name: str) -> list[StoredFailure]:
        """Return the documents that could not be imported, by origin and source.

        Raises:
            ArgumentError: The collection does not exist.
        """
        return await self._rows.failures((await self._row(project_id, name)).collection_id)

    async def note_failures(
        self,
        project_id: str,
        name: str,
        failures: Sequence[StoredFailure],
        *,
        origins: Some[str] = (),
    ) -> None:
        """Keep which documents could not be imported, until they are.

        Args:
            project_id: The project.
            name: Name or alias of the collection.
            failures: The failures.
            origins: Origins that were imported completely: their earlier failures are deleted.

        Raises:
            ArgumentError: The collection does not exist.
        """
        row = await self._row(project_id, name)
        cut = [replace(failure, reason=failure.reason[:_REASON_CHARS]) for failure in failures]
        await self._rows.save_failures(row.collection_id, cut, origins=origins)

    async def dismiss_failure(self, project_id: str, name: str, origin: str, source: str) -> bool:
        """Delete a failure. Returns False if there is none.

        Raises:
            ArgumentError: The collection does not exist.
        """
        row = await self._row(project_id, name)
        return await self._rows.remove_failure(row.collection_id, origin, source)

    async def settle(self, project_id: str, name: str) -> None:
        """Prepare a collection for searching after many additions; may be slow."""
        row = await self._row(project_id, name)
        await self._workshop.vectors(row.place).optimize(vector_collection(row))

    # Searching

    async def vector(self, model: str, question: str) -> NDArray[np.float32]:
        """Return the vector of a question.

        Raises:
            ConfigError: The model does not exist.
            EmbedderError: It failed.
        """
        [vector] = await embedded(self._workshop.embedder(model), [question], "query")
        return vector

    async def search(
        self,
        collection: Collection,
        question: str,
        vector: NDArray[np.float32],
        looking: PassageSearch,
    ) -> list[FoundPassage]:
        """Return matching passages of a collection, best first, with their ranks.

        Raises:
            StoreError: The collection failed, or is skipped after repeated failures.
            TimeoutError: It took too long.
        """
        failures, until = self._failures.get(collection.collection_id, (0, 0.0))
        if failures >= _FAILURES and monotonic() < until:
            raise StoreError(
                f"The collection {collection.name!r} failed {failures} times in a row and is not "
                f"asked for {until - monotonic():.0f} s."
            )
        try:
            with anyio.fail_after(self.settings.timeout_s):
                passages = await search_collection(
                    self._rows,
                    self._workshop.vectors(collection.place),
                    collection,
                    question,
                    vector,
                    looking,
                )
        except Exception:
            rest = monotonic() + self.settings.cooldown_s
            self._failures[collection.collection_id] = (failures + 1, rest)
            raise
        self._failures.pop(collection.collection_id, None)
        return passages

    def reranker(self) -> Reranker | None:
        """Return the reranker for found passages; None: there is none.

        If it cannot be created, that is logged, and the order of the search is used.
        """
        try:
            return self._workshop.reranker()
        except ConfigError as error:
            log.warning("no reranker", extra={"error": str(error)})
            return None

    # Helpers

    async def _row(self, project_id: str, name: str, *, counted: bool = False) -> StoredCollection:
        rows = await self._rows.collections(project_id, counted=counted)
        row = collection_named(rows, name)
        if row is None:
            raise ArgumentError(
                f"There is no collection {name[:80]!r}.",
                allowed=f"Collections: {', '.join(row.name for row in rows) or 'none'}.",
                hint="Create one with: toolgate docs add FILES --collection NAME",
            )
        return row

    def _current(self, row: StoredCollection) -> Embedder:
        """Return the model of a collection, if it is the one that has filled it."""
        embedder = self._workshop.embedder(row.model)
        if embedder.identity != row.model_identity:
            raise SettingError(
                f"The collection {row.name!r} was indexed with the model {row.model_identity!r}, "
                f"but {row.model!r} is now {embedder.identity!r}.",
                hint=f"Run: toolgate docs reindex {row.name}",
            )
        return embedder

    def _collection_of(self, row: StoredCollection) -> Collection:
        problem = ""
        try:
            self._current(row)
        except ToolgateError as error:
            problem = str(error)
        return Collection(
            collection_id=row.collection_id,
            project_id=row.project_id,
            name=row.name,
            alias=row.alias,
            description=row.description,
            model=row.model,
            model_identity=row.model_identity,
            dim=row.dim,
            metric=cast("Metric", row.metric),
            place=row.place,
            shelf_id=row.shelf_id,
            version=row.version,
            documents=row.documents,
            passages=row.passages,
            updated_at=row.updated_at,
            problem=problem,
        )

    @asynccontextmanager
    async def _alone(self, row: StoredCollection) -> AsyncGenerator[StoredCollection]:
        """Lock a collection against other writers in this process, and yield its current row."""
        async with self._writing.setdefault(row.collection_id, anyio.Lock()):
            yield await self._row(row.project_id, row.name)
