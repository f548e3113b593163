"""Tables about finding tools: `[search]`, `[discovery]`, `[results]`, `[usage]` and others."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolgate.settings.tables.fields import between


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """Table `[search]`: how the tool search works."""

    options: Mapping[str, Mapping[str, object]] = field(
        default_factory=dict[str, Mapping[str, object]], repr=False
    )
    """Tables `[search.options.NAME]`: options of the search strategy NAME, such as `hybrid` or
    `cloud`, wherever it is used."""

    selector: str = ""
    """Selects among the top hits: `llm` asks a chat model, configured in `[search.options.llm]`.
    Empty: search order is kept."""

    embedder: str = "bundled"
    """Embedding model for vector search: `bundled`, `onnx`, `openai` or an installed plugin."""

    embedder_options: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    """Options of the embedder; see [embedders](embedders.md)."""

    vectors: str = "auto"
    """Where tool vectors are stored, so that they need not be recomputed at startup. `auto`: in
    Toolgate's database (`sqlite` or `pgvector`). `milvus`, `qdrant`: in that vector database.
    `off`: in memory only."""

    vector_options: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    """Options of that vector store; `pgvector` has `m`, `ef_construction`, `ef_search`,
    `hnsw_from`, `extension`."""


@dataclass(frozen=True, kw_only=True)
class CatalogSearchSettings:
    """Table `[catalog_search]`: lets other programs search their own lists of tools.

    They send a list and a request to `POST /catalog/search`, with a token from `tokens` or, with
    `auth = "required"`, a token of the gateway.
    """

    tokens: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict[str, tuple[str, ...]], repr=False
    )
    """Bearer tokens by project: `{ team-a = ["${env:TEAM_A_TOKEN}"] }`; list two while you rotate
    one. At least 16 characters, or `sha256:` and the token's hash in hex."""

    strategy: str = "hybrid"
    """Search strategy: `bm25`, `hybrid` or an installed plugin."""

    selector: str = ""
    """Selects among the top hits: `llm` asks a chat model, configured in `[search.options.llm]`.
    Empty: search order is kept."""

    max_body_bytes: int = between(8 * 2**20, 1024, 2**28)
    """Maximum size of a request in bytes; 1,024 to 268,435,456."""

    max_tools: int = between(10_000, 1, 200_000)
    """Maximum number of tools in a request; 1 to 200,000."""

    kept_lists: int = between(64, 1, 10_000)
    """Maximum number of cached indexes, one per tool list; 1 to 10,000."""

    kept_mb: int = between(256, 1, 65_536)
    """Maximum memory for cached indexes, in estimated megabytes; 1 to 65,536."""


@dataclass(frozen=True, kw_only=True)
class DiscoverySettings:
    """Table `[discovery]`: answers of the meta-tools."""

    budget_tokens: int = between(1000, 200, 100_000)
    """Maximum size of a `tool_discovery` answer in estimated tokens; 200 to 100,000."""

    describe_budget_tokens: int = between(8000, 200, 1_000_000)
    """Maximum size of a `tool_describe` answer in estimated tokens; 200 to 1,000,000."""

    max_results: int = between(5, 1, 50)
    """Default number of hits; 1 to 50."""

    show_down: bool = False
    """Whether search still finds tools on servers that are down (ranked last and marked)."""

    auto_tokens: int = between(4000, 0, 1_000_000)
    """With `mode = "auto"`: up to this many estimated tokens of tool definitions, all tools are
    listed instead of the meta-tools; 0 to 1,000,000."""


@dataclass(frozen=True, kw_only=True)
class ResultSettings:
    """Table `[results]`: large and cached results of `tool_execute`."""

    paging: bool = True
    """Whether large results are stored and returned in pages."""

    page_tokens: int = between(25_000, 200, 10_000_000)
    """Page size in estimated tokens, 200 to 10,000,000; larger results are paged."""

    ttl_s: float = between(3600.0, 1, 604_800)
    """How long a stored result is kept, in seconds; 1 to 604,800."""

    cache_mb: int = between(32, 1, 4096)
    """Memory for cached results of tools with `cache_s`, in megabytes; 1 to 4,096."""


@dataclass(frozen=True, kw_only=True)
class UsageSettings:
    """Table `[usage]`: search learns from which tools are called. See [learning.md](learning.md).

    The weight of usage in the ranking is set in `[search.options.hybrid.usage]`.
    """

    enabled: bool = True
    """Whether to log which tools searches returned and which were called, and to learn from that.
    Arguments and results are never logged; search texts are if `audit.keep_queries` is true."""

    adapt_line: bool = True
    """Whether the cutoff below which a search answers "nothing fits" adapts to the tools that a
    caller calls and rates."""

    alternatives: bool = True
    """Whether a search answer names tools that do nearly the same as a hit."""

    together: bool = True
    """Whether a search answer names tools that are often used together with a hit."""

    half_life_days: float = between(60.0, 0.1, 3_650)
    """Half-life of past usage in days: after this time it counts half; 0.1 to 3,650."""

    max_requests: int = between(4_000, 10, 100_000)
    """Number of past requests used for ranking (the most recently used ones), at 1 kB of memory
    each; 10 to 100,000."""
