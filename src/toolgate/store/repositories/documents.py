"""Stored collections of documents and their passages."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class StoredCollection:
    """Documents that are searched together."""

    collection_id: str
    """Opaque id of letters and digits."""

    project_id: str
    """The project."""

    name: str
    """Unique within a project, ignoring case."""

    alias: str = ""
    """Display name."""

    description: str = ""
    """Description of the contents."""

    model: str
    """Name of the embedding model in the settings."""

    model_identity: str
    """Identity of the model when the collection was filled."""

    dim: int
    """Dimension of the vectors."""

    metric: str
    """`cosine`, `euclidean` or `dot`."""

    place: str
    """The vector store: a file name in `store/vectors/`."""

    shelf_id: str
    """Id of the current vector collection."""

    version: int = 0
    """Grows with each change of its documents."""

    updated_at: str = ""
    """UTC, ISO 8601."""

    documents: int = 0
    """Number of documents; counted when it is read."""

    passages: int = 0
    """Number of passages; counted when it is read."""


@dataclass(frozen=True, kw_only=True)
class StoredDocument:
    """A document of a collection."""

    document_id: str
    """Opaque id of letters and digits."""

    collection_id: str
    """Its collection."""

    source: str
    """Its path within what was added, or its URL."""

    origin: str = ""
    """What was added: the full path of a folder or file, or a URL."""

    title: str = ""
    """Title of the document."""

    media_type: str = ""
    """Media type of the original file."""

    content_hash: str = ""
    """Hash of the original file and of all settings that affect chunking."""

    size_bytes: int = 0
    """Size of the original file."""

    passages: int = 0
    """Number of passages."""

    added_at: str = ""
    """UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class StoredFailure:
    """A document that could not be imported."""

    source: str
    """As in `StoredDocument`."""

    origin: str = ""
    """As in `StoredDocument`."""

    reason: str = ""
    """What is wrong with it, for people."""

    failed_at: str = ""
    """UTC, ISO 8601; set by the store."""


@dataclass(frozen=True, kw_only=True)
class StoredPassage:
    """A passage of a document."""

    passage_id: int
    """Its number, below 2**62."""

    ordinal: int
    """Its position in the document, from 0."""

    text: str
    """Its text."""

    heading: str = ""
    """The headings above it."""

    page: int | None = None
    """Its page, from 1."""

    words: str = ""
    """Search terms, separated by spaces and repeated as often as they occur."""


@dataclass(frozen=True, kw_only=True)
class PassageSource:
    """A passage with its document."""

    passage: StoredPassage
    """The passage."""

    document_id: str
    """Id of its document."""

    source: str
    """Source of the document."""

    title: str
    """Title of the document."""


@dataclass(frozen=True, kw_only=True)
class WordCounts:
    """Word frequencies for weighting."""

    passages: int
    """Passages of the collection."""

    words: int
    """Number of words in all passages."""

    having: Mapping[str, int]
    """Number of passages that contain a word, by word."""


class DocumentRepository(Protocol):
    """Collections, their documents and passages. Each method is one transaction."""

    async def collections(self, project_id: str, *, counted: bool = True) -> list[StoredCollection]:
        """The collections of a project, by name.

        Args:
            project_id: The project.
            counted: Whether to count their contents; if not, `passages` is 1 if there are any.
        """
        ...

    async def save_collection(self, row: StoredCollection) -> bool:
        """Insert or replace by id. False if another collection has the name."""
        ...

    async def delete_collection(self, collection_id: str) -> None:
        """Delete a collection with its contents."""
        ...

    async def documents(self, collection_id: str) -> list[StoredDocument]:
        """The documents of a collection, by origin and source."""
        ...

    async def document(self, collection_id: str, origin: str, source: str) -> StoredDocument | None:
        """The document with an origin and source; None if there is none."""
        ...

    async def replace_document(
        self, document: StoredDocument, passages: Sequence[StoredPassage]
    ) -> list[str]:
        """Replace the documents with this origin and source. Returns the replaced ids.

        A failure with this origin and source is deleted.
        """
        ...

    async def failures(self, collection_id: str) -> list[StoredFailure]:
        """The documents that could not be imported, by origin and source."""
        ...

    async def save_failures(
        self, collection_id: str, failures: Sequence[StoredFailure], *, origins: Collection[str]
    ) -> None:
        """Insert failures, or replace those with the same origin and source.

        Args:
            collection_id: The collection.
            failures: The failures.
            origins: Origins whose other failures are deleted.
        """
        ...

    async def remove_failure(self, collection_id: str, origin: str, source: str) -> bool:
        """Delete a failure. False if there is none."""
        ...

    async def remove_documents(self, collection_id: str, documents: Collection[str]) -> int:
        """Delete documents. Returns how many existed."""
        ...

    async def passages(self, numbers: Sequence[int]) -> dict[int, PassageSource]:
        """Existing passages by number."""
        ...

    async def passage_page(
        self, collection_id: str, *, after: int, limit: int
    ) -> list[tuple[str, StoredPassage]]:
        """Passages of a collection in the order of their numbers, each with its document.

        Args:
            collection_id: The collection.
            after: Number after which the page starts; -1: at the first passage.
            limit: Largest number of passages.
        """
        ...

    async def word_counts(self, collection_id: str, words: Sequence[str]) -> WordCounts:
        """Frequencies of words in a collection."""
        ...

    async def with_word(
        self, collection_id: str, word: str, *, limit: int
    ) -> list[tuple[int, str, str]]:
        """Passages that contain a word: number, document and search terms."""
        ...
