"""Vector stores for document passages. One file per backend."""

from toolgate.store.passages._exact_search import measured
from toolgate.store.passages.base import (
    METRICS,
    Metric,
    PassageIndex,
    PassageKey,
    PassageMatch,
    VectorCollection,
    similarity,
)

__all__ = [
    "METRICS",
    "Metric",
    "PassageIndex",
    "PassageKey",
    "PassageMatch",
    "VectorCollection",
    "measured",
    "similarity",
]
