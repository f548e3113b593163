"""Embedders turn texts into vectors. One file per embedder."""

from toolgate.models.embedders._bundled_vectors import bundled_vectors
from toolgate.models.embedders._verified import VerifiedEmbedder
from toolgate.models.embedders.base import (
    Embedder,
    Reads,
    TextKind,
    Vectors,
    computes_at_once,
    embedded,
    is_remote,
)

__all__ = [
    "Embedder",
    "Reads",
    "TextKind",
    "Vectors",
    "VerifiedEmbedder",
    "bundled_vectors",
    "computes_at_once",
    "embedded",
    "is_remote",
]
