"""What a search with vectors counts while it runs, for REST, the CLI and the console."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from toolgate.base.tracing import observe
from toolgate.models.embedders import (
    Embedder,
    Reads,
    TextKind,
    Vectors,
    computes_at_once,
    is_remote,
)
from toolgate.types import Json

__all__ = ["CountingEmbedder", "SearchMetrics"]

# Chosen: enough for a stable 99th percentile.
_REMEMBERED = 1_000
"""Latest searches of which the latency is kept."""


@dataclass
class _Embedding:
    """Work of the embedder for one kind of text."""

    texts: int = 0
    seconds: float = 0.0
    failures: int = 0

    def as_json(self) -> Json:
        return {
            "texts": self.texts,
            "total_s": round(self.seconds, 3),
            "failures": self.failures,
        }


@dataclass
class SearchMetrics:
    """Counts since the start of the process. Changed in the event loop only."""

    searches: int = 0
    """Requests that were answered."""
    fallbacks: int = 0
    """Those that were answered by words alone although vectors are wanted."""
    answers_kept: int = 0
    """Those that were answered with what was kept of the same request."""
    vectors_asked: int = 0
    """Texts of requests whose vector was wanted."""
    vectors_remembered: int = 0
    """Those of them whose vector was remembered."""
    partly: int = 0
    """Those for which some tools had no vector yet."""
    last_error: str = ""
    """The latest failure of the embedder or of the vector store; empty: none."""
    last_error_at: str = ""
    """When, UTC, ISO 8601."""
    stored: int = 0
    """Vectors that were written to the store."""
    loaded: int = 0
    """Vectors that were read from the store instead of being computed."""
    embedding: dict[TextKind, _Embedding] = field(
        default_factory=lambda: {"query": _Embedding(), "document": _Embedding()}
    )
    """Work of the embedder by kind of text."""
    _latencies_ms: deque[float] = field(default_factory=lambda: deque[float](maxlen=_REMEMBERED))

    def searched(self, duration_ms: float) -> None:
        """A request was answered."""
        self.searches += 1
        self._latencies_ms.append(duration_ms)

    def failed(self, error: str, at: str) -> None:
        """Something behind the search failed."""
        self.last_error, self.last_error_at = error, at

    def as_json(self) -> Json:
        """For REST and `--json`; documented in `docs/programs.md`."""
        ordered = sorted(self._latencies_ms)
        return {
            "searches": self.searches,
            "latency_ms": {
                "p50": _at(ordered, 0.50),
                "p95": _at(ordered, 0.95),
                "p99": _at(ordered, 0.99),
            },
            "fallbacks": self.fallbacks,
            "fallback_rate": round(self.fallbacks / self.searches, 6) if self.searches else 0.0,
            "with_backlog": self.partly,
            "embedding": {kind: work.as_json() for kind, work in self.embedding.items()},
            "answers_kept": self.answers_kept,
            "vectors_asked": self.vectors_asked,
            "vectors_remembered": self.vectors_remembered,
            "vectors_stored": self.stored,
            "vectors_loaded": self.loaded,
        }


def _at(ordered: Sequence[float], share: float) -> float | None:
    if not ordered:
        return None
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)


class CountingEmbedder:
    """An embedder whose work is counted and observed."""

    def __init__(self, embedder: Embedder, metrics: SearchMetrics) -> None:
        self._embedder = embedder
        self._metrics = metrics

    @property
    def identity(self) -> str:
        """That of the embedder."""
        return self._embedder.identity

    @property
    def dim(self) -> int:
        """That of the embedder."""
        return self._embedder.dim

    @property
    def reads(self) -> Reads:
        """What the embedder reads."""
        return self._embedder.reads

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """What the embedder gives."""
        work = self._metrics.embedding[kind]
        began = perf_counter()
        try:
            with observe("embed", kind=kind, texts=len(texts)):
                vectors = await self._embedder.embed(texts, kind)
        except BaseException:
            work.failures += 1
            raise
        finally:
            work.seconds += perf_counter() - began
        work.texts += len(texts)
        return vectors

    def computes_at_once(self, texts: Sequence[str]) -> bool:
        """Whether the embedder computes these texts on the spot."""
        return computes_at_once(self._embedder, texts)

    @property
    def is_remote(self) -> bool:
        """Whether the embedder is a service over a network."""
        return is_remote(self._embedder)

    async def aclose(self) -> None:
        """End what the embedder keeps open."""
        end: Any = getattr(self._embedder, "aclose", None)
        if end is not None:
            await end()


_: type[Embedder] = CountingEmbedder
