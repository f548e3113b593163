"""Counters of a search with vectors, for REST, the CLI and the console."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

from toolgate.base.tracing import observe
from toolgate.models.embedders import Embedder, TextKind, Vectors, embedded
from toolgate.types import Json

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

    async def embed(self, embedder: Embedder, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Return the vectors of texts, and count the embedder's work; raises like `embedded`."""
        work = self.embedding[kind]
        began = perf_counter()
        try:
            with observe("embed", kind=kind, texts=len(texts)):
                vectors = await embedded(embedder, texts, kind)
        except Exception:  # an interrupted batch is computed again
            work.failures += 1
            raise
        finally:
            work.seconds += perf_counter() - began
        work.texts += len(texts)
        return vectors

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
