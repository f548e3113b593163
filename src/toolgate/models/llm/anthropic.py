"""Anthropic's own API, through the official library: with thinking and prompt caching.

Both are lost when its models are used through an OpenAI-compatible URL.
https://docs.claude.com/en/api/messages

With the option `tool_search`, tools that a conversation gets later are loaded where they were
found, with `defer_loading` and references: otherwise they would change the list of tools, and with
it the start of the request, so that nothing of the conversation would come from the prompt cache.
https://docs.claude.com/en/docs/agents-and-tools/tool-use/tool-search-tool
"""

import re
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, cast

import anthropic
import anyio
import httpx2
from anthropic import AsyncAnthropic

from toolgate.base.validation import check_ranges, check_url
from toolgate.errors import ModelError
from toolgate.models.llm._late_tools import late_tools, with_tools_in_messages
from toolgate.models.llm._service_errors import (
    broken_off,
    error_of,
    late,
    status_error,
    unreached,
    unreadable,
    wait_of,
)
from toolgate.models.llm.base import (
    CallArguments,
    CallEnd,
    CallStart,
    ChatModel,
    ChatRequest,
    Delta,
    Finish,
    FinishReason,
    Message,
    ProviderState,
    Reasoning,
    Text,
    TokenUsage,
)
from toolgate.types import Json, json_object

