"""What a chat model must be able to do. Knows no provider, no tools that run, no threads.

Messages are values of ours in the middle; OpenAI's JSON, which doors and most services speak, is
read by `message_from` and written by `message_json`.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias, cast, runtime_checkable

from toolgate.base import json_text
from toolgate.base.tracing import observe
from toolgate.errors import ArgumentError
from toolgate.types import Json, json_array, json_object

__all__ = [
    "NO_USAGE",
    "CallArguments",
    "CallEnd",
    "CallStart",
    "ChatModel",
    "ChatRequest",
    "Delta",
    "Finish",
    "FinishReason",
    "Message",
    "MessageAssembler",
    "ModelReply",
    "ProviderState",
    "Purpose",
    "Reasoning",
    "Role",
    "Text",
    "TokenUsage",
    "ToolCall",
    "complete",
    "gather",
    "message_from",
    "message_json",
    "messages_from",
]

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
"""Who says a message; OpenAI's `developer` is read as `system`."""

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter"]
"""Why a model stopped: OpenAI's words."""

Purpose: TypeAlias = Literal[
    "answer", "rephrase", "grade", "classify", "select", "summary", "evaluate"
]
"""What a request is for; time limits, budgets and usage are kept by it."""


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A call that a model asks for."""

    call_id: str
    """What its result refers to; some services repeat it in later turns."""

    name: str
    """Name of the tool, as it was offered."""

    arguments: str = "{}"
    """JSON as the model wrote it, which may be broken."""

    def read(self) -> Json | None:
        """The arguments as an object; None when they are none."""
        if not self.arguments.strip():
            return {}
        try:
            arguments = json_text.loads(self.arguments)
        except ValueError:
            return None
        return cast("Json", arguments) if isinstance(arguments, dict) else None

    @property
    def readable_arguments(self) -> str:
        """The arguments as JSON that every service reads: `{}` where they are no object.

        Some services read the calls of earlier answers, and refuse the whole request, and so every
        later one of its thread, for one that is broken.
        """
        arguments = self.read()
        if not arguments:
            return "{}"
        # Half of a surrogate pair is JSON, but neither Unicode nor what every service reads.
        if "\\ud" in self.arguments.lower():
            return json_text.dumps(arguments).decode()
        return self.arguments


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message of a conversation. It never changes, so nothing that builds a prompt can."""

    role: Role
    """Who says it."""

    content: str | tuple[Json, ...] = ""
    """Its text, or OpenAI's content parts when it has more than text."""

    calls: tuple[ToolCall, ...] = ()
    """Of an assistant: the calls that it asks for."""

    call_id: str = ""
    """Of a tool: the call that this answers."""

    name: str = ""
    """Of a tool: its name. Of others: the author's."""

    provider_state: Json = field(default_factory=dict[str, Any])
    """What a provider wants back unchanged, by provider, such as signed thinking of Anthropic."""

    notes: Json = field(default_factory=dict[str, Any])
    """What we know of it, such as the policy of a tool's result; never sent to a model."""

    @property
    def text(self) -> str:
        """Its text, that of all parts joined."""
        if isinstance(self.content, str):
            return self.content
        return "".join(str(part["text"]) for part in self.content if "text" in part)


