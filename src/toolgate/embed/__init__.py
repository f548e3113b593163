"""Texts to vectors. Embedders by file name."""

from toolgate.embed.base import Embedder, TextKind, Vectors, embedded

__all__ = ["Embedder", "TextKind", "Vectors", "embedded"]
