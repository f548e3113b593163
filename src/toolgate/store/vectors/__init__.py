"""Vector stores, for tools and for documents. One file per backend."""

from toolgate.store.vectors._rows import measured
from toolgate.store.vectors.base import (
    KEY_BYTES,
    METRICS,
    Metric,
    Precision,
    ReceiveRows,
    Rows,
    VectorCollection,
    VectorMatch,
    VectorStore,
)

__all__ = [
    "KEY_BYTES",
    "METRICS",
    "Metric",
    "Precision",
    "ReceiveRows",
    "Rows",
    "VectorCollection",
    "VectorMatch",
    "VectorStore",
    "measured",
]
