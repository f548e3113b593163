"""Services of chat models on sockets of this machine, each in the words of its provider."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import uvicorn

from tests.limits import HANG_S
from toolgate.base.plugins import make
from toolgate.models.llm import ChatModel
from toolgate.testing.contracts.llm import ScriptedReply
from toolgate.types import Json, PluginSpec


def model_of(provider: str, url: str, **options: Any) -> ChatModel:
    """A model of a provider whose service has this address.

    The library of the provider is loaded here: it takes seconds, in each process that does so.
    """
    options |= {"url": url, "key": "k", "model": "m"}
    return make(
        "llm", ChatModel, PluginSpec(name=provider, setting="models.m", options=options), {}
    )


class Service:
    """Answers one request after another as it was told."""

    def __init__(self, provider: str) -> None:
        self.url = ""
        self.requests: list[Json] = []
        self.reached = anyio.Event()
        self.left = anyio.Event()
        self._provider = provider
        self._answers: list[ScriptedReply] = []

    def script(self, *answers: ScriptedReply) -> None:
        self._answers = list(answers)

    async def __call__(self, scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        raw = b""
        while True:
            message = await receive()
            raw += message.get("body", b"")
            if not message.get("more_body", False):
                break
        self.requests.append(json.loads(raw))
        self.reached.set()
        said = self._answers.pop(0)
        if said.status != 200:
            await self._refuse(send, said)
            return
        head = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        events = list(_WORDS[self._provider](said))
        for number, event in enumerate(events):
            if said.drop and number == 3:
                return  # uvicorn closes the connection
            await send({"type": "http.response.body", "body": event, "more_body": True})
            if said.hang and number == 2:
                while (await receive())["type"] != "http.disconnect":
                    pass
                self.left.set()
                return
        await send({"type": "http.response.body", "body": b""})

    async def _refuse(self, send, said: ScriptedReply) -> None:  # type: ignore[no-untyped-def]
        head = [(b"content-type", b"application/json")]
        if said.retry_after:
            head.append((b"retry-after", str(said.retry_after).encode()))
        error = {"message": said.error, "type": "scripted", "code": said.status}
        if self._provider == "google":
            error["status"] = "SCRIPTED"
        body = json.dumps({"type": "error", "error": error}).encode()
        await send({"type": "http.response.start", "status": said.status, "headers": head})
        await send({"type": "http.response.body", "body": body})


def _pieces(text: str) -> list[str]:
    return [text[at : at + 6] for at in range(0, len(text), 6)]


def _event(body: Json, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(body)}\n\n".encode()


def openai_words(said: ScriptedReply) -> Iterator[bytes]:
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}

    def chunk(delta: Json, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _event({**base, "choices": [choice]})

    yield chunk({"role": "assistant", "content": ""})
    for piece in _pieces(said.text):
        yield chunk({"content": piece})
    for index, (name, arguments) in enumerate(said.calls):
        function = {"name": name, "arguments": ""}
        head = {"index": index, "id": f"call_{index}", "type": "function", "function": function}
        yield chunk({"tool_calls": [head]})
        for piece in _pieces(json.dumps(arguments)):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, "tool_calls" if said.calls else said.finish)
    usage = {
        "prompt_tokens": said.prompt_tokens,
        "completion_tokens": said.completion_tokens,
        "total_tokens": said.prompt_tokens + said.completion_tokens,
    }
    yield _event({**base, "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


_ANTHROPIC = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
_GOOGLE = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}


def anthropic_words(said: ScriptedReply) -> Iterator[bytes]:
    def event(kind: str, **members: object) -> bytes:
        return _event({"type": kind, **members}, kind)

    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": said.prompt_tokens, "output_tokens": 0},
    }
    yield event("message_start", message=message)
    index = 0
    if said.text:
        yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        for piece in _pieces(said.text):
            delta = {"type": "text_delta", "text": piece}
            yield event("content_block_delta", index=0, delta=delta)
        yield event("content_block_stop", index=0)
        index = 1
    for number, (name, arguments) in enumerate(said.calls):
        block = {"type": "tool_use", "id": f"call_{number}", "name": name, "input": {}}
        yield event("content_block_start", index=index, content_block=block)
        for piece in _pieces(json.dumps(arguments)):
            delta = {"type": "input_json_delta", "partial_json": piece}
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
        index += 1
    reason = "tool_use" if said.calls else _ANTHROPIC[said.finish]
    yield event(
        "message_delta",
        delta={"stop_reason": reason, "stop_sequence": None},
        usage={"output_tokens": said.completion_tokens},
    )
    yield event("message_stop")


def google_words(said: ScriptedReply) -> Iterator[bytes]:
    def chunk(parts: list[Json], finish: str | None = None, **more: object) -> bytes:
        candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
        if finish:
            candidate["finishReason"] = finish
        return _event({"candidates": [candidate], **more})

    for piece in _pieces(said.text):
        yield chunk([{"text": piece}])
    for name, arguments in said.calls:
        yield chunk([{"functionCall": {"name": name, "args": arguments}}])
    usage = {
        "promptTokenCount": said.prompt_tokens,
        "candidatesTokenCount": said.completion_tokens,
        "totalTokenCount": said.prompt_tokens + said.completion_tokens,
    }
    yield chunk([], _GOOGLE[said.finish], usageMetadata=usage)


_WORDS = {"openai": openai_words, "anthropic": anthropic_words, "google": google_words}


@asynccontextmanager
async def service_of(provider: str, path: str = "") -> AsyncIterator[Service]:
    """A service that speaks like a provider."""
    service = Service(provider)
    config = uvicorn.Config(
        service,  # type: ignore[arg-type]
        host="127.0.0.1",
        port=0,
        log_level="critical",
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server._serve())
    with anyio.fail_after(HANG_S):
        while not server.started:
            await anyio.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    service.url = f"http://127.0.0.1:{port}{path}"
    try:
        yield service
    finally:
        server.should_exit = server.force_exit = True
        await asyncio.wait({task}, timeout=HANG_S)
