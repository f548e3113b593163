"""The interface of search strategies. They get a mask of visible tools, never the caller."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from toolgate.search.personal_cutoff import PersonalCutoff
from toolgate.search.relevance.calibration import Fit
from toolgate.search.relevance.tool_habits import ToolHabits
from toolgate.search.relevance.usage_votes import UsageVotes, UsageWeights
from toolgate.types import DEFAULT_PROJECT, Json

WEIGHTS = ("dense_weight", "clause_weight", "server_weight", "context_weight")
"""Weights that can be overridden for a single request, each from 0 to 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchableTool:
    """The few fields of a tool that ranking needs."""

    key: str
    """`server:tool`."""

    server: str
    """Name of its server."""

    name: str
    """Its name on that server."""

    title: str = ""
    """Its human-readable title."""

    description: str = ""
    """Its full description."""

    parameters: tuple[tuple[str, str], ...] = ()
    """Names and descriptions of its top-level parameters."""

    digest: str = ""
    """Changes with its definition, so that an index reads only changed tools again."""


@dataclass(frozen=True, kw_only=True)
class SearchRequest:
    """A request to a search: its texts, limits and options."""

    queries: tuple[str, ...]
    """One or more queries; each is searched, and the answers are merged."""

    context: str = ""
    """Background of the task; may change the order, but never adds tools by itself."""

    limit: int = 5
    """Most hits in all, 1 to 100."""

    servers: tuple[str, ...] = ()
    """Search only tools of these servers; empty means all."""

    mask: NDArray[np.bool_] | None = None
    """Whether each tool of the index, in its order, may be found; None allows all."""

    threshold: float = 0.0
    """Lowest relevance of a hit, in [0, 1]."""

    project_id: str = DEFAULT_PROJECT
    """The project, whose learned usage applies."""

    recent: tuple[str, ...] = ()
    """Keys of the tools that the conversation used most recently, newest first."""

    priors: Mapping[str, float] = field(default_factory=dict[str, float])
    """Extra weight by tool key, in [0, 1], for callers that search in Python."""

    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    """Overrides of weights for this request only, by names of `WEIGHTS`; a strategy ignores
    those that it does not have. Callers use no other names and only values from 0 to 1."""

    learned: "LearnedUsage | None" = field(default=None, compare=False, repr=False)
    """Usage learned in the project; None if there is none."""


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A tool found by a search."""

    key: str
    """`server:tool`."""

    relevance: float
    """How likely the tool helps, in [0, 1]; higher is better."""

    explanation: str
    """Why it was found, in one short sentence for people."""

    hint: str = ""
    """The part of the explanation that name and description do not show; empty if they show all."""

    fields: Json = field(default_factory=dict[str, Any])
    """The same for programs: matched words by field, parts of the score."""

    source: str = "lexical"
    """What found it: `exact`, `lexical`, `vector`, `cloud`, `llm`, `usage`, `core`, `fallback`."""

    literal: float = 0.0
    """How well it matches the words of the request, in [0, 1]; 1 for its exact name."""

    kind: str = "tool"
    """`tool`, `prompt`, `resource`, `template` or `skill`."""

    is_far_behind: bool = False
    """Whether an answer leaves it out because the best hits of the same query are much better."""


class LearnedUsage(Protocol):
    """Earlier usage in the project of a request, as a strategy may use it."""

    def votes(self, vector: NDArray[np.float32], model: str, weights: UsageWeights) -> UsageVotes:
        """Return the votes of earlier requests for this vector of the embedder `model`."""
        ...

    @property
    def line(self) -> PersonalCutoff:
        """Return the caller's own cutoff for "nothing fits"."""
        ...

    @property
    def habits(self) -> ToolHabits:
        """Return which tools are used often and together."""
        ...


@dataclass(frozen=True, kw_only=True)
class SearchedQuery:
    """A query as read by a strategy, for learning from usage."""

    query: str
    """The part of its text that was searched."""

    vector: NDArray[np.float32] | None = None
    """Its vector, of length 1; None if it has none."""

    margin: float | None = None
    """Distance of its best hit above the cutoff for "nothing fits", as a cosine."""

    fit: Fit = "good"
    """How well the best hit fits it."""

    notice: str = ""
    """The sentence about it among the notices of the answer; empty if there is none."""

    @property
    def label(self) -> str:
        """How notices about one of several queries begin."""
        return f"{self.query[:60]!r}: "


@dataclass(frozen=True, kw_only=True)
class SearchAnswer:
    """The result of a search."""

    hits: tuple[Hit, ...]
    """Best first; equal scores are sorted by key."""

    fit: Fit = "good"
    """How well the best hit fits; for several queries, that of the best query."""

    notices: tuple[str, ...] = ()
    """Sentences for the reader about what was withheld, fell back or did not fit."""

    searched: int = 0
    """Number of tools that were candidates."""

    duration_ms: float = 0.0
    """Duration of the search in milliseconds."""

    fallback: str = ""
    """Why a simpler search than the configured one answered, in a few words; otherwise empty."""

    queries: tuple[SearchedQuery, ...] = field(default=(), compare=False, repr=False)
    """The queries as they were read, for learning from usage."""

    model: str = field(default="", compare=False, repr=False)
    """Identity of the embedder of the vectors in `queries`; empty without one."""


@runtime_checkable
class SearchStrategy(Protocol):
    """Ranks tools for requests.

    Requirements, checked by `toolgate.testing.contracts.search`:

    * An answer has only tools that the mask and `servers` allow, and at most `limit` of them.
    * The same request over the same tools gives the same answer; equal scores are sorted by key.
    * An exact name (`server:tool` or `tool`) comes first. Any text is a valid request; none raises.
    * `update` may be called during searches; each search uses one state of the index.
    """

    async def update(self, tools: Sequence[SearchableTool]) -> None:
        """Set the tools of the index, in this order; unchanged ones cost nothing."""
        ...

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys of the tools in the index, in the order of the mask."""
        ...

    async def search(self, request: SearchRequest) -> SearchAnswer:
        """Return the tools that fit best."""
        ...


@runtime_checkable
class ServiceBacked(Protocol):
    """A search that calls a service, and answers by itself while the service is paused."""

    @property
    def is_suspended(self) -> bool:
        """Whether the service failed several times, and has not answered since."""
        ...
