"""Inputs, results and collaborators of the document library."""

from dataclasses import dataclass
from typing import Protocol

from toolgate.models.embedders import Embedder
from toolgate.models.rerankers import Reranker
from toolgate.store.vectors import VectorStore

__all__ = ["AddedDocument", "DocumentResources", "NewDocument"]


class DocumentResources(Protocol):
    """Gives what settings name; made by `app`."""

    def embedder(self, name: str) -> Embedder:
        """An embedding model by its name in `[documents.models]`.

        Raises:
            ConfigError: There is none, it is switched off, or its options are wrong.
        """
        ...

    def vectors(self, place: str) -> VectorStore:
        """The vector store of a place; `auto`: that of the store.

        Raises:
            ConfigError: There is none, or its library is not installed.
        """
        ...

    def reranker(self) -> Reranker | None:
        """What puts passages in order; None: it is off.

        Raises:
            ConfigError: There is none of that name, or its options are wrong.
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
