"""The contract of chat models. Knows no provider, no running tools, no threads.

Messages are values of our own; `message_from` and `message_json` convert from and to OpenAI's
JSON, which the chat endpoints and most services use.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias, cast, runtime_checkable

from toolgate.base import json_text
from toolgate.base.tracing import observe
from toolgate.errors import ArgumentError
from toolgate.types import Json, json_array, json_object

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
"""Author of a message; OpenAI's `developer` is read as `system`."""

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter"]
"""Why a model stopped, in OpenAI's terms."""

Purpose: TypeAlias = Literal[
    "answer", "rephrase", "grade", "classify", "select", "summary", "evaluate"
]
"""Purpose of a request, by which time limits, budgets and usage are separated."""


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A tool call that a model requests."""

    call_id: str
    """Id to which the result refers; some services reuse ids in later turns."""

    name: str
    """Name of the tool, as in the request."""

    arguments: str = "{}"
    """JSON as the model wrote it, which may be invalid."""

    def read(self) -> Json | None:
        """Return the arguments as an object; None if they are not one."""
        if not self.arguments.strip():
            return {}
        try:
            arguments = json_text.loads(self.arguments)
        except ValueError:
            return None
        return cast("Json", arguments) if isinstance(arguments, dict) else None

    @property
    def readable_arguments(self) -> str:
        """Return the arguments as JSON that every service accepts: `{}` if they are not an object.

        Some services parse the calls of earlier answers. One invalid call would make them reject
        this request and all later ones of its thread.
        """
        arguments = self.read()
        if not arguments:
            return "{}"
        # A lone surrogate is valid JSON, but invalid Unicode, and some services reject it.
        if "\\ud" in self.arguments.lower():
            return json_text.dumps(arguments).decode()
        return self.arguments


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message of a conversation; immutable, so that building a prompt cannot change it."""

    role: Role
    """Its author."""

    content: str | tuple[Json, ...] = ""
    """Its text, or OpenAI's content parts if it has more than text."""

    calls: tuple[ToolCall, ...] = ()
    """Assistant messages: the requested calls."""

    call_id: str = ""
    """Tool messages: the call that this is the result of."""

    name: str = ""
    """Tool messages: name of the tool. Others: name of the author."""

    loads: tuple[str, ...] = ()
    """User messages: names of the tools that the conversation offers from here on. In a long
    conversation, services get their definitions here, so that what precedes them stays the same."""

    provider_state: Json = field(default_factory=dict[str, Any])
    """Data to send back unchanged, by provider, such as signed thinking of Anthropic."""

    notes: Json = field(default_factory=dict[str, Any])
    """Our own data, such as the policy of a tool's result; never sent to a model."""

    @property
    def text(self) -> str:
        """Its text; several parts are joined."""
        if isinstance(self.content, str):
            return self.content
        return "".join(str(part["text"]) for part in self.content if "text" in part)


@dataclass(frozen=True, kw_only=True)
class TokenUsage:
    """Tokens and cost of a request."""

    prompt_tokens: int = 0
    """Tokens of the request."""

    completion_tokens: int = 0
    """Tokens of the answer, including reasoning."""

    cached_tokens: int = 0
    """Part of `prompt_tokens` that came from the service's cache."""

    reasoning_tokens: int = 0
    """Part of `completion_tokens` that was used for reasoning."""

    cost: float = 0.0
    """In the currency of the configured prices; 0 if there are none."""

    is_estimate: bool = False
    """Whether the service reported no usage, so that it was estimated."""

    @property
    def total_tokens(self) -> int:
        """Sum of both."""
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
"""Usage of nothing."""


@dataclass(frozen=True, kw_only=True)
class ChatRequest:
    """A request to a model."""

    messages: tuple[Message, ...]
    """The conversation, oldest first."""

    tools: tuple[Json, ...] = ()
    """Tools that it may call, as OpenAI's `{"type": "function", "function": {…}}`. If empty, the
    request has no `tools`."""

    parameters: Mapping[str, object] = field(default_factory=dict[str, object])
    """Further parameters, under OpenAI's names: `temperature`, `max_tokens`, `tool_choice`,
    `response_format` and so on. Adapters drop those that their service does not support."""

    purpose: Purpose = "answer"
    """Its purpose."""


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the answer."""

    text: str
    """Never empty."""


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A piece of the model's visible reasoning."""

    text: str
    """Never empty."""


@dataclass(frozen=True, slots=True)
class CallStart:
    """Start of a call: its name is known."""

    index: int
    """Number of the call in this answer, from 0."""
    call_id: str
    """Its id; generated if the service sends none."""
    name: str
    """Name of the tool."""


@dataclass(frozen=True, slots=True)
class CallArguments:
    """A piece of the arguments of a call."""

    index: int
    """Number of the call."""
    text: str
    """A part of its JSON."""


