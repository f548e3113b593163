"""Where vectors of texts are kept, and found by nearness. Implementations by file name."""

from toolgate.store.vectors.base import (
    HASH_BYTES,
    Nearest,
    Space,
    TextLink,
    VectorCounts,
    VectorStore,
)

__all__ = ["HASH_BYTES", "Nearest", "Space", "TextLink", "VectorCounts", "VectorStore"]
