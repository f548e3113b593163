"""Where vectors of texts are kept, and found by nearness. Implementations by file name."""

from toolgate.store.vectors.base import (
    HASH_BYTES,
    TextLink,
    TextMatch,
    VectorCounts,
    VectorSpace,
    VectorStore,
)

__all__ = ["HASH_BYTES", "TextLink", "TextMatch", "VectorCounts", "VectorSpace", "VectorStore"]
