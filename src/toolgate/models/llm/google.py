"""Google's own API for Gemini, through the official library: with thought signatures.

https://ai.google.dev/api/generate-content
"""

import base64
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, cast

import aiohttp
import anyio
import google.genai as genai  # `from google` would be an ImportError where only protobuf is there
import httpx
from google.genai import errors, types

from toolgate.base import json_text
from toolgate.base.ids import new_id
from toolgate.base.validation import check_ranges, check_url
from toolgate.errors import ModelError
from toolgate.models.llm._late_tools import with_tools_in_messages
from toolgate.models.llm._service_errors import (
    broken_off,
    error_of,
    said_by,
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

_PROVIDER = "google"
_REASONS: Mapping[str, FinishReason] = {"STOP": "stop", "MAX_TOKENS": "length"}
_FILTERED = frozenset(
    {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "LANGUAGE"}
)
_DATA_URL = re.compile(r"data:(image/[a-z+.-]+);base64,(.+)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Table `[models.NAME.options]`, with `model`, `url` and `key` from the model's table."""

    model: str = "gemini-2.5-flash"
    """Name of the model at the service."""

    url: str = "https://generativelanguage.googleapis.com"
    """URL of the service."""

    key: str = field(default="", repr=False)
    """API key."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Additional headers of each request."""

    thinking_tokens: int = -1
    """Token budget for thinking, -1 to 1,000,000; -1: the model decides."""

    connect_s: float = 10.0
    """Seconds to connect; 0.1 to 300."""

    def __post_init__(self) -> None:
        check_url(self.url)
        ranges = {"connect_s": (0.1, 300.0), "thinking_tokens": (-1, 1_000_000)}
        check_ranges(self, ranges)


def build(options: Options) -> "GoogleModel":
    """Create the model; nothing is sent before the first request."""
    return GoogleModel(options)


_ANSWERED: ContextVar[list[httpx.Response]] = ContextVar("answered")
"""Collects the HTTP responses of the current task's request."""


async def _note_answer(response: httpx.Response) -> None:
    _ANSWERED.get([]).append(response)


class GoogleModel:
    """A chat model behind `POST …:streamGenerateContent`."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._client: Any = None
        self._http: httpx.AsyncClient | None = None

    @property
    def identity(self) -> str:
        """Provider and model."""
        return f"google:{self._options.model}"

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Delta]:
        """Yield the pieces of the answer."""
        answered: list[httpx.Response] = []
        _ANSWERED.set(answered)
        try:
            contents, config = self._asked(request)
            stream = await self._opened().aio.models.generate_content_stream(
                model=self._options.model, contents=contents, config=config
            )
            reading = _GoogleStream()
            try:
                async for chunk in stream:
                    for delta in reading.read(chunk):
                        yield delta
            finally:
                # The library leaves its response open if it is not read to the end (google-genai
                # 3.4.0).
                with anyio.CancelScope(shield=True):
                    for response in answered:
                        await response.aclose()
            if not reading.is_whole:
                raise broken_off(self.identity, "the stream ended before the answer.")
            for delta in reading.ended():
                yield delta
        except errors.APIError as error:
            raise self._translated(error) from error
        except (httpx.HTTPError, aiohttp.ClientError, OSError) as error:
            raise unreached(self.identity) from error
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise unreadable(self.identity) from error

    async def aclose(self) -> None:
        """Close the connections."""
        http, self._http, self._client = self._http, None, None
        if http is not None:
            await http.aclose()

    def _opened(self) -> Any:
        if self._client is None:
            options = self._options
            # A client of our own, since the library closes its own whenever it likes.
            self._http = httpx.AsyncClient(
                timeout=httpx.Timeout(None, connect=options.connect_s),
                event_hooks={"response": [_note_answer]},
            )
            self._client = genai.Client(
                enterprise=False,
                api_key=options.key or "none",
                http_options=types.HttpOptions(
                    base_url=options.url,
                    api_version="v1beta",
                    headers=dict(options.headers),
                    httpx_async_client=self._http,
                ),
            )
        return self._client

    def _asked(self, request: ChatRequest) -> tuple[list[Any], Any]:
        asked, request = request.parameters, with_tools_in_messages(request)
        system, contents = _contents(request.messages)
        config: Json = {}
        if system:
            config["system_instruction"] = system
        for ours, theirs in (
            ("temperature", "temperature"),
            ("top_p", "top_p"),
            ("max_tokens", "max_output_tokens"),
            ("max_completion_tokens", "max_output_tokens"),
            ("seed", "seed"),
        ):
            if asked.get(ours) is not None:
                config[theirs] = asked[ours]
        if stop := asked.get("stop"):
            config["stop_sequences"] = [stop] if isinstance(stop, str) else stop
        if self._options.thinking_tokens >= 0:
            config["thinking_config"] = {"thinking_budget": self._options.thinking_tokens}
        if request.tools:
            config["tools"] = [{"function_declarations": [_tool(tool) for tool in request.tools]}]
            config["automatic_function_calling"] = {"disable": True}
            if choice := _choice(asked.get("tool_choice")):
                config["tool_config"] = {"function_calling_config": choice}
        return contents, types.GenerateContentConfig.model_validate(config)

    def _translated(self, error: errors.APIError) -> ModelError:
        """Return the error as a `ModelError`."""
        raised = cast("Any", error)
        key, details = self._options.key, cast("object", raised.details)
        reason = error_of(details, said_by(str(error.message or error), key), key)
        headers = cast("Mapping[str, str]", getattr(raised.response, "headers", None) or {})
        status = error.code or 500
        if status == 400 and "api key" in reason.lower():
            status = 401
        return status_error(self.identity, status, reason, wait_s=wait_of(headers))


class _GoogleStream:
    """Parses the chunks of one response."""

    def __init__(self) -> None:
        self._calls = 0
        self._reason: str | None = None
        self._usage: TokenUsage | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the service sent the reason why the answer ended."""
        return self._reason is not None

    def read(self, chunk: Any) -> Iterator[Delta]:
        """Yield the pieces of one chunk."""
        if chunk.usage_metadata is not None:
            self._usage = _usage(chunk.usage_metadata)
        candidates = cast("list[Any]", chunk.candidates or [])
        for candidate in candidates[:1]:
            content = candidate.content
            parts = cast("list[Any]", (content.parts if content else None) or [])
            for part in parts:
                yield from self._part(part)
            if candidate.finish_reason is not None:
                self._reason = str(
                    getattr(candidate.finish_reason, "value", candidate.finish_reason)
                )
        if not chunk.candidates and chunk.prompt_feedback is not None:
            self._reason = "SAFETY"

    def _part(self, part: Any) -> Iterator[Delta]:
        call = part.function_call
        if call is not None:
            index, call_id = self._calls, call.id or f"call_{new_id()}"
            self._calls += 1
            yield CallStart(index, call_id, call.name or "")
            yield CallArguments(index, json_text.dumps(call.args or {}).decode())
            yield CallEnd(index)
            if part.thought_signature:
                signature = base64.b64encode(part.thought_signature).decode()
                yield ProviderState(_PROVIDER, {"call_id": call_id, "signature": signature})
        elif part.text:
            yield Reasoning(part.text) if part.thought else Text(part.text)

    def ended(self) -> Iterator[Delta]:
        """Yield the last pieces, when the stream has ended."""
        if self._usage is not None:
            yield self._usage
        if self._reason in _FILTERED:
            yield Finish("content_filter")
        elif self._calls and self._reason != "MAX_TOKENS":
            yield Finish("tool_calls")
        else:
            yield Finish(_REASONS.get(self._reason or "", "stop"))


def _usage(metadata: Any) -> TokenUsage:
    thought = metadata.thoughts_token_count or 0
    return TokenUsage(
        prompt_tokens=metadata.prompt_token_count or 0,
        completion_tokens=(metadata.candidates_token_count or 0) + thought,
        cached_tokens=metadata.cached_content_token_count or 0,
        reasoning_tokens=thought,
    )


def _contents(messages: Sequence[Message]) -> tuple[str, list[Any]]:
    """Return system text and contents; consecutive messages of one role are merged."""
    system = "\n\n".join(
        message.text for message in messages if message.role == "system" and message.text
    )
    contents: list[Json] = []
    for message in messages:
        if message.role == "system":
            continue
        role = "model" if message.role == "assistant" else "user"
        parts = _parts(message)
        if not parts:
            continue
        if contents and contents[-1]["role"] == role:
            contents[-1]["parts"] += parts
        else:
            contents.append({"role": role, "parts": parts})
    return system, [types.Content.model_validate(content) for content in contents]


def _parts(message: Message) -> list[Json]:
    if message.role == "tool":
        response = {"result": message.text}
        name = message.name or "tool"
        return [{"function_response": {"id": message.call_id, "name": name, "response": response}}]
    parts: list[Json] = []
    if isinstance(message.content, str):
        if message.content:
            parts.append({"text": message.content})
    else:
        parts += [_part_of(part) for part in message.content]
    thoughts = cast("list[Json]", message.provider_state.get(_PROVIDER, []))
    signatures = {thought["call_id"]: thought["signature"] for thought in thoughts}
    for call in message.calls:
        part: Json = {
            "function_call": {"id": call.call_id, "name": call.name, "args": call.read() or {}}
        }
        if call.call_id in signatures:
            part["thought_signature"] = base64.b64decode(signatures[call.call_id])
        parts.append(part)
    return parts


def _part_of(part: Json) -> Json:
    if part.get("type") != "image_url":
        return {"text": str(part.get("text", ""))}
    url = str(json_object(part.get("image_url")).get("url", ""))
    data = _DATA_URL.fullmatch(url)
    if data is None:
        return {"file_data": {"file_uri": url}}
    return {"inline_data": {"mime_type": data[1], "data": base64.b64decode(data[2])}}


def _tool(tool: Json) -> Json:
    function = json_object(tool.get("function"))
    declaration: Json = {
        "name": function.get("name"),
        "description": function.get("description", ""),
    }
    if schema := json_object(function.get("parameters")):
        declaration["parameters_json_schema"] = schema
    return declaration


def _choice(choice: object) -> Json | None:
    match choice:
        case "required":
            return {"mode": "ANY"}
        case "none":
            return {"mode": "NONE"}
        case dict():
            name = json_object(json_object(cast("object", choice)).get("function")).get("name")
            return {"mode": "ANY", "allowed_function_names": [name]}
        case _:
            return None


_: type[ChatModel] = GoogleModel
