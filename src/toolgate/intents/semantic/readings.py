"""Translate messages of other languages for models that know only English."""

from collections.abc import Sequence

from toolgate.models.embedders import Embedder, Vectors, embedded
from toolgate.search import in_english

__all__ = ["message_vectors"]


def _readable(embedder: Embedder, texts: Sequence[str]) -> list[str]:
    """Return the texts in a form the embedder can read: word by word in English if needed."""
    if embedder.reads != "english":
        return list(texts)
    readings = [in_english(text) for text in texts]
    return [
        text if reading is None else reading.text
        for text, reading in zip(texts, readings, strict=True)
    ]


async def message_vectors(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """Return vectors of messages, and of prompts, which are compared with them.

    Raises:
        EmbedderError: As for `Embedder.embed`.
        ValueError: The vectors do not have the promised shape.
    """
    return await embedded(embedder, _readable(embedder, texts), "query")
