"""Tables about chat models, chat turns and documents."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from toolgate.settings.tables.fields import between


@dataclass(frozen=True, kw_only=True)
class ModelTable:
    """Table `[models.NAME]`: a chat model for [`/v1`](chat.md), under a name of your choice."""

    provider: str = "openai"
    """API of the service: `openai` (OpenAI and compatible services), `anthropic`, `google`,
    `scripted` (for demonstrations and tests) or an installed plugin."""

    model: str = ""
    """Model name at the service; empty: NAME."""

    url: str = ""
    """Base URL of the service, such as `http://127.0.0.1:11434/v1`; empty: the provider's own."""

    key: str = field(default="", repr=False)
    """API key of the service; write `${env:NAME}`, not the key itself."""

    options: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    """More options of the provider. See [chat](chat.md)."""

    aliases: tuple[str, ...] = ()
    """Other names that clients may use for the model, such as `gpt-4o`."""

    fallbacks: tuple[str, ...] = ()
    """Names of other models to try, in this order, if the model fails or is overloaded before any
    part of the answer has arrived."""

    retries: int = between(2, 0, 10)
    """How often a request is retried that failed before any part of the answer arrived; 0 to 10."""

    retry_within_s: float = between(20.0, 0, 600)
    """Total time for pauses between retries, in seconds; 0 to 600."""

    first_token_s: float = between(60.0, 0.1, 3600)
    """Timeout for the first token of an answer, in seconds; 0.1 to 3,600."""

    silence_s: float = between(60.0, 0.1, 3600)
    """Timeout between two tokens of an answer, in seconds; 0.1 to 3,600."""

    timeouts_s: Mapping[str, float] = field(default_factory=dict[str, float])
    """Total timeouts of an answer in seconds, by purpose: `answer` (600), `rephrase` (60), `grade`
    (30), `classify` (15), `select` (30), `summary` (120)."""

    context_tokens: int = between(128_000, 500, 100_000_000)
    """Context size in estimated tokens, 500 to 100,000,000. Longer threads are compacted."""

    images: bool = True
    """Whether the model accepts images."""

    tool_messages: bool = True
    """Whether the model supports tool calls and results as messages; otherwise they are sent as
    text in a user message."""

    price_input: float = between(0.0, 0, 1_000_000)
    """Price of 1,000,000 input tokens; 0 to 1,000,000."""

    price_cached: float | None = between(None, 0, 1_000_000)
    """Price of 1,000,000 input tokens from the provider's cache, 0 to 1,000,000; default:
    `price_input`."""

    price_output: float = between(0.0, 0, 1_000_000)
    """Price of 1,000,000 output tokens; 0 to 1,000,000."""


