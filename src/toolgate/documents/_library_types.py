"""Inputs, results and collaborators of the document library."""

from dataclasses import dataclass
from typing import Protocol

from toolgate.models.embedders import Embedder
from toolgate.models.rerankers import Reranker
from toolgate.store.vectors import VectorStore


class DocumentResources(Protocol):
    """Creates what settings name; implemented by `app`."""

    def embedder(self, name: str) -> Embedder:
        """Return an embedding model by its name in `[documents.models]`.

        Raises:
            ConfigError: It does not exist, is disabled, or has invalid options.
        """
        ...

    def vectors(self, place: str) -> VectorStore:
        """Return a vector store by name; `auto`: that of the store.

        Raises:
            ConfigError: It does not exist, or its library is not installed.
        """
        ...

    def reranker(self) -> Reranker | None:
        """Return the reranker; None: it is off.

        Raises:
            ConfigError: It does not exist, or has invalid options.
        """
        ...

    def place_of(self, place: str) -> str:
        """Return the name of a vector store; for `auto` that of the store's."""
        ...


@dataclass(frozen=True, kw_only=True)
class NewDocument:
    """A document to add."""

    source: str
    """Its path relative to the origin, or its URL."""

    text: str
    """Markdown; a form feed ends a page."""

    origin: str = ""
    """What is added: the absolute path of a folder or file, or a URL."""

    title: str = ""
    """The document's own title."""

    media_type: str = "text/markdown"
    """Media type of the original file."""

    sha256: str = ""
    """SHA-256 of the original file, in hex."""

    size_bytes: int = 0
    """Size of the original file in bytes."""

    has_pages: bool = False
    """Whether form feeds mark the pages of the original."""


@dataclass(frozen=True, kw_only=True)
class AddedDocument:
    """The result of adding a document."""

    source: str
    """Source of the document."""

    status: str
    """`added`, `replaced` or `unchanged`."""

    passages: int
    """Number of its passages."""
