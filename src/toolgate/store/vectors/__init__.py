"""Vector stores for tools. One file per backend."""

from toolgate.store.vectors.base import (
    HASH_BYTES,
    TextLink,
    TextMatch,
    VectorCounts,
    VectorSpace,
    VectorStore,
)

__all__ = ["HASH_BYTES", "TextLink", "TextMatch", "VectorCounts", "VectorSpace", "VectorStore"]
