"""OpenAI and compatible services, through the official library.

vLLM, Ollama, llama.cpp, OpenRouter, Azure or a LiteLLM proxy need only another `url`. The
library sends requests and raises errors, but never retries; responses are parsed here, because
services differ more than its types allow. https://platform.openai.com/docs/api-reference/chat
"""

import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import anyio
import httpx2
import openai
from openai import AsyncOpenAI

from toolgate.base import json_text
from toolgate.base.ids import new_id
from toolgate.base.validation import check_ranges, check_url
from toolgate.errors import ModelError
from toolgate.models.llm._late_tools import with_tools_in_messages
from toolgate.models.llm._openai_transport import Transport
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
    Reasoning,
    Text,
    TokenUsage,
    message_json,
)
from toolgate.types import Json, json_array, json_object

_REPEATED_CHARS = 8
"""Shortest text that counts as a repetition if the last piece contains all of it again."""

_REST_S = 0.1
"""Seconds to wait for the end of a response after its last event."""

_REASONS: Mapping[object, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Table `[models.NAME.options]`, with `model`, `url` and `key` from the model's table."""

    model: str = "gpt-4.1-mini"
    """Name of the model at the service."""

    url: str = "https://api.openai.com/v1"
    """URL of the service, to which `/chat/completions` is added."""

    key: str = field(default="", repr=False)
    """API key."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Additional headers of each request, such as `api-key` for Azure."""

    query: Mapping[str, str] = field(default_factory=dict[str, str])
    """Additional query parameters, such as `api-version`."""

    body: Mapping[str, object] = field(default_factory=dict[str, object])
    """Additional members of each request, such as `{ temperature = 0.2 }`; the client's take
    precedence."""

    usage: bool = True
    """Whether to request the number of tokens used; a few services reject that."""

    connect_s: float = 10.0
    """Seconds to connect; 0.1 to 300."""

    def __post_init__(self) -> None:
        check_url(self.url)
        check_ranges(self, {"connect_s": (0.1, 300)})


def build(options: Options) -> "OpenAIModel":
    """Create the model; nothing is sent before the first request."""
    return OpenAIModel(options)


class OpenAIModel:
    """A chat model behind `POST …/chat/completions`."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._client: AsyncOpenAI | None = None

    @property
    def identity(self) -> str:
        """Provider and model."""
        return f"openai:{self._options.model}"

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Delta]:
        """Yield the pieces of the answer."""
        try:
            answer = await self._opened().post(
                "/chat/completions",
                cast_to=httpx2.Response,
                content=json_text.dumps(self._body(request)),
                options={"headers": {"Content-Type": "application/json"}},
                stream=True,
            )
            reading = _OpenAIStream()
            try:
                async for data in _events(answer):
                    for delta in reading.read(self._chunk(data)):
                        yield delta
            finally:
                with anyio.CancelScope(shield=True):
                    await answer.aclose()
            for delta in reading.ended():
                yield delta
        except openai.OpenAIError as error:
            raise self._translated(error) from error
        except httpx2.HTTPError as error:
            raise unreached(self.identity) from error
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            # Invalid JSON, or valid JSON that no service should send.
            raise unreadable(self.identity) from error

    async def aclose(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _opened(self) -> AsyncOpenAI:
        if self._client is None:
            options = self._options
            client = AsyncOpenAI(
                api_key=options.key or "none",
                organization="",
                project="",
                webhook_secret="",
                base_url=options.url,
                timeout=openai.Timeout(None, connect=options.connect_s),
                max_retries=0,  # the registry retries, never after the first piece
                # A redirect to another host would receive our headers.
                http_client=openai.DefaultAsyncHttpxClient(
                    follow_redirects=False, transport=Transport(connect_s=options.connect_s)
                ),
                default_headers={
                    **({} if options.key else {"Authorization": ""}),
                    **options.headers,
                },
                default_query=dict(options.query) or None,
            )
            # Always passed, so that the library reads no environment variable; sent only if
            # configured.
            client.organization = client.project = None
            self._client = client
        return self._client

    def _body(self, request: ChatRequest) -> Json:
        request = with_tools_in_messages(request)
        body: Json = {
            **self._options.body,
            **request.parameters,
            "model": self._options.model,
            "messages": [message_json(message) for message in request.messages],
            "stream": True,
        }
        if self._options.usage:
            body["stream_options"] = {"include_usage": True}
        if request.tools:
            body["tools"] = list(request.tools)
        else:
            # If it is present and empty, some services force JSON and others reject the request.
            for name in ("tools", "tool_choice", "parallel_tool_calls"):
                body.pop(name, None)
        return body

    def _chunk(self, data: bytes) -> Json:
        """Parse a chunk of a response.

        Raises:
            ModelError: It reports a failure of the service.
        """
        chunk = json_object(json.loads(data))  # a chunk may contain NaN, which is unused
        if chunk.get("error"):
            reason = error_of(chunk, "it gave no reason", self._options.key)
            raise broken_off(self.identity, reason)
        return chunk

    def _translated(self, error: openai.OpenAIError) -> ModelError:
        """Return the error as a `ModelError`."""
        key = self._options.key
        if isinstance(error, openai.APITimeoutError):
            return late(self.identity)
        if isinstance(error, openai.APIConnectionError):
            return unreached(self.identity)
        if not isinstance(error, openai.APIStatusError):
            reason = error_of(getattr(error, "body", None), str(error), key)
            return broken_off(self.identity, reason)
        return status_error(
            self.identity,
            error.status_code,
            error_of(error.body, error.message, key),
            code=error.code,
            wait_s=wait_of(error.response.headers),
        )


async def _events(answer: httpx2.Response) -> AsyncGenerator[bytes]:
    """Yield the data of each event, up to the one that marks the end.

    https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
    """
    rest, data = b"", list[bytes]()
    pieces = answer.aiter_bytes()
    async for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in (raw_line.removesuffix(b"\r") for raw_line in lines):
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
            elif not line and data:
                whole, data = b"\n".join(data), []
                if whole.startswith(b"[DONE]"):
                    # Reading to the end makes the connection reusable.
                    with anyio.move_on_after(_REST_S), suppress(httpx2.HTTPError):
                        async for _ in pieces:
                            pass
                    return
                yield whole
    if rest.startswith(b"data:"):
        data.append(rest[5:].strip())
    if data and not data[0].startswith(b"[DONE]"):
        yield b"\n".join(data)


@dataclass
class _PartialCall:
    """The part of a call that has arrived."""

    index: int
    call_id: str = ""
    name: str = ""
    waiting: str = ""
    is_open: bool = False


class _OpenAIStream:
    """Parses the chunks of one response, tolerating deviations from OpenAI's format."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._calls: dict[object, _PartialCall] = {}
        self._reason: FinishReason | None = None
        self._usage: TokenUsage | None = None
        self._has_finished = False

    def read(self, body: Json) -> Iterator[Delta]:
        """Yield the pieces of one chunk."""
        if (usage := _usage_of(body.get("usage"))) is not None:
            self._usage = usage
        choices = json_array(body.get("choices"))
        if not choices:  # the chunk with the usage has none
            return
        choice = json_object(choices[0])
        delta = json_object(choice.get("delta")) or json_object(choice.get("message"))
        reason: object = choice.get("finish_reason")
        thought: object = delta.get("reasoning_content", delta.get("reasoning"))
        if isinstance(thought, str) and thought:
            yield Reasoning(thought)
        content: object = delta.get("content") or delta.get("refusal")
        if isinstance(content, str) and (text := self._new(content, is_last=reason is not None)):
            self._texts.append(text)
            yield Text(text)
        for index, call in enumerate(json_array(delta.get("tool_calls"))):
            yield from self._call(json_object(call), index)
        if reason is not None:
            self._has_finished = True
            self._reason = _REASONS.get(reason, "stop")

    def ended(self) -> Iterator[Delta]:
        """Yield the last pieces, when the stream has ended.

        Raises:
            ValueError: The response was empty.
        """
        calls = [call for call in self._calls.values() if call.name]
        for call in calls:
            if not call.is_open:
                yield from self._begin(call)
            yield CallEnd(call.index)
        if self._usage is not None:
            yield self._usage
        if calls and self._reason in {None, "stop"}:
            yield Finish("tool_calls")
        elif self._reason is not None:
            yield Finish(self._reason)
        elif self._texts:
            yield Finish("stop")
        elif not self._has_finished:
            raise ValueError("a stream without anything in it")

    def _new(self, content: str, *, is_last: bool) -> str:
        """Return the new part of a text: some services repeat the whole in their last piece."""
        before = "".join(self._texts)
        if is_last and len(before) >= _REPEATED_CHARS and content.startswith(before):
            return content[len(before) :]
        return content

    def _call(self, piece: Json, index: int) -> Iterator[Delta]:
        function = json_object(piece.get("function"))
        call = self._call_of(piece, index)
        if isinstance(call_id := piece.get("id"), str) and call_id and not call.call_id:
            call.call_id = call_id
        if isinstance(name := function.get("name"), str) and name and not call.name:
            call.name = name
        arguments: object = function.get("arguments")
        if isinstance(arguments, dict):  # some compatible services send the object itself
            arguments = json_text.dumps(arguments).decode()
        if isinstance(arguments, str):
            call.waiting += arguments
        # The id may come after the name: the call starts when both are known, or when it ends.
        if call.is_open or (call.name and call.call_id):
            yield from self._begin(call)

    def _call_of(self, piece: Json, index: int) -> _PartialCall:
        """Return the call that a piece belongs to: by index, else by id, else the last one."""
        key: object = piece.get("index")
        if not isinstance(key, int):
            key = piece.get("id") or (next(reversed(self._calls)) if self._calls else index)
        if key not in self._calls:
            self._calls[key] = _PartialCall(len(self._calls))
        return self._calls[key]

    def _begin(self, call: _PartialCall) -> Iterator[Delta]:
        if not call.is_open:
            call.is_open = True
            call.call_id = call.call_id or f"call_{new_id()}"
            yield CallStart(call.index, call.call_id, call.name)
        if call.waiting:
            yield CallArguments(call.index, call.waiting)
            call.waiting = ""


def _usage_of(value: object) -> TokenUsage | None:
    body = json_object(value)
    if not body:
        return None
    sent, answered = _count(body, "prompt_tokens"), _count(body, "completion_tokens")
    return TokenUsage(
        prompt_tokens=sent,
        completion_tokens=answered,
        cached_tokens=_count(json_object(body.get("prompt_tokens_details")), "cached_tokens"),
        reasoning_tokens=_count(
            json_object(body.get("completion_tokens_details")), "reasoning_tokens"
        ),
    )


def _count(body: Json, name: str) -> int:
    value: object = body.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


_: type[ChatModel] = OpenAIModel
