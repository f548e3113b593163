"""Where the vectors of passages are kept and compared. Implementations by file name."""

from toolgate.store.passages._exact_search import measured
from toolgate.store.passages.base import (
    METRICS,
    Metric,
    Near,
    PassageIndex,
    Placed,
    Shelf,
    similarity,
)

__all__ = ["METRICS", "Metric", "Near", "PassageIndex", "Placed", "Shelf", "measured", "similarity"]