@dataclass(frozen=True, slots=True)
class CallEnd:
    """End of a call: all its arguments have arrived."""

    index: int
    """Number of the call."""


@dataclass(frozen=True, slots=True)
class ProviderState:
    """Data that the provider expects back with the next request."""

    provider: str
    """Name of the provider."""
    value: object
    """JSON; appended to the list in `Message.provider_state[provider]`."""


@dataclass(frozen=True, slots=True)
class Finish:
    """End of the answer."""

    reason: FinishReason
    """The reason; `tool_calls` whenever there are calls and no limit was hit."""


Delta: TypeAlias = (
    Text | Reasoning | CallStart | CallArguments | CallEnd | ProviderState | TokenUsage | Finish
)
"""A piece of an answer. `TokenUsage` comes at most once; `Finish` is last, unless the stream
breaks."""


@dataclass(frozen=True, kw_only=True)
class ModelReply:
    """A whole answer."""

    message: Message
    """The assistant's message."""

    reasoning: str = ""
    """Its visible reasoning."""

    finish_reason: FinishReason | None = None
    """Why it stopped; None: the stream ended without a reason."""

    usage: TokenUsage = NO_USAGE
    """Usage that the service reported."""


@runtime_checkable
class ChatModel(Protocol):
    """Answers conversations.

    Duties, checked by `toolgate.testing.contracts.llm`:

    * Pieces are passed on as the service sends them. Each call is a `CallStart`, then its
        arguments in order, then a `CallEnd`; calls may be interleaved. Invalid JSON is passed on
        unchanged.
    * Text is passed on once, even if a service repeats all of it in its last piece.
    * `Finish` has the service's own reason, except that calls make it `tool_calls` if a service
        says `stop` or nothing.
    * `stream` sends one request to the service: retries are up to the caller.
    * Closing or cancelling the iterator ends the request to the service at once.
    * `aclose()` closes open resources.
    """

    @property
    def identity(self) -> str:
        """Provider and model, for logs and records."""
        ...

    def stream(self, request: ChatRequest) -> AsyncIterator[Delta]:
        """Yield the answer piece by piece.

        Raises:
            ModelAuthError: The key is wrong or lacks a permission.
            ModelRateError: Too many requests; `wait_s` says how long to wait.
            ModelTimeoutError: It took too long.
            ContextTooLongError: The conversation exceeds the context of the model.
            ModelRequestError: The service rejects the request.
            ModelUnavailableError: The service is down, disconnects or sends an invalid response.
        """
        ...

    async def aclose(self) -> None:
        """Close open resources."""
        ...


class MessageAssembler:
    """Assembles an answer from its pieces; the answer so far is available at any time."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._reasons: list[str] = []
        self._heads: dict[int, CallStart] = {}
        self._arguments: dict[int, list[str]] = {}
        self._provider_state: dict[str, list[object]] = {}
        self.usage: TokenUsage | None = None
        """Usage that the service reported; None: not yet."""
        self.finish: FinishReason | None = None
        """Why it stopped."""
        self.has_begun = False
        """Whether a piece has arrived that a client may have seen."""

    def add(self, delta: Delta) -> None:
        """Add one piece."""
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
        """Return the message so far."""
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
        """Return the answer so far."""
        return ModelReply(
            message=self.message,
            reasoning="".join(self._reasons),
            finish_reason=self.finish,
            usage=self.usage or NO_USAGE,
        )


def gather(deltas: Iterable[Delta]) -> ModelReply:
    """Assemble an answer from its pieces."""
    gathering = MessageAssembler()
    for delta in deltas:
        gathering.add(delta)
    return gathering.reply


async def complete(model: ChatModel, request: ChatRequest) -> ModelReply:
    """Request an answer and return it as a whole.

    Raises:
        ModelError: See `ChatModel.stream`.
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
    """Return a message as OpenAI's JSON, without `provider_state` and `notes`.

    Args:
        message: The message.
        as_said: Whether arguments stay as the model wrote them, even if they are invalid.
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
    """Parse a message in OpenAI's JSON; calls without id or name are left out.

    Args:
        value: The JSON.
        at: Its position, for errors: `messages[3]`.

    Raises:
        ArgumentError: It is not a message.
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
    if not isinstance(value, list) or not all(map(_is_part, parts)):
        raise ArgumentError(
            f"{at} has unreadable content.",
            allowed='Allowed: a text, or a list of parts such as {"type": "text", "text": "…"}.',
        )
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return tuple(parts)


def _is_part(part: Json) -> bool:
    """Whether it is a part of a message; those of other types are for the service to judge."""
    kind: object = part.get("type")
    return isinstance(kind, str) and (kind != "text" or isinstance(part.get("text"), str))


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
    """Parse the messages of a request.

    Raises:
        ArgumentError: One of them is not a message.
    """
    return tuple(message_from(item, f"messages[{at}]") for at, item in enumerate(value))
