"""The texts of a tool that are embedded, for people who wonder why it is found or not."""

from toolgate.search._index import Indexable, IndexedTool
from toolgate.search._shown import clean
from toolgate.search._vectors import texts_of

__all__ = ["indexed_texts"]


def indexed_texts(tool: Indexable) -> tuple[str, ...]:
    """Each text once, in one line, as it may be shown."""
    return tuple(dict.fromkeys(map(clean, texts_of(IndexedTool(tool)))))