@dataclass(frozen=True, kw_only=True)
class TokenUsage:
    """What a request cost, in tokens and money."""

    prompt_tokens: int = 0
    """Tokens of the request."""

    completion_tokens: int = 0
    """Tokens of the answer, those of reasoning included."""

    cached_tokens: int = 0
    """Those of `prompt_tokens` that the service had in its cache."""

    reasoning_tokens: int = 0
    """Those of `completion_tokens` that were spent on reasoning."""

    cost: float = 0.0
    """In the currency of the prices that are configured, 0 without any."""

    is_estimate: bool = False
    """Whether the service did not say, so that we counted."""

    @property
    def total_tokens(self) -> int:
        """Both together."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cost=self.cost + other.cost,
            is_estimate=self.is_estimate or other.is_estimate,
        )


NO_USAGE = TokenUsage()
"""Nothing was spent."""


@dataclass(frozen=True, kw_only=True)
class ChatRequest:
    """What a model is asked."""

    messages: tuple[Message, ...]
    """The conversation, oldest first."""

    tools: tuple[Json, ...] = ()
    """Tools that it may call, as OpenAI's `{"type": "function", "function": {…}}`. Without any,
    the request has no member for them."""

    parameters: Mapping[str, object] = field(default_factory=dict[str, object])
    """What else is passed on, under OpenAI's names: `temperature`, `max_tokens`, `tool_choice`,
    `response_format` and so on. An adapter leaves out what its service does not have."""

    purpose: Purpose = "answer"
    """What it is for."""


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the answer."""

    text: str
    """Never empty."""


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A piece of what the model thinks aloud."""

    text: str
    """Never empty."""


@dataclass(frozen=True, slots=True)
class CallStart:
    """A call begins: its name is known."""

    index: int
    """Which of the calls of this answer, from 0 on."""
    call_id: str
    """Its id; made by us where the service gives none."""
    name: str
    """Name of the tool."""


@dataclass(frozen=True, slots=True)
class CallArguments:
    """A piece of the arguments of a call."""

    index: int
    """Which call."""
    text: str
    """A part of its JSON."""


@dataclass(frozen=True, slots=True)
class CallEnd:
    """All arguments of a call have come."""

    index: int
    """Which call."""


@dataclass(frozen=True, slots=True)
class ProviderState:
    """What the provider wants back with the next request."""

    provider: str
    """Whose it is."""
    value: object
    """JSON; joins the list under `Message.kept[provider]`."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The answer is over."""

    reason: FinishReason
    """Why; `tool_calls` whenever there are calls and no limit was hit."""


Delta: TypeAlias = (
    Text | Reasoning | CallStart | CallArguments | CallEnd | ProviderState | TokenUsage | Finish
)
"""A piece of an answer. `Usage` comes at most once; `Finish` is last unless the stream breaks."""


@dataclass(frozen=True, kw_only=True)
class ModelReply:
    """A whole answer."""

    message: Message
    """Of the assistant."""

    reasoning: str = ""
    """What it thought aloud."""

    finish_reason: FinishReason | None = None
    """Why it stopped; None: the stream ended without saying so."""

    usage: TokenUsage = NO_USAGE
    """What the service said that it cost."""


@runtime_checkable
class ChatModel(Protocol):
    """Answers conversations.

    Duties, checked by `toolgate.testing.contracts.llm`:

    * Pieces come as the service sends them. Of each call `CallStart` is first, then its arguments
      in order, then `CallEnd`; calls may be mixed. Broken JSON passes as it is.
    * Text is given once, also where a service repeats all of it in its last piece.
    * `Finish` has the service's own reason, except that calls make it `tool_calls` where a service
      says `stop` or nothing.
    * One request to the service for each call of `stream`: whoever asks decides about repeating.
    * Closing the iterator, or cancelling, ends the request to the service at once.
    * What it keeps open ends with `aclose()`.
    """

    @property
    def identity(self) -> str:
        """Provider and model, for logs and records."""
        ...

    def stream(self, request: ChatRequest) -> AsyncIterator[Delta]:
        """The answer, piece by piece.

        Raises:
            ModelAuthError: The key is wrong or may not.
            ModelRateError: Too many requests; `wait_s` says how long to wait.
            ModelTimeoutError: It took too long.
            ContextTooLongError: The conversation does not fit into the model.
            ModelRequestError: The service refuses the request.
            ModelUnavailableError: The service is down, broke off or answers what cannot be read.
        """
        ...

    async def aclose(self) -> None:
        """End what is kept open."""
        ...


