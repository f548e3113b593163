"""The values of retrieval: request, passages, result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from toolgate.documents.quotation import citation, quoted
from toolgate.store.vectors import Metric
from toolgate.types import Json

SearchType: TypeAlias = Literal["similarity", "similarity_score_threshold", "mmr", "hybrid"]
"""`similarity`: the nearest. `similarity_score_threshold`: the nearest above a threshold. `mmr`:
near ones that differ from each other. `hybrid`: by meaning and by words."""

SEARCH_TYPES: tuple[SearchType, ...] = (
    "similarity",
    "similarity_score_threshold",
    "mmr",
    "hybrid",
)
"""All search types."""


class AskModel(Protocol):
    """Asks a chat model for a short answer; the implementation counts the tokens.

    May raise any exception: every step handles it.
    """

    async def __call__(
        self,
        prompt: str,
        *,
        purpose: Literal["rephrase", "grade", "select"],
        max_tokens: int,
        timeout_s: float,
    ) -> str:
        """Return the model's answer to the prompt, at temperature 0."""
        ...


class RenderPrompt(Protocol):
    """Renders the project's current prompts by name, with their fields filled in.

    Names: `vs-rephrase` (`context`, `history`, `question`), `context-default`, `vs-grade`
    (`question`, `documents`), `vs-table-selection` (`question`, `tables`, `max_tables`).
    """

    async def __call__(self, name: str, values: Mapping[str, str], /) -> str:
        """Return the text."""
        ...


class OnRetrieved(Protocol):
    """Called after the search, before grading."""

    async def __call__(self, metadata: Json, /) -> None:
        """Receive `searched_tables`, `failed_tables`, `context_input` and `num_documents`."""
        ...


@dataclass(frozen=True, kw_only=True)
class ConversationMessage:
    """A message in a conversation."""

    role: Literal["user", "assistant"]
    """Its author."""

    text: str
    """Its text; empty if an assistant only called tools."""


@dataclass(frozen=True, kw_only=True)
class RetrieveRequest:
    """A question for the documents. For fields that are None, the settings apply."""

    question: str
    """The user's question, in their own words; 1 to 8,000 characters."""

    history: Sequence[ConversationMessage] = ()
    """The conversation, with this question as its last entry; empty: there is none, and the
    question is not rephrased."""

    collections: tuple[str, ...] = ()
    """Names or aliases; empty: the model chooses from all that the caller may read."""

    top_k: int | None = None
    """Largest number of passages; 1 to 100."""

    search_type: SearchType | None = None
    """How to search."""

    score_threshold: float | None = None
    """Lowest similarity for `similarity_score_threshold`; 0 or less: no threshold."""

    fetch_k: int | None = None
    """Candidates for `mmr`; 1 to 1,000."""

    lambda_mult: float | None = None
    """Weight of similarity against diversity, for `mmr`; 0 to 1."""

    rephrase: bool | None = None
    """Whether to rewrite a question that refers back, so that it stands alone."""

    grade: bool | None = None
    """Whether a model checks that the passages help, so that useless ones are dropped."""


@dataclass(frozen=True, kw_only=True)
class Collection:
    """Documents that are searched together."""

    collection_id: str
    """An opaque id."""

    project_id: str
    """The project."""

    name: str
    """Its name; unique within a project, ignoring case."""

    alias: str = ""
    """Another display name."""

    description: str = ""
    """Its contents; models choose collections by it."""

    model: str
    """Name of the embedding model in the settings."""

    model_identity: str
    """Identity of the model when the collection was filled."""

    dim: int
    """Dimension of its vectors."""

    metric: Metric = "cosine"
    """How they are compared."""

    place: str
    """Name of the vector store: a file name in `passages/`."""

    shelf_id: str
    """Id of its current vector collection."""

    version: int = 0
    """Grows with each change of its documents."""

    documents: int = 0
    """Number of documents."""

    passages: int = 0
    """Number of passages."""

    updated_at: str = ""
    """Time of its last change, UTC, ISO 8601."""

    problem: str = ""
    """Why it cannot be searched; empty: it can."""


