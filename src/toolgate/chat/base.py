"""The values of a chat turn: request, settings, events, outcome."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypedDict

from toolgate.models.llm import FinishReason, Message, TokenUsage
from toolgate.types import Caller, Json

DOCUMENTS = "Vector Search"
"""The kind of tools that search documents."""

SQL = "NL2SQL"
"""The kind of tools that query databases."""

KINDS = (DOCUMENTS, SQL)
"""Valid values in `tools_enabled`."""

Event: TypeAlias = Json
"""An event in a turn: an object with exactly one member, whose name is the kind of event.

`stream` (a piece of the answer), `reasoning`, `vs_metadata`, `token_usage`, `completion`,
`turn`, `query`, `tools`, `intent`, `mcp_tool`, `injected`, `grade`, `route`, `retry`,
`approval`, `compaction`, `budget`, `sources`, `call` (a call of the client's own tools) and
`error`.
"""

Policy: TypeAlias = Literal["keep", "stub", "drop_pair"]
"""What later requests contain of a tool's result: all of it, one line in its place, or neither
call nor result."""

Route: TypeAlias = Literal["retrieve", "tools", "complete", "end"]
"""The next step."""

TurnStatus: TypeAlias = Literal[
    "completed", "waiting", "client_calls", "cancelled", "failed", "out_of_budget"
]
"""How a turn ended. `waiting`: a call needs an approval. `client_calls`: the client has to run
its own tools now."""


@dataclass(frozen=True, kw_only=True)
class Choices:
    """The settings of a turn, from the file, the project, the thread and the request."""

    model: str = ""
    """Name of the model that answers; empty: the default one."""

    tools_enabled: tuple[str, ...] = KINDS
    """Enabled kinds of tools, from `KINDS`."""

    retrieval: Literal["auto", "forced", "classifier"] = "auto"
    """How the decision to search documents is made."""

    history: bool = True
    """Whether the model sees earlier turns."""

    rephrase: bool = True
    """Whether questions are rewritten to stand alone before documents are searched."""

    grade: bool = True
    """Whether a model checks that documents help."""

    top_k: int = 8
    """Largest number of passages in a turn, 1 to 100."""

    search_type: Literal["similarity", "similarity_score_threshold", "mmr", "hybrid"] = "hybrid"
    """How documents are searched."""

    collections: tuple[str, ...] = ()
    """Names or aliases of the collections to search; empty: the model chooses from all."""

    inject: Literal["tail", "system"] = "tail"
    """Where documents are inserted into the prompt."""

    call_before_model: Literal["exact", "any", "off"] = "exact"
    """Whether the tool of a detected intent is called before the model is asked."""

    thread_policy: Literal["reject", "enqueue", "interrupt", "rollback"] = "enqueue"
    """What happens to a new turn while another one of the thread runs."""


@dataclass(frozen=True, kw_only=True)
class TurnRequest:
    """A request for a turn."""

    caller: Caller
    """The caller."""

    messages: tuple[Message, ...]
    """The messages. With a thread, only the system text and the last user message, or results of
    the client's tools, are used; without one, they are the whole conversation."""

    thread: str | None = None
    """Name of the thread; None: nothing is stored."""

    tools: tuple[Json, ...] = ()
    """The client's own tools, in OpenAI's format, which the client runs itself."""

    parameters: Mapping[str, object] = field(default_factory=dict[str, object])
    """Parameters for the model, such as `temperature`."""

    choices: Json = field(default_factory=dict[str, Any])
    """Fields of `Choices` for this turn only."""

    is_whole: bool = False
    """Whether `messages` are a whole conversation even with a thread: a new thread starts with
    those before the last question."""

    resumes: bool = False
    """Whether it continues with calls that waited for approval, without a new message."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a turn."""

    turn_id: str
    """Id of the turn."""

    model: str
    """Name of the model that answered."""

    text: str
    """All text of the turn, in order."""

    calls: tuple[Json, ...] = ()
    """Calls for the client, in OpenAI's format."""

    finish_reason: FinishReason = "stop"
    """Why the model stopped, in its own words."""

    status: TurnStatus = "completed"
    """How the turn ended."""

    usage: TokenUsage = field(default_factory=TokenUsage)
    """Usage of all its requests."""

    metadata: Json = field(default_factory=dict[str, Any])
    """`token_usage`, `vs_metadata`, `sources`, `unknown_citations`, `tools`, `cost` and others,
    if there are any."""

    reasoning: str = ""
    """The model's visible reasoning."""


class TurnState(TypedDict, total=False):
    """The state that is passed from step to step."""

    messages: list[Message]
    """New messages of the turn so far; append-only."""

    cleaned_messages: list[Message]
    """Messages of the last request to the model."""

    context_input: str
    """Query for documents in this turn; empty: no search."""

    documents: str
    """Documents for the model, only in this turn and in no checkpoint."""

    vs_metadata: Json
    """Metadata of the search in this turn; empty: no search."""

    final_response: Json
    """The answer in OpenAI's format; empty until there is one."""


class Update(TypedDict, total=False):
    """Changes by a step; `messages` are appended, everything else is replaced."""

    messages: list[Message]
    """Messages to append."""

    cleaned_messages: list[Message]
    """Messages of the request to the model."""

    context_input: str
    """Query for documents."""

    documents: str
    """Documents."""

    vs_metadata: Json
    """Metadata of the search."""

    final_response: Json
    """The answer."""