class MessageAssembler:
    """Puts the pieces of one answer together; what has come so far can be asked at any time."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._reasons: list[str] = []
        self._heads: dict[int, CallStart] = {}
        self._arguments: dict[int, list[str]] = {}
        self._provider_state: dict[str, list[object]] = {}
        self.usage: TokenUsage | None = None
        """What the service said; None: nothing so far."""
        self.finish: FinishReason | None = None
        """Why it stopped."""
        self.has_begun = False
        """Whether anything came that a client may have seen."""

    def add(self, delta: Delta) -> None:
        """Take one piece."""
        match delta:
            case Text(text):
                self.has_begun = True
                self._texts.append(text)
            case Reasoning(text):
                self.has_begun = True
                self._reasons.append(text)
            case CallStart():
                self.has_begun = True
                self._heads[delta.index] = delta
                self._arguments[delta.index] = []
            case CallArguments(index, text):
                self._arguments[index].append(text)
            case CallEnd():
                pass
            case ProviderState(provider, value):
                self._provider_state.setdefault(provider, []).append(value)
            case TokenUsage():
                self.usage = delta
            case Finish(reason):
                self.finish = reason

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._texts)

    @property
    def message(self) -> Message:
        """The message so far."""
        calls = tuple(
            ToolCall(
                call_id=head.call_id, name=head.name, arguments="".join(self._arguments[index])
            )
            for index, head in sorted(self._heads.items())
        )
        return Message(
            role="assistant",
            content=self.text,
            calls=calls,
            provider_state=dict(self._provider_state),
        )

    @property
    def reply(self) -> ModelReply:
        """The answer so far."""
        return ModelReply(
            message=self.message,
            reasoning="".join(self._reasons),
            finish_reason=self.finish,
            usage=self.usage or NO_USAGE,
        )


def gather(deltas: Iterable[Delta]) -> ModelReply:
    """The answer that pieces make."""
    gathering = MessageAssembler()
    for delta in deltas:
        gathering.add(delta)
    return gathering.reply


async def complete(model: ChatModel, request: ChatRequest) -> ModelReply:
    """The whole answer at once.

    Raises:
        ModelError: As `ChatModel.stream`.
    """
    gathering = MessageAssembler()
    stream = cast("Any", model.stream(request))
    with observe("model", model=model.identity, purpose=request.purpose):
        async with aclosing(stream) as deltas:
            async for delta in deltas:
                gathering.add(delta)
    return gathering.reply


# OpenAI's JSON

_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}


def message_json(message: Message, *, as_said: bool = False) -> Json:
    """A message as OpenAI writes it; `kept` and `notes` stay here.

    Args:
        message: The message.
        as_said: Whether arguments stay as the model wrote them, even if they are broken.
    """
    body: Json = {"role": message.role}
    content: object = message.content if isinstance(message.content, str) else list(message.content)
    if message.role == "assistant" and message.calls:
        body["content"] = content or None
        body["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": call.arguments if as_said else call.readable_arguments,
                },
            }
            for call in message.calls
        ]
    else:
        body["content"] = content
    if message.role == "tool":
        body["tool_call_id"] = message.call_id
    if message.name and message.role != "tool":
        body["name"] = message.name
    return body


def message_from(value: object, at: str) -> Message:
    """The message that OpenAI's JSON is; calls without id or name are left out.

    Args:
        value: What came.
        at: Where it stands, for the error: `messages[3]`.

    Raises:
        ArgumentError: It is no message.
    """
    body = json_object(value)
    role = body.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise ArgumentError(
            f"{at} has the role {role!r:.60}.",
            allowed="Allowed: system, developer, user, assistant, tool.",
        )
    message = Message(role=_ROLES[role], content=_content(body.get("content"), at))
    if role == "assistant":
        calls = tuple(filter(None, map(_call, json_array(body.get("tool_calls")))))
        message = replace(message, calls=calls)
    if role == "tool":
        call_id = body.get("tool_call_id")
        if not isinstance(call_id, str):
            raise ArgumentError(f"{at} has no tool_call_id.", hint="Name the call that it answers.")
        message = replace(message, call_id=call_id)
    name = body.get("name")
    return replace(message, name=name) if isinstance(name, str) else message


def _content(value: object, at: str) -> str | tuple[Json, ...]:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    parts = [json_object(part) for part in json_array(value)]
    if not isinstance(value, list) or not all(isinstance(part.get("type"), str) for part in parts):
        raise ArgumentError(
            f"{at} has unreadable content.",
            allowed='Allowed: a text, or a list of parts such as {"type": "text", "text": "…"}.',
        )
    if all(part["type"] == "text" for part in parts):
        return "".join(str(part.get("text", "")) for part in parts)
    return tuple(parts)


def _call(value: object) -> ToolCall | None:
    body = json_object(value)
    function = json_object(body.get("function"))
    call_id, name = body.get("id"), function.get("name")
    if not isinstance(call_id, str) or not isinstance(name, str) or not name:
        return None
    arguments: object = function.get("arguments", "{}")
    if not isinstance(arguments, str):
        arguments = json_text.dumps(arguments).decode()
    return ToolCall(call_id=call_id, name=name, arguments=arguments)


def messages_from(value: Sequence[object]) -> tuple[Message, ...]:
    """The messages of a request.

    Raises:
        ArgumentError: One is none.
    """
    return tuple(message_from(item, f"messages[{at}]") for at, item in enumerate(value))
