"""The settings of hybrid search."""

from dataclasses import dataclass, field

from toolgate.base.validation import check_ranges
from toolgate.search.lexical.weights import WordWeights
from toolgate.search.relevance.usage_votes import UsageWeights

__all__ = ["Options"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Table `[search.options.hybrid]`."""

    dense_weight: float = 0.65
    """Weight of meaning in the sum; words have the rest. 0 to 1."""

    clause_weight: float = 0.7
    """Weight of the best clause in a request of several; the whole request has the rest. 0 to 1."""

    clauses: int = 12
    """Most clauses of a request that are searched by themselves; 0 to 32, 0 never cuts."""

    typical_requests: bool = True
    """Whether short requests are moved towards what tools say that similar requests want."""

    reranking: bool = True
    """Whether the first hits of short requests are put in a learned order."""

    script_gate: bool = True
    """Whether meaning and servers count less where the model cannot read the request; of models for
    many languages it is taken that they can."""

    server_weight: float = 0.1
    """Weight of how near a tool's server is, by the mean of its tools, beside the sum. 0 to 1."""

    context_weight: float = 0.2
    """Weight of `context`; it shifts ranks and adds no tool. 0 to 1."""

    embed_timeout_s: float | None = None
    """Seconds that the embedder gets for a request; then words alone decide. 0.01 to 60. By default
    0.3 for a model on this machine, and 2 for a service."""

    cooldown_s: float = 10.0
    """Seconds without asking the embedder after it failed three times in a row; 0 to 3,600."""

    embedding_wait_s: float = 0.25
    """Seconds that new tools may wait for their vectors before they are searched by words; 0 to
    60."""

    database_above: int = 1_500_000
    """Catalogs of more tools are searched by meaning in the vector store, and not in
    memory; 0 to 1,000,000,000. It pays with `pgvector`: SQLite looks at every vector."""

    database_timeout_s: float = 2.0
    """Seconds that this store gets for a request; then words alone decide. 0.01 to 60."""

    cached_queries: int = 1_000
    """Vectors of requests that are kept; 0 to 100,000."""

    cache_ttl_s: float = 300.0
    """Seconds that each of them is kept; 0 to 86,400."""

    cached_answers: int = 256
    """Whole answers that are kept as long; 0 to 10,000."""

    lexical: WordWeights = field(default_factory=WordWeights)
    """How words count."""

    usage: UsageWeights = field(default_factory=UsageWeights)
    """How earlier use counts."""

    def __post_init__(self) -> None:
        ranges: dict[str, tuple[float, float]] = {
            "dense_weight": (0, 1),
            "clause_weight": (0, 1),
            "clauses": (0, 32),
            "server_weight": (0, 1),
            "context_weight": (0, 1),
            "cooldown_s": (0, 3_600),
            "embedding_wait_s": (0, 60),
            "database_above": (0, 1_000_000_000),
            "database_timeout_s": (0.01, 60),
            "cached_queries": (0, 100_000),
            "cache_ttl_s": (0, 86_400),
            "cached_answers": (0, 10_000),
        }
        if self.embed_timeout_s is not None:
            ranges["embed_timeout_s"] = (0.01, 60)
        check_ranges(self, ranges)
