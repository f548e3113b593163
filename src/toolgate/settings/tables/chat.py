"""Tables about chat models, chat turns and documents."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from toolgate.settings.tables.fields import between

__all__ = ["ChatSettings", "DocumentModelTable", "DocumentSettings", "ModelTable"]


@dataclass(frozen=True, kw_only=True)
class ModelTable:
    """Table `[models.NAME]`: a chat model that [turns](chat.md) can use, under a name of yours."""

    provider: str = "openai"
    """File name in `llm/`: `openai` for OpenAI and every service that speaks like it, `anthropic`,
    `google`, or `scripted` for demonstrations and tests."""

    model: str = ""
    """What the service calls it; empty: NAME."""

    url: str = ""
    """Address of the service, such as `http://127.0.0.1:11434/v1`; empty: the provider's own."""

    key: str = field(default="", repr=False)
    """Key of the service; write `${env:NAME}` and not the key itself."""

    options: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    """Further options of the provider. See [chat](chat.md)."""

    aliases: tuple[str, ...] = ()
    """Other names under which clients may ask for it, such as `gpt-4o`."""

    fallbacks: tuple[str, ...] = ()
    """Names of other models that are asked in its place, in this order, when it cannot be reached
    or has no time, as long as nothing of an answer has come."""

    retries: int = between(2, 0, 10)
    """How often a request is repeated that failed before anything of the answer came; 0 to 10."""

    retry_within_s: float = between(20.0, 0, 600)
    """Seconds that pauses before repeated requests may take in all; 0 to 600."""

    first_token_s: float = between(60.0, 0.1, 3600)
    """Seconds until the first piece of an answer; 0.1 to 3,600."""

    silence_s: float = between(60.0, 0.1, 3600)
    """Seconds between two pieces of an answer; 0.1 to 3,600."""

    timeouts_s: Mapping[str, float] = field(default_factory=dict[str, float])
    """Seconds of a whole answer by its purpose: `answer` (600), `rephrase` (60), `grade` (30),
    `classify` (15), `select` (30), `summary` (120)."""

    context_tokens: int = between(128_000, 500, 100_000_000)
    """Estimated tokens that a request may have; 500 to 100,000,000. Threads are made shorter for
    it."""

    images: bool = True
    """Whether it can be sent images."""

    tool_messages: bool = True
    """Whether it understands calls and their results as messages; otherwise these are written into
    a message of the user."""

    price_input: float = between(0.0, 0, 1_000_000)
    """Price of 1,000,000 tokens that are sent; 0 to 1,000,000."""

    price_cached: float | None = between(None, 0, 1_000_000)
    """The same for tokens that the service has in its cache, 0 to 1,000,000; none: as
    `price_input`."""

    price_output: float = between(0.0, 0, 1_000_000)
    """Price of 1,000,000 tokens of answers; 0 to 1,000,000."""