@dataclass(frozen=True, kw_only=True)
class ChatSettings:
    """Table `[chat]`: chat turns at `/v1`. See [chat](chat.md).

    Chat is available if there is at least one `[models.NAME]`.
    """

    model: str = ""
    """Default model (NAME of a `[models.NAME]` table); empty: the first one."""

    helper_model: str = ""
    """Model for rephrasing, grading, classifying and summarizing; empty: the model that answers."""

    engine: str = "langgraph"
    """Engine that runs the steps of a turn: `langgraph`, or `plain`, which does the same and needs
    no library."""

    tools_enabled: tuple[str, ...] = ("Vector Search", "NL2SQL")
    """Built-in tool groups offered in addition to the tools of your servers: `Vector Search` (pack
    `documents`) and `NL2SQL` (pack `sql`); empty: only the client's own tools."""

    retrieval: Literal["auto", "forced", "classifier"] = "auto"
    """When documents are searched. `auto`: when the model asks for it. `forced`: before every
    answer. `classifier`: before the answer if the question looks like one about documents."""

    history: bool = True
    """Whether the model sees earlier turns of the thread."""

    rephrase: bool = True
    """Whether a follow-up question is rewritten as a standalone question before documents are
    searched."""

    grade: bool = True
    """Whether a model checks the passages that were found and irrelevant ones are dropped."""

    top_k: int = between(8, 1, 100)
    """Maximum number of passages per document search; 1 to 100."""

    search_type: Literal["similarity", "similarity_score_threshold", "mmr", "hybrid"] = "hybrid"
    """Search in documents; the values are explained under `documents.search_type`."""

    collections: tuple[str, ...] = ()
    """Names or aliases of the collections to search; empty: the model chooses."""

    inject: Literal["tail", "system"] = "tail"
    """Where passages are inserted. `tail`: at the end of the conversation, which keeps the
    provider's prompt cache valid. `system`: in the system message."""

    call_before_model: Literal["exact", "any", "off"] = "exact"
    """Whether the tool of an intent is called before the model is asked. `exact`: if the message
    contains an exact keyword and all arguments. `any`: for every intent with a tool. `off`: never.
    """

    max_tools: int = between(12, 1, 128)
    """Maximum number of tools that the search adds to a new turn, 1 to 128. Pinned tools are added
    to these."""

    thread_tools: int = between(32, 1, 512)
    """Maximum number of tools that the search adds over a whole thread, 1 to 512. The model can
    reach the others through the meta-tools."""

    meta_tools: bool = True
    """Whether the model also gets `tool_discovery` and `tool_execute`, to find more tools."""

    max_steps: int = between(50, 1, 1_000)
    """Maximum number of model responses per turn; 1 to 1,000."""

    max_tool_calls: int = between(100, 0, 10_000)
    """Maximum number of tool calls per turn; 0 to 10,000."""

    max_sql_calls: int = between(10, 0, 10_000)
    """Maximum number of calls to tools of the pack `sql` per turn; 0 to 10,000."""

    max_tokens: int = between(1_000_000, 100, 1_000_000_000)
    """Maximum number of tokens of all requests and answers per turn; 100 to 1,000,000,000."""

    max_cost: float = between(0.0, 0, 1_000_000)
    """Maximum cost of a turn, in the currency of the model prices; 0 to 1,000,000, 0: unlimited."""

    max_seconds: float = between(600.0, 1, 86_400)
    """Time limit of a turn in seconds; 1 to 86,400."""

    parallel_calls: int = between(4, 1, 64)
    """Maximum number of concurrent tool calls in a turn, 1 to 64. Destructive tools run one at a
    time."""

    thread_policy: Literal["reject", "enqueue", "interrupt", "rollback"] = "enqueue"
    """What happens to a new turn while another turn of the same thread is running. `reject`: it
    fails. `enqueue`: it waits. `interrupt`: it stops the other one and keeps its messages.
    `rollback`: it stops the other one and deletes its messages."""

    thread_fields: tuple[str, ...] = (
        "metadata.thread_id",
        "metadata.chat_id",
        "metadata.conversation_id",
        "X-OpenWebUI-Chat-Id",
        "X-LibreChat-Conversation-Id",
    )
    """Headers, and body fields as `metadata.NAME`, that name the thread if a client does not send
    `X-Toolgate-Thread`; the first one counts."""

    thread_from_user: bool = False
    """Whether requests without a thread but with the field `user` get a thread derived from that
    user and the first message."""

    results: Mapping[str, str] = field(default_factory=dict[str, str])
    """How much of earlier tool results later requests to the model contain, by tool pattern: `keep`
    (everything), `stub` (one line instead of the result), `drop_pair` (neither call nor result)."""

    result_tokens: int = between(25_000, 100, 10_000_000)
    """Maximum size of a tool result in estimated tokens, 100 to 10,000,000; longer ones are
    truncated."""

    injected: tuple[str, ...] = ("thread_id",)
    """Tool parameters that Toolgate hides from the model and fills in itself: `thread_id`,
    `project_id`, `caller_id`, `turn_id`."""

    compact_share: float = between(0.8, 0.1, 1.0)
    """Share of the model's `context_tokens` above which a thread is compacted; 0.1 to 1.0."""

    keep_turns: int = between(4, 1, 1_000)
    """Number of latest turns that compaction leaves unchanged if they fit; 1 to 1,000."""

    approval_wait_s: float = between(0.0, 0, 86_400)
    """How long a streamed turn waits for an approval, in seconds; 0 to 86,400. After that it ends
    and can be resumed."""

    heartbeat_s: float = between(15.0, 0.05, 600)
    """Interval of keep-alive messages on an idle stream, in seconds; 0.05 to 600."""

    issue_url: str = ""
    """URL for reporting problems, shown in error messages; empty: none."""


