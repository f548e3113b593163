"""The embedder `bundled`: the vector table that ships with the package.

Knows English, and words of other languages that are the same in English; unknown scripts give
zeros. No download, no network, the same vectors everywhere. See `docs/model.md`.
"""

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from anyio import to_thread
from numpy.typing import NDArray

from toolgate.errors import EmbedderError
from toolgate.models.embedders._late_interaction import compare_passages
from toolgate.models.embedders._vector_table import VectorTable, read_table
from toolgate.models.embedders._verified import NEAR
from toolgate.models.embedders.base import Reads, TextKind, Vectors

MODEL = Path(__file__).parent / "data" / "model.npz"
"""The table in the package."""

RECORD = MODEL.with_name("model.json")
"""Expected values: `name`, and the `cosine` of two sentences where the table was made."""

_OFF = 1e-3
"""Largest deviation from the recorded cosine; more means other code or another file (chosen)."""

_AT_ONCE = 4_096
"""Characters that are computed in the event loop: less than 0.5 ms (chosen)."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of the embedder `bundled`: none."""


def build(options: Options) -> "BundledEmbedder":  # noqa: ARG001 - every embedder is built like this
    """Create the embedder, which reads the file when it gets its first text.

    Raises:
        EmbedderError: The file is missing, truncated or damaged.
    """
    return BundledEmbedder()


class BundledEmbedder:
    """Vectors from the table in the package, which a process reads once."""

    def __init__(self, path: Path = MODEL) -> None:
        """Use the table at `path`, such as a new one to try before it is shipped."""
        self._path = path
        self._loaded: VectorTable | None = None

    @property
    def identity(self) -> str:
        """Name and version of the table."""
        return self._table.name

    @property
    def dim(self) -> int:
        """Dimension of the vectors."""
        return self._table.dim

    @property
    def reads(self) -> Reads:
        """English."""
        return "english"

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:  # noqa: ARG002 - one table for both kinds
        """Return vectors of shape `(len(texts), dim)`."""
        if self.computes_at_once(texts):
            return self._compute(texts)
        return await to_thread.run_sync(self._compute, tuple(texts))

    def computes_at_once(self, texts: Sequence[str]) -> bool:
        """Whether the texts are few and short, and the file is loaded."""
        few = len(texts) <= 32 and sum(map(len, texts)) <= _AT_ONCE
        return few and (self._loaded is not None or self._path in _tables)

    @property
    def _table(self) -> VectorTable:
        if self._loaded is None:
            self._loaded = _shared(self._path)
        return self._loaded

    async def compare(
        self, question: str, passages: Sequence[Sequence[str]]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return how similar the sentences and subwords of passages are to a question.

        Args:
            question: The user's question.
            passages: For each passage its heading, which may be empty, followed by its sentences.

        Returns:
            See `compare_passages`.
        """
        return await to_thread.run_sync(compare_passages, self._table, question, tuple(passages))

    def _compute(self, texts: Sequence[str]) -> Vectors:
        return self._table.vectors(texts)


def table_vectors(texts: Sequence[str]) -> Vectors:
    """Return the vectors of texts from the table in the package, computed in the calling thread.

    Raises:
        EmbedderError: The file is missing, truncated or damaged.
    """
    return _shared(MODEL).vectors(texts)


_tables: dict[Path, VectorTable] = {}
_reading = threading.Lock()


def _shared(path: Path) -> VectorTable:
    table = _tables.get(path)
    if table is None:
        with _reading:
            table = _tables.get(path) or _proved(read_table(path))
            _tables[path] = table
    return table


def _proved(table: VectorTable) -> VectorTable:
    """Return the table if it gives the recorded cosine; tables without a record pass."""
    try:
        record = json.loads(RECORD.read_text(encoding="utf-8"))
        name, expected = str(record["name"]), float(record["cosine"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _failed(f"its record {RECORD.name!r} cannot be read") from error
    cosine = float(table.vector(NEAR[0]) @ table.vector(NEAR[1]))
    if name == table.name and abs(cosine - expected) > _OFF:
        raise _failed(f"two sentences have cosine {cosine:.4f} instead of {expected:.4f}")
    return table


def _failed(reason: str) -> EmbedderError:
    return EmbedderError(
        f"The embedding model does not pass its test: {reason}.",
        allowed="Search goes on with words alone.",
        hint="Install Toolgate again; this restores the file.",
    )
