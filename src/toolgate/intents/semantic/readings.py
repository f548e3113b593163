"""Translate messages of other languages, word by word, for models that know only English."""

from collections.abc import Sequence

from toolgate.models.embedders import Embedder, Vectors, embedded
from toolgate.search import in_english


def readable_texts(texts: Sequence[str]) -> list[str]:
    """Return the texts, those of other supported languages word by word in English."""
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
    readable = readable_texts(texts) if embedder.reads == "english" else list(texts)
    return await embedded(embedder, readable, "query")
