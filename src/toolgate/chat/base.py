"""The values of a chat turn: request, settings, events, outcome."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypedDict

from toolgate.models.llm import FinishReason, Message, TokenUsage
from toolgate.types import Caller, Json

__all__ = [
    "DOCUMENTS",
    "KINDS",
    "SQL",
    "Choices",
    "Event",
    "Outcome",
    "Policy",
    "Route",
    "TurnRequest",
    "TurnState",
    "TurnStatus",
    "Update",
]

DOCUMENTS = "Vector Search"
"""The kind of tools that look documents up."""

SQL = "NL2SQL"
"""The kind of tools that ask databases."""

KINDS = (DOCUMENTS, SQL)
"""What `tools_enabled` may hold."""

Event: TypeAlias = Json
"""Something that happened in a turn: an object with exactly one member, whose name says what.

`stream` (a piece of the answer), `reasoning`, `vs_metadata`, `token_usage`, `completion`, `turn`,
`query`, `tools`, `intent`, `mcp_tool`, `injected`, `grade`, `route`, `retry`, `approval`,
`compaction`, `budget`, `sources`, `call` (a call of the client's own tools) and `error`.
"""

Policy: TypeAlias = Literal["keep", "stub", "drop_pair"]
"""What later requests have of a tool's result: all of it, a line in its place, or neither call nor
result."""

Route: TypeAlias = Literal["retrieve", "tools", "complete", "end"]
"""The step that follows."""

TurnStatus: TypeAlias = Literal[
    "completed", "waiting", "client_calls", "cancelled", "failed", "out_of_budget"
]
"""How a turn ended. `waiting`: a call needs a person's yes. `client_calls`: the client runs its own
tools now."""


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What a turn goes by: settings of the file, the project, the thread and the request."""

    model: str = ""
    """Name of the model that answers; empty: the default one."""

    tools_enabled: tuple[str, ...] = KINDS
    """Which of `KINDS` there are."""

    retrieval: Literal["auto", "forced", "classifier"] = "auto"
    """Who decides that documents are looked up."""

    history: bool = True
    """Whether the model sees earlier turns."""

    rephrase: bool = True
    """Whether questions are made to stand alone before documents are searched."""

    grade: bool = True
    """Whether it is looked if documents help."""

    top_k: int = 8
    """Documents of a turn, 1 to 100."""

    search_type: Literal["similarity", "similarity_score_threshold", "mmr", "hybrid"] = "hybrid"
    """How documents are searched."""

    collections: tuple[str, ...] = ()
    """Names or aliases of the collections that are looked up; empty: the model chooses from all."""

    inject: Literal["tail", "system"] = "tail"
    """Where documents are put."""

    call_before_model: Literal["exact", "any", "off"] = "exact"
    """Whether the tool of an intent is called before the model is asked."""

    thread_policy: Literal["reject", "enqueue", "interrupt", "rollback"] = "enqueue"
    """What happens when another turn of the thread runs."""


@dataclass(frozen=True, kw_only=True)
class TurnRequest:
    """What somebody says, and how it is to be answered."""

    caller: Caller
    """Who."""

    messages: tuple[Message, ...]
    """What came: with a thread its last user message, or results of the client's tools, count;
    without one it is the whole conversation."""

    thread: str | None = None
    """Name of the thread; None: nothing is kept."""

    tools: tuple[Json, ...] = ()
    """The client's own tools, in OpenAI's form, which the client runs itself."""

    parameters: Mapping[str, object] = field(default_factory=dict[str, object])
    """What is passed on to the model, such as `temperature`."""

    choices: Json = field(default_factory=dict[str, Any])
    """Fields of `Choices` for this turn alone."""

    resumes: bool = False
    """Whether it takes up calls that waited for an approval, and says nothing new."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a turn."""

    turn_id: str
    """Which one."""

    model: str
    """Name of the model that answered."""

    text: str
    """All that was said, in order."""

    calls: tuple[Json, ...] = ()
    """Calls for the client, in OpenAI's form."""

    finish_reason: FinishReason = "stop"
    """Why the model stopped, as it said."""

    status: TurnStatus = "completed"
    """How the turn ended."""

    usage: TokenUsage = field(default_factory=TokenUsage)
    """What it cost, all requests together."""

    metadata: Json = field(default_factory=dict[str, Any])
    """`token_usage`, `vs_metadata`, `sources`, `unknown_citations`, `tools`, `cost` and others, as
    far as there is something."""

    reasoning: str = ""
    """What the model thought aloud."""


class TurnState(TypedDict, total=False):
    """What is carried from step to step."""

    messages: list[Message]
    """What the turn said so far; only ever added to."""

    cleaned_messages: list[Message]
    """What the model was sent last."""

    context_input: str
    """What was searched for in this turn; empty: nothing."""

    documents: str
    """Documents for the model, in this turn and in no other, and in no checkpoint."""

    vs_metadata: Json
    """What was searched in this turn; empty: nothing."""

    final_response: Json
    """The answer as OpenAI has it; empty until there is one."""


class Update(TypedDict, total=False):
    """What a step changes; `messages` are added, all else is replaced."""

    messages: list[Message]
    """Further messages."""

    cleaned_messages: list[Message]
    """What the model was sent."""

    context_input: str
    """What was searched for."""

    documents: str
    """Documents."""

    vs_metadata: Json
    """What was searched."""

    final_response: Json
    """The answer."""
