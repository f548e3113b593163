"""The values of retrieval: request, passages, result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from toolgate.documents.quotation import citation, quoted
from toolgate.store.vectors import Metric
from toolgate.types import Json

__all__ = [
    "SEARCH_TYPES",
    "AskModel",
    "Collection",
    "ConversationMessage",
    "FoundPassage",
    "OnRetrieved",
    "RenderPrompt",
    "Retrieval",
    "RetrieveRequest",
    "SearchType",
]

SearchType: TypeAlias = Literal["similarity", "similarity_score_threshold", "mmr", "hybrid"]
"""`similarity`: the nearest. `similarity_score_threshold`: those of them that are near enough.
`mmr`: near ones that differ from each other. `hybrid`: by meaning and by words."""

SEARCH_TYPES: tuple[SearchType, ...] = (
    "similarity",
    "similarity_score_threshold",
    "mmr",
    "hybrid",
)
"""All of them."""


class AskModel(Protocol):
    """Asks a chat model for a short text; who passes it counts the tokens.

    May raise anything: every step has an answer to that.
    """

    async def __call__(
        self,
        prompt: str,
        *,
        purpose: Literal["rephrase", "grade", "select"],
        max_tokens: int,
        timeout_s: float,
    ) -> str:
        """What the model says to the prompt, at temperature 0."""
        ...


class RenderPrompt(Protocol):
    """Gives prompts by name, as the project has them now, with their fields filled in.

    Names: `vs-rephrase` (`context`, `history`, `question`), `context-default`, `vs-grade`
    (`question`, `documents`), `vs-table-selection` (`question`, `tables`, `max_tables`).
    """

    async def __call__(self, name: str, values: Mapping[str, str], /) -> str:
        """The text."""
        ...


class OnRetrieved(Protocol):
    """Told what was searched, as soon as that is known and before anything is graded."""

    async def __call__(self, metadata: Json, /) -> None:
        """Take `searched_tables`, `failed_tables`, `context_input` and `num_documents`."""
        ...


@dataclass(frozen=True, kw_only=True)
class ConversationMessage:
    """What somebody said in a conversation."""

    role: Literal["user", "assistant"]
    """Who."""

    text: str
    """What; empty where an assistant only called tools."""


@dataclass(frozen=True, kw_only=True)
class RetrieveRequest:
    """A question to the documents. Fields that are None are as the settings say."""

    question: str
    """What somebody asks, in their words; 1 to 8,000 characters."""

    history: Sequence[ConversationMessage] = ()
    """The conversation, this question included as its last entry; empty: there is none, and nothing
    is rephrased."""

    collections: tuple[str, ...] = ()
    """Names or aliases; empty: all that the caller may read, from which the model chooses."""

    top_k: int | None = None
    """Passages at most; 1 to 100."""

    search_type: SearchType | None = None
    """How is searched."""

    score_threshold: float | None = None
    """Least similarity, with `similarity_score_threshold`; 0 or less switches it off."""

    fetch_k: int | None = None
    """Passages that `mmr` chooses from; 1 to 1,000."""

    lambda_mult: float | None = None
    """How much nearness counts for `mmr` against variety; 0 to 1."""

    rephrase: bool | None = None
    """Whether a question that refers back is made whole first."""

    grade: bool | None = None
    """Whether a model says if the passages help, and they are dropped if not."""


@dataclass(frozen=True, kw_only=True)
class Collection:
    """Documents that are searched together."""

    collection_id: str
    """Opaque."""

    project_id: str
    """The tenant."""

    name: str
    """What it is called; unique within a project without case."""

    alias: str = ""
    """Another name for people."""

    description: str = ""
    """What is in it; a model chooses by it."""

    model: str
    """The embedding model by its name in the settings."""

    model_identity: str
    """What the model was when the collection was filled."""

    dim: int
    """Numbers of its vectors."""

    metric: Metric = "cosine"
    """How they are compared."""

    place: str
    """File name in `passages/`: where its vectors are."""

    shelf_id: str
    """Which vectors are its own now."""

    version: int = 0
    """Grows with each change of its documents."""

    documents: int = 0
    """How many it has."""

    passages: int = 0
    """Into how many pieces they are cut."""

    updated_at: str = ""
    """Its last change, UTC, ISO 8601."""

    problem: str = ""
    """Why it cannot be searched; empty: it can."""


@dataclass(frozen=True, kw_only=True)
class FoundPassage:
    """A piece of a document that was found."""

    passage_id: int
    """Which one."""

    text: str
    """What stands there, to the letter."""

    collection: str
    """Where it was found."""

    document_id: str
    """The document that it is of."""

    source: str
    """Where the document came from: path or address."""

    title: str = ""
    """What the document calls itself."""

    heading: str = ""
    """The headings above it, from the first level on: `Setup > Sign in`."""

    page: int | None = None
    """Its page, from 1 on; None where a document has none."""

    similarity: float | None = None
    """Similarity within its collection; None where a search gives none."""

    words: float | None = None
    """How well its words fit, by BM25 within its collection; None where words were not looked
    at, or none fits."""

    rank: int = 1
    """Its place in the list of its collection, from 1 on."""

    relevance: float | None = None
    """What a reranker says: higher is better, on its own scale, among the passages of one
    question; None where none was asked."""

    fused: float | None = None
    """What several lists together say by rank: an order and no probability; None where there was
    one list."""

    @property
    def citation(self) -> str:
        """Source, heading and page, as an answer may cite it."""
        return citation(self.source, self.heading, self.page)

    def as_json(self) -> Json:
        """As tools, history and REST show it."""
        fields: Json = {
            "page_content": self.text,
            "metadata": {
                "searched_table": self.collection,
                "similarity_score": None if self.similarity is None else round(self.similarity, 3),
                "source": self.source,
                "title": self.title,
                "heading": self.heading,
                "page": self.page,
                "citation": self.citation,
                "document_id": self.document_id,
                "rank": self.rank,
            },
        }
        if self.fused is not None:
            fields["metadata"]["fused_rank_score"] = round(self.fused, 5)
        if self.relevance is not None:
            fields["metadata"]["relevance_score"] = round(self.relevance, 5)
        return fields


@dataclass(frozen=True, kw_only=True)
class Retrieval:
    """What became of a question."""

    status: Literal["success", "error"]
    """`error`: nothing could be searched; `error` says why."""

    question: str
    """As it was asked."""

    query: str
    """What was searched for: the question, or what it was rephrased to."""

    was_rephrased: bool = False
    """Whether they differ."""

    documents: tuple[FoundPassage, ...] = ()
    """What was found, best first; kept although it may have been graded out."""

    helpful: tuple[FoundPassage, ...] | None = None
    """Those of them that a model gets; None: all."""

    searched: tuple[str, ...] = ()
    """Collections that answered."""

    failed: Mapping[str, str] = field(default_factory=dict[str, str])
    """Collections that did not, and why."""

    selection: Literal["", "model", "all"] = ""
    """Who chose the collections: a model; `all`: a model was asked and named none; empty: there was
    nothing to choose."""

    relevant: Literal["yes", "no"] = "yes"
    """Whether the passages help."""

    grading_performed: bool = False
    """Whether a model said so."""

    error: str = ""
    """One sentence for the log."""

    for_user: str = ""
    """What the user has to be told of it, since no answer without documents would be right; empty:
    the turn goes on as if nothing had been looked for."""

    took_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    """Milliseconds of `rephrase`, `select`, `search`, `grade`."""

    @property
    def is_injected(self) -> bool:
        """Whether passages belong into the prompt of this turn."""
        return bool(self.injected_passages)

    @property
    def injected_passages(self) -> tuple[FoundPassage, ...]:
        """The passages for the prompt, best first; empty: nothing is added to it."""
        if self.status != "success" or self.relevant != "yes":
            return ()
        return self.documents if self.helpful is None else self.helpful

    @property
    def injected(self) -> str:
        """The passages for the prompt, marked as quotations; empty: nothing is added to it."""
        return quoted(self.injected_passages) if self.is_injected else ""

    @property
    def context_input(self) -> str:
        """The query that was used, when passages are injected; else empty."""
        return self.query if self.is_injected else ""

    def metadata(self) -> Json:
        """What is told to clients at once."""
        metadata: Json = {
            "searched_tables": list(self.searched),
            "failed_tables": list(self.failed),
            "context_input": self.query,
            "num_documents": len(self.documents),
        }
        return {**metadata, "selection": self.selection} if self.selection else metadata

    def artifact(self) -> Json:
        """What is kept with the conversation, for people to see what an answer rests on."""
        return {
            "documents": [document.as_json() for document in self.documents],
            "context_input": self.query,
        }

    def as_json(self) -> Json:
        """As tools and REST show it."""
        fields: Json = {
            "status": self.status,
            "question": self.question,
            "was_rephrased": self.was_rephrased,
            **self.metadata(),
            "documents": [document.as_json() for document in self.documents],
            "relevant": self.relevant,
            "grading_performed": self.grading_performed,
        }
        if self.failed:
            fields["failures"] = dict(self.failed)
        if self.error:
            fields["error"] = self.error
        return fields