@dataclass(frozen=True, kw_only=True)
class DocumentModelTable:
    """Table `[documents.models.NAME]`: an embedding model for collections."""

    embedder: str = "bundled"
    """Embedder: `bundled`, `onnx`, `openai` or an installed plugin."""

    options: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    """Options of the embedder; see [embedders](embedders.md)."""

    enabled: bool = True
    """Whether the model is used; otherwise its collections are skipped."""


@dataclass(frozen=True, kw_only=True)
class DocumentSettings:
    """Table `[documents]`: storing and searching documents. See [documents](documents.md)."""

    model: str = "bundled"
    """Embedding model of new collections: a name of `[documents.models]`, or an embedder that needs
    no options."""

    models: Mapping[str, DocumentModelTable] = field(default_factory=dict[str, DocumentModelTable])
    """Tables `[documents.models.NAME]`: embedding models."""

    metric: Literal["cosine", "euclidean", "dot"] = "cosine"
    """Similarity metric of new collections."""

    place: str = "auto"
    """Vector store of new collections: `sqlite`, `pgvector`, `milvus`, `qdrant` or an installed
    plugin. `auto`: Toolgate's database."""

    place_options: Mapping[str, Mapping[str, object]] = field(
        default_factory=dict[str, Mapping[str, object]], repr=False
    )
    """Tables `[documents.place_options.NAME]`: options of a vector store."""

    search_type: Literal["similarity", "similarity_score_threshold", "mmr", "hybrid"] = "hybrid"
    """How passages are found. `similarity`: nearest vectors. `similarity_score_threshold`: only
    those with at least `score_threshold`. `mmr`: near but diverse ones (maximal marginal
    relevance). `hybrid`: vectors and keywords."""

    top_k: int = between(4, 1, 100)
    """Maximum number of passages per question; 1 to 100."""

    score_threshold: float = between(0.65, 0, 1)
    """Minimum similarity with `similarity_score_threshold`, 0 to 1; 0: none."""

    fetch_k: int = between(30, 1, 1000)
    """Number of candidates for `mmr` and `hybrid`; 1 to 1,000."""

    reranker: str = "bundled"
    """Reranker for `hybrid`: `bundled`, `onnx` (a cross-encoder), `http` or an installed plugin.
    `off`: vector and keyword hits are merged by rank."""

    reranker_options: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    """Options of the reranker."""

    lambda_mult: float = between(0.5, 0, 1)
    """With `mmr`: weight of similarity against diversity, 0 to 1; 1: similarity only."""

    max_collections: int = between(3, 1, 20)
    """Maximum number of collections that a model may choose for a question; 1 to 20."""

    rephrase: bool = True
    """Whether a follow-up question is rewritten as a standalone question first."""

    grade: bool = True
    """Whether a chat model checks the passages and irrelevant ones are dropped."""

    rephrase_timeout_s: float = between(60.0, 0.1, 3600)
    """Timeout for rephrasing the question and choosing collections, in seconds; 0.1 to 3,600."""

    grade_timeout_s: float = between(30.0, 0.1, 3600)
    """Timeout for grading, in seconds; 0.1 to 3,600."""

    timeout_s: float = between(15.0, 0.1, 3600)
    """Timeout for searching a collection, in seconds; 0.1 to 3,600."""

    cooldown_s: float = between(30.0, 0, 3600)
    """How long a collection is skipped after three failures in a row, in seconds; 0 to 3,600."""

    passage_tokens: int = between(350, 32, 8000)
    """Maximum size of a passage in estimated tokens, 32 to 8,000. Documents split with another size
    are only split again when you add them again."""

    max_file_mb: int = between(64, 1, 2048)
    """Maximum size of a file in megabytes; 1 to 2,048."""

    max_text_mb: int = between(16, 1, 1024)
    """Maximum size of the text in a file, in megabytes; 1 to 1,024."""

    convert_timeout_s: float = between(120.0, 1, 3600)
    """Timeout for reading a file, in seconds; 1 to 3,600."""
