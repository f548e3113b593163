"""The settings of hybrid search."""

from dataclasses import dataclass, field

from toolgate.base.validation import check_ranges
from toolgate.search.lexical.weights import WordWeights
from toolgate.search.relevance.usage_votes import UsageWeights


@dataclass(frozen=True, kw_only=True)
class Options:
    """Table `[search.options.hybrid]`."""

    dense_weight: float = 0.65
    """Weight of meaning in the sum; words have the rest. 0 to 1."""

    clause_weight: float = 0.7
    """Weight of the best clause in a request with several; the entire request has the rest. 0 to
    1."""

    clauses: int = 12
    """Most clauses of a request that are searched separately; 0 to 32, 0 never splits."""

    typical_requests: bool = True
    """Whether short requests are moved towards the descriptions of tools for similar requests."""

    reranking: bool = True
    """Whether the first hits of short requests are sorted in a learned order."""

    script_gate: bool = True
    """Whether meaning and servers count less if the model cannot read the request; multilingual
    models are assumed to read everything."""

    server_weight: float = 0.1
    """Weight of the similarity of a tool's server (the mean of its tools), added to the sum. 0
    to 1."""

    context_weight: float = 0.2
    """Weight of `context`; it changes the order and adds no tool. 0 to 1."""

    embed_timeout_s: float | None = None
    """Timeout in seconds of the embedder for a request; then only words count. 0.01 to 60. The
    default is 0.3 for a model on this machine, and 2 for a service."""

    cooldown_s: float = 10.0
    """Seconds without using the embedder after three consecutive failures; 0 to 3,600."""

    embedding_wait_s: float = 0.25
    """Seconds for which new tools wait for their vectors before they are searched by words; 0 to
    60."""

    database_above: int = 1_500_000
    """Number of tools above which meaning is searched in the vector store instead of in memory;
    0 to 1,000,000,000. Useful with `pgvector`: SQLite compares every vector."""

    database_timeout_s: float = 2.0
    """Timeout in seconds of this store for a request; then only words count. 0.01 to 60."""

    cached_queries: int = 1_000
    """Most cached vectors of requests; 0 to 100,000."""

    cache_ttl_s: float = 300.0
    """Seconds for which each of them is cached; 0 to 86,400."""

    cached_answers: int = 256
    """Most cached answers, for the same time; 0 to 10,000."""

    lexical: WordWeights = field(default_factory=WordWeights)
    """Weights of words."""

    usage: UsageWeights = field(default_factory=UsageWeights)
    """Weights of earlier usage."""

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
