"""A fake HTTP service for tests: cloud search, chat models, embeddings."""

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from aiohttp import web

from toolgate.testing.web_server import serve_application
from toolgate.types import Json


@dataclass(frozen=True, kw_only=True)
class FakeReply:
    """A response that is more than JSON with status 200."""

    body: bytes = b""
    """Its body."""

    status: int = 200
    """HTTP status."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further headers."""

    is_late: bool = False
    """Whether it never arrives while the client waits."""


@dataclass(frozen=True, kw_only=True)
class ReceivedRequest:
    """A received request."""

    path: str
    """Its path."""

    headers: Mapping[str, str]
    """Its headers."""

    body: Json
    """Its JSON body."""


Answer = Callable[[Json], object]
"""Returns the response to a body: a `FakeReply`, or a value that becomes JSON."""


class FakeService:
    """Answers and records POST requests at any path."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        """Can be replaced at any time."""
        self.requests: list[ReceivedRequest] = []
        """Received requests, in order."""
        self.url = ""
        """Its address, such as `http://127.0.0.1:40123`."""
        self._ended = anyio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        body: Json = await request.json()
        self.requests.append(
            ReceivedRequest(path=request.path, headers=dict(request.headers), body=body)
        )
        scripted = self.answer(body)
        reply = (
            scripted
            if isinstance(scripted, FakeReply)
            else FakeReply(body=json.dumps(scripted).encode())
        )
        if reply.is_late:
            await self._ended.wait()
        kind = {"content-type": "application/json"}
        return web.Response(
            body=reply.body, status=reply.status, headers=kind | dict(reply.headers)
        )

    def end(self) -> None:
        """Release clients that wait for a late response."""
        self._ended.set()


@asynccontextmanager
async def fake_service(answer: Answer) -> AsyncGenerator[FakeService]:
    """Run a service on a free local port until the end of the block."""
    service = FakeService(answer)
    app = web.Application(client_max_size=2**30)
    app.router.add_post("/{path:.*}", service.handle)
    async with serve_application(app) as service.url:
        try:
            yield service
        finally:
            service.end()


def chat_reply(picks: Sequence[Json]) -> Json:
    """The response of a chat model that selects tools, with `tool`, `relevance` and `why`."""
    message: Json = {"role": "assistant", "content": json.dumps({"picks": list(picks)})}
    choice: Json = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"object": "chat.completion", "model": "double", "choices": [choice]}
