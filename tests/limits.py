"""Time limits of tests: they detect hangs and say nothing about speed."""

from typing import Final

from toolgate.testing.contracts._limits import HANG_S

__all__ = ["EMBEDDING_S", "HANG_S"]

EMBEDDING_S: Final = 60.0
"""The same for embeddings: the longest that the options of a search allow."""