_PROVIDER = "anthropic"
_REASONS: Mapping[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
_EPHEMERAL = {"type": "ephemeral"}
_LOADER = "load_tools"
"""Name of the call whose result loads tools; it stands in the conversation only."""
_DATA_URL = re.compile(r"data:(image/[a-z+.-]+);base64,(.+)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Table `[models.NAME.options]`, with `model`, `url` and `key` from the model's table."""

    model: str = "claude-sonnet-4-5"
    """Name of the model at the service."""

    url: str = "https://api.anthropic.com"
    """URL of the service."""

    key: str = field(default="", repr=False)
    """API key."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Additional headers of each request."""

    max_tokens: int = 8_192
    """Largest number of tokens of an answer if the client sets none; 1 to 1,000,000."""

    thinking_tokens: int = 0
    """Token budget for thinking; 0 to 1,000,000, 0: no thinking."""

    cache: bool = True
    """Whether to mark the parts of a request that later ones repeat, for prompt caching."""

    tool_search: bool = False
    """Whether tools that a thread gets later are loaded where they were found, which keeps the
    prompt cache valid; only for models that know `tool_reference`."""

    connect_s: float = 10.0
    """Seconds to connect; 0.1 to 300."""

    def __post_init__(self) -> None:
        check_url(self.url)
        check_ranges(
            self,
            {
                "connect_s": (0.1, 300),
                "max_tokens": (1, 1_000_000),
                "thinking_tokens": (0, 1_000_000),
            },
        )


def build(options: Options) -> "AnthropicModel":
    """Create the model; nothing is sent before the first request."""
    return AnthropicModel(options)


class AnthropicModel:
    """A chat model behind `POST …/v1/messages`."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._client: AsyncAnthropic | None = None

    @property
    def identity(self) -> str:
        """Provider and model."""
        return f"anthropic:{self._options.model}"

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Delta]:
        """Yield the pieces of the answer."""
        try:
            body = cast("Any", self._body(request))
            stream = await self._opened().messages.create(**body, stream=True)
            reading = _AnthropicStream()
            try:
                async for event in stream:
                    for delta in reading.read(event):
                        yield delta
            finally:
                with anyio.CancelScope(shield=True):
                    await stream.close()
            if not reading.is_whole:
                raise broken_off(self.identity, "the stream ended before the answer.")
            for delta in reading.ended():
                yield delta
        except anthropic.AnthropicError as error:
            raise self._translated(error) from error
        except httpx2.HTTPError as error:
            # The library does not translate errors within a stream (anthropic 2.12.0).
            raise unreached(self.identity) from error
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise unreadable(self.identity) from error

    async def aclose(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _opened(self) -> AsyncAnthropic:
        if self._client is None:
            options = self._options
            self._client = AsyncAnthropic(
                api_key=options.key or "none",
                base_url=options.url,
                timeout=anthropic.Timeout(None, connect=options.connect_s),
                max_retries=0,  # the registry retries
                # A redirect to another host would receive `x-api-key`.
                http_client=anthropic.DefaultAsyncHttpxClient(follow_redirects=False),
                default_headers=dict(options.headers),
            )
        return self._client

    def _body(self, request: ChatRequest) -> Json:
        options, asked = self._options, request.parameters
        deferred = self._deferred(request)
        if not deferred:
            request = with_tools_in_messages(request)
        system, messages = _messages(request.messages, deferred)
        max_tokens = (
            asked.get("max_completion_tokens") or asked.get("max_tokens") or options.max_tokens
        )
        body: Json = {"model": options.model, "max_tokens": max_tokens, "messages": messages}
        if system:
            body["system"] = [{"type": "text", "text": system}]
        if request.tools:
            body["tools"] = _tools(request.tools, deferred)
            if choice := _choice(asked):
                body["tool_choice"] = choice
        for name in ("temperature", "top_p"):
            if name in asked and not options.thinking_tokens:
                body[name] = asked[name]
        if stop := asked.get("stop"):
            body["stop_sequences"] = [stop] if isinstance(stop, str) else stop
        if options.thinking_tokens and request.purpose == "answer":
            body["thinking"] = {"type": "enabled", "budget_tokens": options.thinking_tokens}
            body["max_tokens"] = max(cast("int", max_tokens), options.thinking_tokens + 1_024)
        if options.cache:
            _hint(body)
        return body

    def _deferred(self, request: ChatRequest) -> frozenset[str]:
        """Return the names of the tools that the conversation loads."""
        options = self._options
        # With thinking, the service wants a thinking block before the call that loads tools.
        if not options.tool_search or not options.cache or options.thinking_tokens:
            return frozenset()
        deferred = late_tools(request)
        # The service rejects requests in which all tools are deferred.
        return deferred if len(deferred) < len(request.tools) else frozenset()

    def _translated(self, error: anthropic.AnthropicError) -> ModelError:
        """Return the error as a `ModelError`."""
        key = self._options.key
        if isinstance(error, anthropic.APITimeoutError):
            return late(self.identity)
        if isinstance(error, anthropic.APIConnectionError):
            return unreached(self.identity)
        if not isinstance(error, anthropic.APIStatusError):
            return broken_off(
                self.identity, error_of(getattr(error, "body", None), str(error), key)
            )
        reason = error_of(error.body, error.message, key)
        kind = json_object(json_object(error.body).get("error")).get("type")
        status = error.status_code
        if status < 400:  # errors in a stream have the status of the stream
            status = {"overloaded_error": 529, "rate_limit_error": 429}.get(str(kind), 500)
        return status_error(
            self.identity, status, reason, code=kind, wait_s=wait_of(error.response.headers)
        )


class _AnthropicStream:
    """Parses the events of one response."""

    def __init__(self) -> None:
        self._sent = 0
        self._cached = 0
        self._answered = 0
        self._reason: str | None = None
        self._block: Json = {}
        self._calls = -1

    @property
    def is_whole(self) -> bool:
        """Whether the service sent the reason why the answer ended."""
        return self._reason is not None

    def read(self, event: Any) -> Iterator[Delta]:
        """Yield the pieces of one event."""
        match event.type:
            case "message_start":
                usage = event.message.usage
                self._cached = usage.cache_read_input_tokens or 0
                written = usage.cache_creation_input_tokens or 0
                self._sent = usage.input_tokens + self._cached + written
                self._answered = usage.output_tokens
            case "content_block_start":
                self._block = event.content_block.model_dump(exclude_none=True)
                if self._block["type"] == "tool_use":
                    self._calls += 1
                    yield CallStart(self._calls, self._block["id"], self._block["name"])
                elif self._block["type"] == "text" and self._block.get("text"):
                    yield Text(self._block["text"])
            case "content_block_delta":
                yield from self._delta(event.delta)
            case "content_block_stop":
                kind = self._block.get("type")
                if kind == "tool_use":
                    yield CallEnd(self._calls)
                elif kind in {"thinking", "redacted_thinking"}:
                    yield ProviderState(_PROVIDER, self._block)
            case "message_delta":
                self._reason = event.delta.stop_reason
                self._answered = event.usage.output_tokens or self._answered
            case _:
                pass

    def _delta(self, delta: Any) -> Iterator[Delta]:
        match delta.type:
            case "text_delta":
                if delta.text:
                    yield Text(delta.text)
            case "thinking_delta":
                self._block["thinking"] = self._block.get("thinking", "") + delta.thinking
                if delta.thinking:
                    yield Reasoning(delta.thinking)
            case "signature_delta":
                self._block["signature"] = self._block.get("signature", "") + delta.signature
            case "input_json_delta":
                if delta.partial_json:
                    yield CallArguments(self._calls, delta.partial_json)
            case _:
                pass

    def ended(self) -> Iterator[Delta]:
        """Yield the last pieces, when the stream has ended."""
        if self._sent or self._answered:
            yield TokenUsage(
                prompt_tokens=self._sent,
                completion_tokens=self._answered,
                cached_tokens=self._cached,
            )
        reason = _REASONS.get(self._reason or "", "stop")
        yield Finish("tool_calls" if reason == "stop" and self._calls >= 0 else reason)


def _messages(
    messages: Sequence[Message], deferred: Collection[str] = ()
) -> tuple[str, list[Json]]:
    """Return system text and messages; consecutive messages of one role are merged.

    Args:
        messages: The conversation.
        deferred: Tools that the messages load which name them in `loads`.
    """
    system = "\n\n".join(
        message.text for message in messages if message.role == "system" and message.text
    )
    converted: list[Json] = []
    call_ids = (f"{_LOADER}_{number}" for number in count())

    def add(role: str, blocks: list[Json]) -> None:
        if converted and converted[-1]["role"] == role:
            converted[-1]["content"] += blocks
        elif blocks:
            converted.append({"role": role, "content": blocks})

    for message in messages:
        if message.role == "system":
            continue
        if names := [name for name in message.loads if name in deferred]:
            call_id = next(call_ids)
            add("assistant", [{"type": "tool_use", "id": call_id, "name": _LOADER, "input": {}}])
            references = [{"type": "tool_reference", "tool_name": name} for name in names]
            add("user", [{"type": "tool_result", "tool_use_id": call_id, "content": references}])
        add("assistant" if message.role == "assistant" else "user", _blocks(message))
    return system, converted


def _blocks(message: Message) -> list[Json]:
    if message.role == "tool":
        content = message.text or "(nothing)"
        return [{"type": "tool_result", "tool_use_id": message.call_id, "content": content}]
    blocks = [
        dict(block) for block in cast("list[Json]", message.provider_state.get(_PROVIDER, []))
    ]
    if isinstance(message.content, str):
        if message.content.strip():
            blocks.append({"type": "text", "text": message.content})
    else:
        blocks += [_part(part) for part in message.content]
    blocks += [
        {"type": "tool_use", "id": call.call_id, "name": call.name, "input": call.read() or {}}
        for call in message.calls
    ]
    return blocks


def _part(part: Json) -> Json:
    if part.get("type") != "image_url":
        return {"type": "text", "text": str(part.get("text", ""))}
    url = str(json_object(part.get("image_url")).get("url", ""))
    data = _DATA_URL.fullmatch(url)
    source: Json = {"type": "url", "url": url}
    if data is not None:
        source = {"type": "base64", "media_type": data[1], "data": data[2]}
    return {"type": "image", "source": source}


def _tools(tools: Sequence[Json], deferred: Collection[str]) -> list[Json]:
    """Return the definitions, deferred ones last: those are no part of the start of a request."""
    converted = [_tool(tool) for tool in tools]
    return [
        *(tool for tool in converted if tool["name"] not in deferred),
        *({**tool, "defer_loading": True} for tool in converted if tool["name"] in deferred),
    ]


def _tool(tool: Json) -> Json:
    function = json_object(tool.get("function"))
    schema = json_object(function.get("parameters")) or {"type": "object", "properties": {}}
    return {
        "name": function.get("name"),
        "description": function.get("description", ""),
        "input_schema": schema,
    }


def _choice(asked: Mapping[str, object]) -> Json | None:
    choice, converted = asked.get("tool_choice"), cast("Json", {})
    match choice:
        case "required":
            converted = {"type": "any"}
        case "none":
            converted = {"type": "none"}
        case dict():
            name = json_object(json_object(cast("object", choice)).get("function")).get("name")
            converted = {"type": "tool", "name": name}
        case _:
            pass
    if asked.get("parallel_tool_calls") is False:
        converted = {**(converted or {"type": "auto"}), "disable_parallel_tool_use": True}
    return converted or None


def _hint(body: Json) -> None:
    """Mark tools, system message and conversation for prompt caching."""
    first = [at for at, tool in enumerate(body.get("tools", ())) if "defer_loading" not in tool]
    if first:  # the service rejects a mark on a deferred tool
        body["tools"][first[-1]] = {**body["tools"][first[-1]], "cache_control": _EPHEMERAL}
    if body.get("system"):
        body["system"][-1] = {**body["system"][-1], "cache_control": _EPHEMERAL}
    if body["messages"]:
        last = body["messages"][-1]["content"]
        if last[-1]["type"] not in {"thinking", "redacted_thinking"}:
            last[-1] = {**last[-1], "cache_control": _EPHEMERAL}


_: type[ChatModel] = AnthropicModel
