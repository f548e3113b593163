"""Tables about finding tools: `[search]`, `[discovery]`, `[results]`, `[usage]` and others."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolgate.settings.tables.fields import between

__all__ = [
    "CatalogSearchSettings",
    "DiscoverySettings",
    "ResultSettings",
    "SearchSettings",
    "UsageSettings",
]


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """Table `[search]`: how tools are found."""

    options: Mapping[str, Mapping[str, object]] = field(
        default_factory=dict[str, Mapping[str, object]], repr=False
    )
    """Tables `[search.options.NAME]`: options of the search NAME, such as `hybrid` or `cloud`,
    wherever it is used."""

    selector: str = ""
    """What picks from the best that `optimization` finds: `llm` asks a chat model, which
    `[search.options.llm]` describes. Empty: nothing does, and the order is that of the search."""

    embedder: str = "bundled"
    """File name in `embed/`: what gives texts their vectors, where the strategy uses them."""

    embedder_options: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    """Options of the embedder."""

    vectors: str = "auto"
    """File name in `vectors/`: where vectors of tools are kept, so that a start computes none anew.
    `auto`: in the store, `sqlite` or `pgvector`. `milvus` or `qdrant`: in that database. `off`: in
    memory only."""

    vector_options: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    """Options of that place; `pgvector` has `m`, `ef_construction`, `ef_search`, `extension`."""


@dataclass(frozen=True, kw_only=True)
class CatalogSearchSettings:
    """Table `[catalog_search]`: answering `POST /catalog/search`, the tool search for others.

    Those with a token that `tokens` names may use it, and with `auth = "required"` those with one
    of the gateway.
    """

    tokens: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict[str, tuple[str, ...]], repr=False
    )
    """Bearer tokens by project: `{ team-a = ["${env:TEAM_A_TOKEN}"] }`; several while one is being
    replaced. At least 16 characters each, or `sha256:` and the hash of one in hex."""

    strategy: str = "hybrid"
    """How the tools of a request are searched: `bm25`, `hybrid` or another search."""

    selector: str = ""
    """As in `[search]`."""

    max_body_bytes: int = between(8 * 2**20, 1024, 2**28)
    """Largest request that is read; 1,024 to 268,435,456."""

    max_tools: int = between(10_000, 1, 200_000)
    """Most tools of a request; 1 to 200,000."""

    kept_lists: int = between(64, 1, 10_000)
    """Lists of tools whose index is kept for the next request; 1 to 10,000."""

    kept_mb: int = between(256, 1, 65_536)
    """Estimated megabytes of kept indexes at most; 1 to 65,536."""


@dataclass(frozen=True, kw_only=True)
class DiscoverySettings:
    """Table `[discovery]`: what the meta-tools answer."""

    budget_tokens: int = between(1000, 200, 100_000)
    """Most estimated tokens of one `tool_discovery` answer; 200 to 100,000."""

    describe_budget_tokens: int = between(8000, 200, 1_000_000)
    """Most estimated tokens of one `tool_describe` answer; 200 to 1,000,000."""

    max_results: int = between(5, 1, 50)
    """Hits when the caller does not say; 1 to 50."""

    show_down: bool = False
    """Whether tools of servers that are down appear, ranked last and marked."""

    auto_tokens: int = between(4000, 0, 1_000_000)
    """With `mode = "auto"`: menus up to this many estimated tokens are listed as they are; 0 to
    1,000,000."""


@dataclass(frozen=True, kw_only=True)
class ResultSettings:
    """Table `[results]`: large results of `tool_execute`."""

    paging: bool = True
    """Whether large results are stored and answered in pages."""

    page_tokens: int = between(25_000, 200, 10_000_000)
    """Estimated tokens of a page, 200 to 10,000,000; larger results are paged."""

    ttl_s: float = between(3600.0, 1, 604_800)
    """Seconds a stored result lives; 1 to 604,800."""

    cache_mb: int = between(32, 1, 4096)
    """Megabytes of memory for results of tools with `cache_s`, 1 to 4,096."""


@dataclass(frozen=True, kw_only=True)
class UsageSettings:
    """Table `[usage]`: learning from what was found and executed. See [learning.md](learning.md).

    How much it counts is set in `[search.options.hybrid.usage]`.
    """

    enabled: bool = True
    """Whether it is logged which tools a search showed and which were executed, and learned from.
    Arguments and results are never in it; the text of a search is as `audit.keep_queries` says."""

    adapt_line: bool = True
    """Whether the line below which "nothing fits" is said follows what a caller executes and
    marks."""

    alternatives: bool = True
    """Whether an answer names tools that do nearly the same as a hit."""

    together: bool = True
    """Whether an answer names tools that were often used together with a hit."""

    half_life_days: float = between(60.0, 0.1, 3_650)
    """Days after which an earlier use counts half; 0.1 to 3,650."""

    max_requests: int = between(4_000, 10, 100_000)
    """Earlier requests that have a say, the last used ones; 10 to 100,000. Each costs 1 kB of
    memory."""