@dataclass(frozen=True, kw_only=True)
class ChatSettings:
    """Table `[chat]`: whole turns behind `/v1`. See [chat](chat.md).

    It answers as soon as there is a `[models.NAME]`.
    """

    model: str = ""
    """Name of the model that answers when a request asks for none; empty: the first one."""

    helper_model: str = ""
    """Name of the model that rephrases, grades, classifies and sums up; empty: the one that
    answers."""

    engine: str = "langgraph"
    """File name in `flow/`: what goes from step to step, `langgraph` or `plain`, which needs no
    library and does the same."""

    tools_enabled: tuple[str, ...] = ("Vector Search", "NL2SQL")
    """Which kinds of tools of the packs `documents` and `sql` a turn has, beside those of other
    servers; empty: no tools at all but the client's own."""

    retrieval: Literal["auto", "forced", "classifier"] = "auto"
    """Who decides that documents are looked up: the model (`auto`), nobody since it always happens
    (`forced`), or a look at the question before (`classifier`)."""

    history: bool = True
    """Whether the model sees earlier turns of the thread."""

    rephrase: bool = True
    """Whether a question that refers to earlier ones is made one that stands alone, before
    documents are searched."""

    grade: bool = True
    """Whether a model looks if the documents that were found help."""

    top_k: int = between(8, 1, 100)
    """Documents of a turn; 1 to 100."""

    search_type: Literal["similarity", "similarity_score_threshold", "mmr", "hybrid"] = "hybrid"
    """How documents are searched."""

    collections: tuple[str, ...] = ()
    """Names or aliases of the collections that are looked up; empty: the model chooses from all."""

    inject: Literal["tail", "system"] = "tail"
    """Where documents are put: at the end of the conversation, so that what was sent before is
    sent the same again and services have it in their cache, or in the system message."""

    call_before_model: Literal["exact", "any", "off"] = "exact"
    """Whether the tool of an intent is called before the model is asked: when an exact keyword and
    all arguments are in the message, for `any` intent with a tool, or never."""

    max_tools: int = between(12, 1, 128)
    """Most tools of the search that a turn begins with; 1 to 128. Pinned ones come on top."""

    thread_tools: int = between(32, 1, 512)
    """Most tools of the search that a thread collects; 1 to 512. Further ones are reached through
    the meta-tools."""

    meta_tools: bool = True
    """Whether the model gets `tool_discovery` and `tool_execute` too, to find more."""

    max_steps: int = between(50, 1, 1_000)
    """Answers of the model in one turn; 1 to 1,000."""

    max_tool_calls: int = between(100, 0, 10_000)
    """Calls of tools in one turn; 0 to 10,000."""

    max_sql_calls: int = between(10, 0, 10_000)
    """Calls of tools of the pack `sql` in one turn; 0 to 10,000."""

    max_tokens: int = between(1_000_000, 100, 1_000_000_000)
    """Tokens of all requests and answers of one turn; 100 to 1,000,000,000."""

    max_cost: float = between(0.0, 0, 1_000_000)
    """What one turn may cost, by the prices of its models; 0 to 1,000,000, 0: as much as it
    does."""

    max_seconds: float = between(600.0, 1, 86_400)
    """Seconds of one turn; 1 to 86,400."""

    parallel_calls: int = between(4, 1, 64)
    """Calls of one answer that run at the same time; 1 to 64. Tools that may destroy run one after
    another."""

    thread_policy: Literal["reject", "enqueue", "interrupt", "rollback"] = "enqueue"
    """What happens to a turn when its thread has one that runs: it is refused, waits, or ends the
    other, of which what was said stays (`interrupt`) or goes (`rollback`)."""

    thread_fields: tuple[str, ...] = (
        "metadata.thread_id",
        "metadata.chat_id",
        "metadata.conversation_id",
        "X-OpenWebUI-Chat-Id",
        "X-LibreChat-Conversation-Id",
    )
    """Where clients that do not send `X-Toolgate-Thread` name the thread, in this order: headers,
    and members of the body as `metadata.NAME`."""

    thread_from_user: bool = False
    """Whether requests that name no thread but have `user` belong to a thread of that user and the
    first message."""

    results: Mapping[str, str] = field(default_factory=dict[str, str])
    """What later requests have of the results of tools, by pattern of their keys: `keep` all,
    `stub` a line in place of the result, `drop_pair` neither call nor result."""

    result_tokens: int = between(25_000, 100, 10_000_000)
    """Most estimated tokens of one result of a tool; 100 to 10,000,000. What is longer is cut."""

    injected: tuple[str, ...] = ("thread_id",)
    """Parameters of tools that no model sees or sets: `thread_id`, `project_id`, `caller_id`,
    `turn_id`. They are taken out of schemas and filled in with what is true."""

    compact_share: float = between(0.8, 0.1, 1.0)
    """Part of the model's `context_tokens` from which on a thread is made shorter; 0.1 to 1.0."""

    keep_turns: int = between(4, 1, 1_000)
    """Latest turns of which nothing is taken away then; 1 to 1,000."""

    approval_wait_s: float = between(0.0, 0, 86_400)
    """Seconds that a streamed turn waits for an approval before it ends and is taken up later; 0
    to 86,400."""

    heartbeat_s: float = between(15.0, 0.05, 600)
    """Seconds of silence after which a stream says that it is alive; 0.05 to 600."""

    issue_url: str = ""
    """Address that error messages to users name for reports; empty: none is named."""


