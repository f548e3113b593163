"""Collections and what is in them: making, filling, emptying, and searching one of them."""

import logging
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from collections.abc import Collection as Some
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from secrets import randbits
from time import monotonic
from typing import Final, Protocol, cast

import anyio
import numpy as np
from numpy.typing import NDArray

from toolgate.base.ids import new_id
from toolgate.documents.base import Collection, FoundPassage, SearchType
from toolgate.documents.bm25 import best_by_words, words_of
from toolgate.documents.chunking import DocumentChunk, split_document
from toolgate.documents.ranking import diversify
from toolgate.errors import (
    ArgumentError,
    ConfigError,
    DocumentError,
    SettingError,
    StoreError,
    ToolgateError,
)
from toolgate.models.embedders import Embedder, embedded
from toolgate.settings import DocumentSettings
from toolgate.store import DocumentRepository, StoredCollection, StoredDocument, StoredPassage
from toolgate.store.passages import (
    METRICS,
    Metric,
    PassageIndex,
    PassageKey,
    VectorCollection,
    measured,
    similarity,
)

__all__ = ["AddedDocument", "DocumentLibrary", "DocumentResources", "NewDocument", "PassageSearch"]

log = logging.getLogger(__name__)

_NAME: Final = re.compile(r"[^\W_][\w.-]{0,63}")
_BATCH: Final = 256
"""Passages that get their vectors at once."""

_FAILURES: Final = 3
"""Failures in a row after which a collection is left alone for a while."""


class DocumentResources(Protocol):
    """Gives what settings name; made by `app`."""

    def embedder(self, name: str) -> Embedder:
        """An embedding model by its name in `[documents.models]`.

        Raises:
            ConfigError: There is none, it is switched off, or its options are wrong.
        """
        ...

    def index(self, place: str) -> PassageIndex:
        """A place for vectors; `auto`: that of the store.

        Raises:
            ConfigError: There is none, or its library is not installed.
        """
        ...

    def place_of(self, place: str) -> str:
        """The name of a place; for `auto` that of the store's."""
        ...


@dataclass(frozen=True, kw_only=True)
class NewDocument:
    """A document that is taken in."""

    source: str
    """Its path within what is added, or its address."""

    text: str
    """Markdown; a form feed ends a page."""

    origin: str = ""
    """What is added: a folder, a file or an address, in full."""

    title: str = ""
    """What it calls itself."""

    media_type: str = "text/markdown"
    """Of the file that it was."""

    sha256: str = ""
    """Of the file that it was, in hex."""

    size_bytes: int = 0
    """Of the file that it was."""

    has_pages: bool = False
    """Whether form feeds end pages that people know."""


@dataclass(frozen=True, kw_only=True)
class AddedDocument:
    """What became of a document."""

    source: str
    """Which."""

    status: str
    """`added`, `replaced` or `unchanged`."""

    passages: int
    """Into how many pieces it is cut."""


