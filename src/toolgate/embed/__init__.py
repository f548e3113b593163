"""Texts to vectors. Embedders by file name."""

from toolgate.embed._proven import Proven
from toolgate.embed.base import (
    Embedder,
    Reads,
    TextKind,
    Vectors,
    computes_at_once,
    embedded,
)

__all__ = ["Embedder", "Proven", "Reads", "TextKind", "Vectors", "computes_at_once", "embedded"]