@dataclass(frozen=True, kw_only=True)
class DocumentModelTable:
    """Table `[documents.models.NAME]`: an embedding model that collections may have."""

    embedder: str = "bundled"
    """File name in `embed/`: `bundled`, `onnx`, `openai`."""

    options: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    """Options of the embedder; see [embedders](embedders.md)."""

    enabled: bool = True
    """Whether it is used; collections of a model that is not are left out."""


@dataclass(frozen=True, kw_only=True)
class DocumentSettings:
    """Table `[documents]`: how documents are kept and found. See [documents](documents.md)."""

    model: str = "bundled"
    """Embedding model of new collections: a name of `[documents.models]`, or a file name in
    `embed/` that needs no options."""

    models: Mapping[str, DocumentModelTable] = field(default_factory=dict[str, DocumentModelTable])
    """Tables `[documents.models.NAME]`: embedding models by name."""

    metric: Literal["cosine", "euclidean", "dot"] = "cosine"
    """How vectors of new collections are compared."""

    place: str = "auto"
    """File name in `vectors/`: where vectors of new collections are kept, `sqlite`, `pgvector`,
    `milvus` or `qdrant`. `auto`: in the store."""

    place_options: Mapping[str, Mapping[str, object]] = field(
        default_factory=dict[str, Mapping[str, object]], repr=False
    )
    """Tables `[documents.place_options.NAME]`: options of a place."""

    search_type: Literal["similarity", "similarity_score_threshold", "mmr", "hybrid"] = "hybrid"
    """How passages are found: `similarity`, the nearest; `similarity_score_threshold`, those of
    them that are near enough; `mmr`, near ones that differ; `hybrid`, by meaning and by words."""

    top_k: int = between(4, 1, 100)
    """Passages that a question gets; 1 to 100."""

    score_threshold: float = between(0.65, 0, 1)
    """Least similarity with `similarity_score_threshold`, 0 to 1; 0: none."""

    fetch_k: int = between(30, 1, 1000)
    """Passages that `mmr` and `hybrid` choose from; 1 to 1,000."""

    reranker: str = "bundled"
    """File name in `rerankers/`: what puts the passages that `hybrid` found in order, `bundled`,
    `onnx` (a cross-encoder) or `http`; `off`: meaning and words, merged by rank."""

    reranker_options: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    """Options of the reranker."""

    lambda_mult: float = between(0.5, 0, 1)
    """With `mmr`, how much nearness counts against variety; 0 to 1."""

    max_collections: int = between(3, 1, 20)
    """Collections that a chat model may choose for a question; 1 to 20."""

    rephrase: bool = True
    """Whether a question that refers back is made whole by its conversation first."""

    grade: bool = True
    """Whether a chat model says if passages help, so that those which do not are left out."""

    rephrase_timeout_s: float = between(60.0, 0.1, 3600)
    """Seconds that rephrasing and choosing collections may take; 0.1 to 3,600."""

    grade_timeout_s: float = between(30.0, 0.1, 3600)
    """Seconds that grading may take; 0.1 to 3,600."""

    timeout_s: float = between(15.0, 0.1, 3600)
    """Seconds that a collection may take to answer; 0.1 to 3,600."""

    cooldown_s: float = between(30.0, 0, 3600)
    """Seconds for which a collection that failed three times in a row is not asked; 0 to 3,600."""

    passage_tokens: int = between(300, 32, 8000)
    """Estimated tokens of a passage at most; 32 to 8,000. Documents that were cut otherwise are
    cut anew when they are added again."""

    max_file_mb: int = between(64, 1, 2048)
    """Megabytes of a file at most; 1 to 2,048."""

    max_text_mb: int = between(16, 1, 1024)
    """Megabytes of the text in a file at most; 1 to 1,024."""

    convert_timeout_s: float = between(120.0, 1, 3600)
    """Seconds that reading one file may take; 1 to 3,600."""
