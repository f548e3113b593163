"""Where the vectors of passages are kept and compared. Implementations by file name."""

from toolgate.passages._exact import measured
from toolgate.passages.base import METRICS, Metric, Near, PassageIndex, Placed, Shelf, similarity

__all__ = ["METRICS", "Metric", "Near", "PassageIndex", "Placed", "Shelf", "measured", "similarity"]
