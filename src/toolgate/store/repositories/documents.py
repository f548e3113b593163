"""Collections of documents and their passages, as a store keeps them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = [
    "DocumentRepository",
    "PassageSource",
    "StoredCollection",
    "StoredDocument",
    "StoredPassage",
    "WordCounts",
]


@dataclass(frozen=True, kw_only=True)
class StoredCollection:
    """Documents that are searched together."""

    collection_id: str
    """Opaque; letters and digits."""

    project_id: str
    """The tenant."""

    name: str
    """Unique within a project without case."""

    alias: str = ""
    """Another name for people."""

    description: str = ""
    """What is in it."""

    model: str
    """The embedding model by its name in the settings."""

    model_identity: str
    """What the model was when the collection was filled."""

    dim: int
    """Numbers of a vector."""

    metric: str
    """`cosine`, `euclidean` or `dot`."""

    place: str
    """Where its vectors are: a file name in `vectors/`."""

    shelf_id: str
    """The collection of its vectors now."""

    version: int = 0
    """Grows with each change of its documents."""

    updated_at: str = ""
    """UTC, ISO 8601."""

    documents: int = 0
    """How many it has; counted when it is read."""

    passages: int = 0
    """How many pieces they have; counted when it is read."""


@dataclass(frozen=True, kw_only=True)
class StoredDocument:
    """A document that was taken in."""

    document_id: str
    """Opaque; letters and digits."""

    collection_id: str
    """Where it belongs."""

    source: str
    """Its path within what was added, or its address."""

    origin: str = ""
    """What was added and brought it: a folder, a file or an address, in full."""

    title: str = ""
    """What it calls itself."""

    media_type: str = ""
    """Of the file that it was."""

    content_hash: str = ""
    """Of the file that it was, and of all that decides how it is cut."""

    size_bytes: int = 0
    """Of the file that it was."""

    passages: int = 0
    """Into how many pieces it is cut."""

    added_at: str = ""
    """UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class StoredPassage:
    """A piece of a document."""

    passage_id: int
    """Its number, below 2**62."""

    ordinal: int
    """Its place in the document, from 0 on."""

    text: str
    """What stands there."""

    heading: str = ""
    """The headings above it."""

    page: int | None = None
    """Its page, from 1 on."""

    words: str = ""
    """What it is found by: words separated by blanks, each as often as it stands there."""


@dataclass(frozen=True, kw_only=True)
class PassageSource:
    """A piece with the document that it is of."""

    passage: StoredPassage
    """The piece."""

    document_id: str
    """Its document."""

    source: str
    """Where that came from."""

    title: str
    """What that calls itself."""


@dataclass(frozen=True, kw_only=True)
class WordCounts:
    """What is needed to weigh words."""

    passages: int
    """Passages of the collection."""

    words: int
    """Words of all of them together."""

    having: Mapping[str, int]
    """Passages that have a word, by word."""


class DocumentRepository(Protocol):
    """Collections, their documents and passages. Each method is one transaction."""

    async def collections(self, project_id: str, *, counted: bool = True) -> list[StoredCollection]:
        """The collections of a project, by name.

        Args:
            project_id: The tenant.
            counted: Whether to count what is in them; if not, `passages` is 1 where there is any.
        """
        ...

    async def save_collection(self, row: StoredCollection) -> bool:
        """Insert, or replace the one with this id; False when another one has its name."""
        ...

    async def delete_collection(self, collection_id: str) -> None:
        """Remove a collection with all that is in it."""
        ...

    async def documents(self, collection_id: str) -> list[StoredDocument]:
        """The documents of a collection, by origin and source."""
        ...

    async def document(self, collection_id: str, origin: str, source: str) -> StoredDocument | None:
        """The document of an origin and a source; None: there is none."""
        ...

    async def replace_document(
        self, document: StoredDocument, passages: Sequence[StoredPassage]
    ) -> list[str]:
        """Replace the documents with this origin and source; gives their ids."""
        ...

    async def remove_documents(self, collection_id: str, documents: Collection[str]) -> int:
        """Remove documents; gives how many there were."""
        ...

    async def passages(self, numbers: Sequence[int]) -> dict[int, PassageSource]:
        """Passages by number, as far as they exist."""
        ...

    async def passage_page(
        self, collection_id: str, *, after: int, limit: int
    ) -> list[tuple[str, StoredPassage]]:
        """Passages of a collection in the order of their numbers, each with its document.

        Args:
            collection_id: The collection.
            after: The number that the page begins after; -1: from the first on.
            limit: How many.
        """
        ...

    async def word_counts(self, collection_id: str, words: Sequence[str]) -> WordCounts:
        """How often words are in a collection."""
        ...

    async def with_word(
        self, collection_id: str, word: str, *, limit: int
    ) -> list[tuple[int, str, str]]:
        """Passages that have a word: number, document and all words."""
        ...
