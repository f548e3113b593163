"""Counters of a search with vectors, for REST, the CLI and the console."""

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
"""Number of latest searches whose latency is stored."""


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
    """Counters since the start of the process. Changed only in the event loop."""

    searches: int = 0
    """Number of answered requests."""
    fallbacks: int = 0
    """Number of them answered by words only although vectors are configured."""
    answers_kept: int = 0
    """Number of them answered from the cache."""
    vectors_asked: int = 0
    """Number of request texts for which a vector was needed."""
    vectors_remembered: int = 0
    """Number of these texts whose vector was cached."""
    partly: int = 0
    """Number of requests for which some tools had no vector yet."""
    last_error: str = ""
    """The latest failure of the embedder or of the vector store; empty if there was none."""
    last_error_at: str = ""
    """Time of the latest failure, UTC, ISO 8601."""
    stored: int = 0
    """Number of vectors written to the store."""
    loaded: int = 0
    """Number of vectors read from the store instead of being computed."""
    embedding: dict[TextKind, _Embedding] = field(
        default_factory=lambda: {"query": _Embedding(), "document": _Embedding()}
    )
    """Work of the embedder by kind of text."""
    _latencies_ms: deque[float] = field(default_factory=lambda: deque[float](maxlen=_REMEMBERED))

    def searched(self, duration_ms: float) -> None:
        """Count an answered request."""
        self.searches += 1
        self._latencies_ms.append(duration_ms)

    def failed(self, error: str, at: str) -> None:
        """Record a failure of something that the search uses."""
        self.last_error, self.last_error_at = error, at

    def as_json(self) -> Json:
        """Return the counters for REST and `--json`; documented in `docs/programs.md`."""
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
    """Wraps an embedder to count and observe its work."""

    def __init__(self, embedder: Embedder, metrics: SearchMetrics) -> None:
        self._embedder = embedder
        self._metrics = metrics

    @property
    def identity(self) -> str:
        """Identity of the embedder."""
        return self._embedder.identity

    @property
    def dim(self) -> int:
        """Dimensions of the embedder's vectors."""
        return self._embedder.dim

    @property
    def reads(self) -> Reads:
        """The languages that the embedder reads."""
        return self._embedder.reads

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Embed texts with the embedder."""
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
        """Return whether the embedder computes these texts immediately."""
        return computes_at_once(self._embedder, texts)

    @property
    def is_remote(self) -> bool:
        """Whether the embedder is a service over a network."""
        return is_remote(self._embedder)

    async def aclose(self) -> None:
        """Close the embedder."""
        end: Any = getattr(self._embedder, "aclose", None)
        if end is not None:
            await end()


_: type[Embedder] = CountingEmbedder
