"""What a search strategy must be able to do. Gets a mask of visible tools, never the caller."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from toolgate.search.cutoff import PersonalCutoff
from toolgate.search.relevance.calibration import Fit
from toolgate.search.relevance.usage_votes import UsageVotes, UsageWeights
from toolgate.types import DEFAULT_PROJECT, Json

__all__ = [
    "WEIGHTS",
    "Hit",
    "LearnedUsage",
    "SearchAnswer",
    "SearchRequest",
    "SearchStrategy",
    "SearchableTool",
    "SearchedQuery",
]


WEIGHTS = ("dense_weight", "clause_weight", "server_weight", "context_weight")
"""What somebody who looks at a search may change for a look, each from 0 to 1."""


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
    """Its description, whole."""

    parameters: tuple[tuple[str, str], ...] = ()
    """Names and descriptions of its top-level parameters."""

    digest: str = ""
    """Changes when its definition changes; an index re-reads only what changed."""


@dataclass(frozen=True, kw_only=True)
class SearchRequest:
    """What is searched for, and where."""

    queries: tuple[str, ...]
    """One or more requests; each is searched, the answers are merged."""

    context: str = ""
    """Background of the task; may shift ranks, never adds tools by itself."""

    limit: int = 5
    """Hits wanted in all, 1 to 100."""

    servers: tuple[str, ...] = ()
    """Only tools of these servers; empty means all."""

    mask: NDArray[np.bool_] | None = None
    """One entry per tool of the index in its order: may it be found? None: all may."""

    threshold: float = 0.0
    """Lowest relevance in [0, 1] that counts as a hit."""

    project_id: str = DEFAULT_PROJECT
    """The tenant, for what was learned from use."""

    recent: tuple[str, ...] = ()
    """Keys of the tools that the conversation used last, newest first."""

    priors: Mapping[str, float] = field(default_factory=dict[str, float])
    """Extra weight by tool key, in [0, 1], for those who search in Python."""

    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    """Other weights for this request alone, by names of `WEIGHTS`; a strategy that weighs nothing
    leaves them out. Callers name no others, and keep them within 0 and 1."""

    learned: "LearnedUsage | None" = field(default=None, compare=False, repr=False)
    """What may be known of earlier use in the project; None: nothing."""


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A tool that search found."""

    key: str
    """`server:tool`."""

    relevance: float
    """How likely the tool helps, in [0, 1]; higher is better."""

    explanation: str
    """Why, in one short sentence for people."""

    fields: Json = field(default_factory=dict[str, Any])
    """The same for programs: matched words by field, parts of the score."""

    source: str = "lexical"
    """What found it: `exact`, `lexical`, `vector`, `cloud`, `llm`, `usage`, `core`, `fallback`."""

    literal: float = 0.0
    """How much of the request its words match, in [0, 1]; 1 for its exact name."""

    kind: str = "tool"
    """What was found: `tool`, `prompt`, `resource`, `template` or `skill`."""

    is_far_behind: bool = False
    """Whether the best hits of the same query are so much better that an answer leaves it out."""


class LearnedUsage(Protocol):
    """What a strategy may know of earlier use in the project of a request."""

    def votes(self, vector: NDArray[np.float32], model: str, weights: UsageWeights) -> UsageVotes:
        """What earlier requests say to one with this vector of the embedder `model`."""
        ...

    @property
    def line(self) -> PersonalCutoff:
        """Where the caller draws the line of "nothing fits"."""
        ...


@dataclass(frozen=True, kw_only=True)
class SearchedQuery:
    """A query as a strategy read it, for what is learned from use."""

    query: str
    """Its text, as far as it was searched."""

    vector: NDArray[np.float32] | None = None
    """Its vector, of length 1; None where it has none."""

    margin: float | None = None
    """How far its best hit is above the line of "nothing fits", as a cosine."""

    fit: Fit = "good"
    """Whether anything fits it."""

    notice: str = ""
    """The sentence of the answer's notices that is about it; empty: there is none."""


@dataclass(frozen=True, kw_only=True)
class SearchAnswer:
    """What a search gives."""

    hits: tuple[Hit, ...]
    """Best first; equal scores in order of the key."""

    fit: Fit = "good"
    """Whether anything fits; of several queries the best."""

    notices: tuple[str, ...] = ()
    """Sentences for the reader: what was withheld, fell back or did not fit."""

    searched: int = 0
    """Tools that were candidates."""

    duration_ms: float = 0.0
    """Milliseconds of searching."""

    fallback: str = ""
    """Why a simpler search answered than the one that was asked, in a few words; else empty."""

    queries: tuple[SearchedQuery, ...] = field(default=(), compare=False, repr=False)
    """The queries as they were read, for what is learned from use."""

    model: str = field(default="", compare=False, repr=False)
    """Identity of the embedder that gave the vectors in `queries`; empty without one."""


@runtime_checkable
class SearchStrategy(Protocol):
    """Ranks tools for requests.

    Duties, checked by `toolgate.testing.contracts.search`:

    * Only tools that the mask and `servers` allow are ever in an answer; at most `limit` of them.
    * The same request over the same tools gives the same answer; equal scores are in order of key.
    * An exact name (`server:tool` or `tool`) is first. Any text is a request; none raises.
    * `update` may be called while searches run; a search sees one state of the index.
    """

    async def update(self, tools: Sequence[SearchableTool]) -> None:
        """Make these the tools of the index, in this order; unchanged ones cost nothing."""
        ...

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the tools in the index, in the order of the mask."""
        ...

    async def search(self, request: SearchRequest) -> SearchAnswer:
        """The tools that fit best."""
        ...
