"""Shows what the search knows about a tool, to explain why it is found or not."""

from dataclasses import dataclass

from toolgate.search.answer.safe_text import clean
from toolgate.search.relevance.capabilities import capabilities_of
from toolgate.search.semantic.tool_vectors import texts_of
from toolgate.search.tool_index import Indexable, IndexedTool


@dataclass(frozen=True, kw_only=True)
class IndexedTexts:
    """A tool as the search reads it."""

    indexed: tuple[str, ...]
    """The complete texts that are embedded, each as one displayable line."""

    capabilities: tuple[str, ...]
    """Its capabilities, guessed from its words; not embedded, since that does not improve the
    search."""


def indexed_texts(tool: Indexable) -> IndexedTexts:
    """Return what the search knows about a tool."""
    read = IndexedTool(tool)
    return IndexedTexts(
        indexed=tuple(dict.fromkeys(map(clean, texts_of(read)[:2]))),
        capabilities=capabilities_of(read.name, read.description),
    )