@dataclass(frozen=True, kw_only=True)
class PassageSearch:
    """How one collection is searched."""

    search_type: SearchType
    """How."""

    top_k: int
    """Passages that are wanted."""

    fetch_k: int
    """Passages that are chosen from."""

    lambda_mult: float
    """Of `mmr`."""


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

    @property
    def settings(self) -> DocumentSettings:
        """As they are now."""
        return self._settings()

    # Collections

    async def collections(self, project_id: str, *, counted: bool = True) -> list[Collection]:
        """The collections of a project by name, with what keeps them from being searched.

        Args:
            project_id: The tenant.
            counted: Whether to count what is in them; if not, `passages` is 1 where there is any.
        """
        rows = await self._rows.collections(project_id, counted=counted)
        return [self._collection_of(row) for row in rows]

    async def collection(self, project_id: str, name: str) -> Collection:
        """One by its name or alias.

        Raises:
            ArgumentError: There is none.
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
        """Make a collection, or give one that is there another alias or description.

        Raises:
            ArgumentError: The name is none, or the collection has another model, metric or place.
            ConfigError: There is no such model or place.
            EmbedderError: The model cannot be used.
        """
        rows = await self._rows.collections(project_id)
        existing = _named(rows, name)
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
                alias=existing.alias if alias is None else _line(alias, "alias", 100),
                description=existing.description
                if description is None
                else _line(description, "description", 2000),
            )
            if changed != existing:
                await self._rows.save_collection(changed)
            return self._collection_of(changed)
        if not _NAME.fullmatch(name):
            raise ArgumentError(
                f"{name[:80]!r} is no name of a collection.",
                allowed="Allowed: letters, digits, and . _ - after the first; 64 at most.",
            )
        row = await self._fresh(
            StoredCollection(
                collection_id=new_id(),
                project_id=project_id,
                name=name,
                alias=_line(alias or "", "alias", 100),
                description=_line(description or "", "description", 2000),
                model=model or self.settings.model,
                model_identity="",
                dim=1,
                metric=metric or self.settings.metric,
                place=place or self.settings.place,
                shelf_id="",
            )
        )
        if not await self._rows.save_collection(row):
            row = await self._row(project_id, name)  # somebody else has made it meanwhile
        return self._collection_of(row)

    async def _fresh(self, row: StoredCollection) -> StoredCollection:
        """A collection with a new, empty shelf for its model, metric and place."""
        if row.metric not in METRICS:
            raise ArgumentError(
                f"There is no metric {row.metric[:40]!r}.",
                allowed=f"Metrics: {', '.join(METRICS)}.",
            )
        embedder = self._workshop.embedder(row.model)
        place = self._workshop.place_of(row.place)
        self._workshop.index(place)  # one that cannot be used is said now
        [probe] = await embedded(embedder, ["a text"], "document")
        return replace(
            row,
            model_identity=embedder.identity,
            dim=len(probe),
            place=place,
            shelf_id=new_id(),
        )

    async def delete(self, project_id: str, name: str) -> Collection:
        """Remove a collection with all that is in it.

        Raises:
            ArgumentError: There is none.
        """
        before = await self._row(project_id, name, counted=True)
        async with self._alone(before) as row:
            try:
                await self._workshop.index(row.place).drop(_shelf(row))
            except (ConfigError, StoreError) as error:
                log.warning("vectors not removed", extra={"place": row.place, "error": str(error)})
            await self._rows.delete_collection(row.collection_id)
        return self._collection_of(before)

    async def reindex(
        self,
        project_id: str,
        name: str,
        *,
        model: str | None = None,
        metric: str | None = None,
        place: str | None = None,
    ) -> Collection:
        """Compute the vectors of a collection anew, also for another model, metric or place.

        The collection is searched with its old vectors until the new ones are complete.

        Raises:
            ArgumentError: There is no such collection or metric.
            ConfigError: There is no such model or place.
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
            index = self._workshop.index(fresh.place)
            try:
                await self._fill(fresh, index)
                await index.settle(_shelf(fresh))
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await index.drop(_shelf(fresh))
                raise
            await self._rows.save_collection(fresh)
            current_row = await self._row(project_id, name, counted=True)
            if await index.count(_shelf(fresh)) != current_row.passages:
                await self._fill(fresh, index)  # another gateway has added some meanwhile
            try:
                await self._workshop.index(row.place).drop(_shelf(row))
            except (ConfigError, StoreError) as error:
                log.warning("vectors not removed", extra={"place": row.place, "error": str(error)})
        return self._collection_of(
            replace(fresh, documents=current_row.documents, passages=current_row.passages)
        )

    async def _fill(self, row: StoredCollection, index: PassageIndex) -> None:
        embedder = self._workshop.embedder(row.model)
        after = -1
        while pages := await self._rows.passage_page(row.collection_id, after=after, limit=_BATCH):
            pieces = [DocumentChunk(text=page.text, heading=page.heading) for _, page in pages]
            vectors = await embedded(embedder, [piece.embedded for piece in pieces], "document")
            placed = [
                PassageKey(passage_id=page.passage_id, document_id=document)
                for document, page in pages
            ]
            await index.put(_shelf(row), placed, vectors)
            after = pages[-1][1].passage_id

    # Documents

    async def documents(self, project_id: str, name: str) -> list[StoredDocument]:
        """The documents of a collection, by origin and source.

        Raises:
            ArgumentError: There is no such collection.
        """
        row = await self._row(project_id, name)
        return await self._rows.documents(row.collection_id)

    def kept_hash(self, sha256: str) -> str:
        """What a document is known by: its file, and how it is cut now."""
        return f"{sha256}-{self.settings.passage_tokens}"

    async def add(self, project_id: str, name: str, document: NewDocument) -> AddedDocument:
        """Take a document in, in the place of the one with its origin and source.

        Raises:
            ArgumentError: There is no such collection.
            DocumentError: The document has no text.
            EmbedderError: The model failed; nothing was changed.
            StoreError: The vectors could not be kept; nothing was changed.
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
                _cut, document, self.settings.passage_tokens
            )
            if not pieces:
                raise DocumentError(
                    f"{document.source} has no text.",
                    hint="If it shows pictures of text, recognise the text first (OCR).",
                )
            document_id = new_id()
            index, shelf = self._workshop.index(row.place), _shelf(row)
            for at in range(0, len(passages), _BATCH):
                texts = [piece.embedded for piece in pieces[at : at + _BATCH]]
                vectors = await embedded(embedder, texts, "document")
                placed = [
                    PassageKey(passage_id=passage.passage_id, document_id=document_id)
                    for passage in passages[at : at + _BATCH]
                ]
                await index.put(shelf, placed, vectors)
            # From here on it is found: the vectors alone were not.
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
                await index.remove(shelf, gone)
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
        """Remove documents by source, origin or id; gives those that were there.

        Raises:
            ArgumentError: There is no such collection.
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
                await self._workshop.index(row.place).remove(_shelf(row), ids)
        return doomed

    async def settle(self, project_id: str, name: str) -> None:
        """Prepare a collection for being searched after much was added; may be slow."""
        row = await self._row(project_id, name)
        await self._workshop.index(row.place).settle(_shelf(row))

    # Searching

    async def vector(self, model: str, question: str) -> NDArray[np.float32]:
        """The vector of a question.

        Raises:
            ConfigError: There is no such model.
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
        """The passages of one collection that fit, best first, each with its rank there.

        Raises:
            StoreError: The collection did not answer, or has failed so often that it rests.
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
                passages = await self._search(collection, question, vector, looking)
        except Exception:
            rest = monotonic() + self.settings.cooldown_s
            self._failures[collection.collection_id] = (failures + 1, rest)
            raise
        self._failures.pop(collection.collection_id, None)
        return passages

    async def _search(
        self,
        collection: Collection,
        question: str,
        vector: NDArray[np.float32],
        looking: PassageSearch,
    ) -> list[FoundPassage]:
        index = self._workshop.index(collection.place)
        shelf = VectorCollection(
            collection_id=collection.collection_id,
            shelf_id=collection.shelf_id,
            dim=collection.dim,
            metric=collection.metric,
        )
        fetched = max(looking.fetch_k, looking.top_k)
        limit = looking.top_k if looking.search_type.startswith("similarity") else fetched
        near = await index.nearest(shelf, vector, limit=limit)
        similarities: dict[int, float | None] = {
            neighbour.passage_id: neighbour.similarity for neighbour in near
        }
        words: dict[int, float] = {}
        match looking.search_type:
            case "mmr":
                rows = await index.vectors(shelf, list(similarities))
                chosen = diversify(
                    vector,
                    rows,
                    list(similarities),
                    limit=looking.top_k,
                    lambda_mult=looking.lambda_mult,
                )
                similarities = dict.fromkeys(chosen)  # the order is no longer that of nearness
            case "hybrid":
                words = dict(
                    await best_by_words(
                        self._rows, collection.collection_id, question, limit=fetched
                    )
                )
                remaining = [number for number in words if number not in similarities]
                similarities |= await self._similarities(index, shelf, remaining, vector)
            case _:
                pass
        sources = await self._rows.passages(list(similarities))
        passages = [
            FoundPassage(
                passage_id=number,
                text=sources[number].passage.text,
                collection=collection.name,
                document_id=sources[number].document_id,
                source=sources[number].source,
                title=sources[number].title,
                heading=sources[number].passage.heading,
                page=sources[number].passage.page,
                similarity=value,
                words=words.get(number),
            )
            for number, value in similarities.items()
            if number in sources  # one whose document has just gone
        ]
        return [replace(passage, rank=rank) for rank, passage in enumerate(passages, 1)]

    async def _similarities(
        self,
        index: PassageIndex,
        shelf: VectorCollection,
        numbers: Sequence[int],
        vector: NDArray[np.float32],
    ) -> dict[int, float | None]:
        """Similarities of passages that were found by their words alone."""
        rows = await index.vectors(shelf, numbers)
        there = [number for number in numbers if number in rows]
        similarities: dict[int, float | None] = dict.fromkeys(numbers)
        if there:
            stacked = np.stack([rows[number] for number in there])
            values = similarity(shelf.metric, measured(shelf.metric, stacked, vector))
            similarities |= dict(zip(there, map(float, values), strict=True))
        return similarities

    # Helpers

    async def _row(self, project_id: str, name: str, *, counted: bool = False) -> StoredCollection:
        rows = await self._rows.collections(project_id, counted=counted)
        row = _named(rows, name)
        if row is None:
            raise ArgumentError(
                f"There is no collection {name[:80]!r}.",
                allowed=f"Collections: {', '.join(row.name for row in rows) or 'none'}.",
                hint="Make one with: toolgate docs add FILES --collection NAME",
            )
        return row

    def _current(self, row: StoredCollection) -> Embedder:
        """The model of a collection, if it is the one that has filled it."""
        embedder = self._workshop.embedder(row.model)
        if embedder.identity != row.model_identity:
            raise SettingError(
                f"The collection {row.name!r} was filled by the model {row.model_identity!r}, and "
                f"{row.model!r} is {embedder.identity!r} now.",
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
        """The collection as it is now, while nobody else of this process writes it."""
        async with self._writing.setdefault(row.collection_id, anyio.Lock()):
            yield await self._row(row.project_id, row.name)


def _named(rows: Sequence[StoredCollection], name: str) -> StoredCollection | None:
    folded = name.strip().casefold()
    by_name = next((row for row in rows if row.name.casefold() == folded), None)
    return by_name or next(
        (row for row in rows if row.alias and row.alias.casefold() == folded), None
    )


def _shelf(row: StoredCollection) -> VectorCollection:
    return VectorCollection(
        collection_id=row.collection_id,
        shelf_id=row.shelf_id,
        dim=row.dim,
        metric=cast("Metric", row.metric),
    )


def _line(text: str, label: str, max_chars: int) -> str:
    """A text for people in one line."""
    line = " ".join(text.split())
    if len(line) > max_chars:
        raise ArgumentError(
            f"The {label} has {len(line):,} characters.", allowed=f"Allowed: {max_chars:,} at most."
        )
    return line


def _cut(document: NewDocument, max_tokens: int) -> tuple[list[DocumentChunk], list[StoredPassage]]:
    """The pieces of a document, and as what they are stored. Takes its time."""
    pieces = split_document(document.text, max_tokens=max_tokens, has_pages=document.has_pages)
    first = randbits(61)
    return pieces, [
        StoredPassage(
            passage_id=first + at,
            ordinal=at,
            text=piece.text,
            heading=piece.heading,
            page=piece.page,
            words=" ".join(words_of(piece.embedded)),
        )
        for at, piece in enumerate(pieces)
    ]
