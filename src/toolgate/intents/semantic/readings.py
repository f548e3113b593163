"""Has messages of other languages read by models that know English only."""

from collections.abc import Sequence

from toolgate.models.embedders import Embedder, Vectors, embedded
from toolgate.search import in_english

__all__ = ["message_vectors", "readable"]


def readable(embedder: Embedder, texts: Sequence[str]) -> list[str]:
    """The texts as an embedder can read them: word by word in English, if it knows nothing else."""
    if embedder.reads != "english":
        return list(texts)
    readings = [in_english(text) for text in texts]
    return [
        text if reading is None else reading.text
        for text, reading in zip(texts, readings, strict=True)
    ]


async def message_vectors(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """Vectors of messages, and of prompts, which are compared with them.

    Raises:
        EmbedderError: As `Embedder.embed`.
        ValueError: They are not what was promised.
    """
    return await embedded(embedder, readable(embedder, texts), "query")