@dataclass(frozen=True, kw_only=True)
class FoundPassage:
    """A passage in a search result."""

    passage_id: int
    """Number of the passage."""

    text: str
    """Its exact text."""

    collection: str
    """Name of its collection."""

    document_id: str
    """Id of its document."""

    source: str
    """Path or URL of the document."""

    title: str = ""
    """The document's own title."""

    heading: str = ""
    """The headings above it, top level first: `Setup > Sign in`."""

    page: int | None = None
    """Its page, from 1; None if the document has no pages."""

    similarity: float | None = None
    """Similarity within its collection; None if the search returned none."""

    words: float | None = None
    """BM25 score within its collection; None if the search did not use words, or none matches."""

    rank: int = 1
    """Its rank in its collection, from 1."""

    relevance: float | None = None
    """Score of a reranker: higher is better, on the reranker's own scale, comparable only
    between passages of one question; None without a reranker."""

    fused: float | None = None
    """Fused rank of several lists: an order, not a probability; None if there was one list."""

    @property
    def citation(self) -> str:
        """Source, heading and page, for citing it in an answer."""
        return citation(self.source, self.heading, self.page)

    def as_json(self) -> Json:
        """Return the passage as tools, history and REST return it."""
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
    """The result of a question."""

    status: Literal["success", "error"]
    """`error`: nothing could be searched; `error` says why."""

    question: str
    """The original question."""

    query: str
    """The search query: the question, or its rephrased form."""

    was_rephrased: bool = False
    """Whether they differ."""

    documents: tuple[FoundPassage, ...] = ()
    """Passages found, best first, including those that grading has excluded."""

    helpful: tuple[FoundPassage, ...] | None = None
    """Passages for the model; None: all."""

    searched: tuple[str, ...] = ()
    """Collections that were searched."""

    failed: Mapping[str, str] = field(default_factory=dict[str, str])
    """Collections that failed, with the reason."""

    selection: Literal["", "model", "all"] = ""
    """How the collections were chosen: `model`: by a model; `all`: a model was asked and named
    none; empty: there was no choice."""

    relevant: Literal["yes", "no"] = "yes"
    """Whether the passages help."""

    grading_performed: bool = False
    """Whether a model decided that."""

    error: str = ""
    """One sentence for the log."""

    for_user: str = ""
    """A message for the user, since no answer without documents would be right; empty: the turn
    continues as if there had been no search."""

    took_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    """Milliseconds of `rephrase`, `select`, `search`, `grade`."""

    @property
    def is_injected(self) -> bool:
        """Whether passages are inserted into the prompt of this turn."""
        return bool(self.injected_passages)

    @property
    def injected_passages(self) -> tuple[FoundPassage, ...]:
        """Passages for the prompt, best first; empty: nothing is inserted."""
        if self.status != "success" or self.relevant != "yes":
            return ()
        return self.documents if self.helpful is None else self.helpful

    @property
    def injected(self) -> str:
        """Passages for the prompt, as quotations; empty: nothing is inserted."""
        return quoted(self.injected_passages) if self.is_injected else ""

    @property
    def context_input(self) -> str:
        """The query, if passages are inserted; else empty."""
        return self.query if self.is_injected else ""

    def metadata(self) -> Json:
        """Return what clients receive immediately."""
        metadata: Json = {
            "searched_tables": list(self.searched),
            "failed_tables": list(self.failed),
            "context_input": self.query,
            "num_documents": len(self.documents),
        }
        return {**metadata, "selection": self.selection} if self.selection else metadata

    def artifact(self) -> Json:
        """Return what is stored with the conversation, so that people can see the sources."""
        return {
            "documents": [document.as_json() for document in self.documents],
            "context_input": self.query,
        }

    def as_json(self) -> Json:
        """Return the result as tools and REST return it."""
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
