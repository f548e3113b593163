"""Texts to vectors. Embedders by file name."""

from toolgate.embed.base import Embedder, TextKind, Vectors

__all__ = ["Embedder", "TextKind", "Vectors"]
