"""Serve a gateway over HTTP on a free port, and send it requests."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import anyio
import orjson

from tests.limits import HANG_S
from tests.server.fake_gateway import FakeGateway, fake_app
from toolgate.server.http import Worker, serve
from toolgate.types import Json


@dataclass
class ListeningGateway:
    """A gateway that listens."""

    url: str
    gateway: FakeGateway
    ended: asyncio.Event
    reloads: list[int]


@asynccontextmanager
async def listening(
    gateway: FakeGateway | None = None,
    *,
    key: str = "",
    port: int = 0,
    worker: Worker | None = None,
    **serve_settings: Any,
) -> AsyncIterator[ListeningGateway]:
    """A gateway behind a real socket on a free port."""
    gateway = gateway or FakeGateway()
    app = fake_app(gateway, **serve_settings)
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    ended, reloads = asyncio.Event(), list[int]()

    def on_ready(url: str) -> str:
        ready.set_result(url)
        return key

    async def on_reload() -> None:
        reloads.append(1)

    async def work() -> None:
        await serve(app, port=port, on_ready=on_ready, on_reload=on_reload, worker=worker)
        ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        with anyio.fail_after(HANG_S):
            url = await ready
        try:
            yield ListeningGateway(url=url, gateway=gateway, ended=ended, reloads=reloads)
        finally:
            tasks.cancel_scope.cancel()


def texts(result: Any) -> Sequence[str]:
    return [block.text for block in result.content]


META = "io.modelcontextprotocol/"


def modern(method: str, params: Json | None = None, *, request_id: Any = 1, **meta: Any) -> Json:
    """A modern request; `meta` adds keys under the protocol's prefix."""
    own = {
        META + "protocolVersion": "2026-07-28",
        META + "clientCapabilities": {},
        META + "clientInfo": {"name": "tester", "version": "1"},
    }
    own |= {META + key: value for key, value in meta.items()}
    given = dict(params or {})
    given["_meta"] = {**own, **given.get("_meta", {})}
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": given}


def headers_for(message: Json) -> dict[str, str]:
    """What a correct client sends with a modern request."""
    headers = {
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": message["method"],
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
    }
    name = message["params"].get("name") or message["params"].get("uri")
    if name is not None:
        headers["Mcp-Name"] = str(name)
    return headers


@dataclass(frozen=True, kw_only=True)
class Response:
    """What came for a POST."""

    status: int
    headers: Any
    messages: list[Json]
    body: bytes

    @property
    def only(self) -> Json:
        (message,) = self.messages
        return message

    @property
    def result(self) -> Json:
        return self.messages[-1]["result"]

    @property
    def error(self) -> Json:
        return self.messages[-1]["error"]


async def post(
    url: str, message: Any, headers: dict[str, str] | None = None, *, drop: Sequence[str] = ()
) -> Response:
    """POST a message, or bytes as they are, to `/mcp`; follows a stream to its end."""
    sent = dict(headers or {})
    if isinstance(message, dict) and "method" in message and not headers:
        sent = headers_for(message)
    sent = {"Accept": "application/json, text/event-stream", **sent}
    sent.setdefault("Content-Type", "application/json")
    for name in drop:
        sent.pop(name, None)
    body = message if isinstance(message, bytes) else orjson.dumps(message)
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{url}/mcp", data=body, headers=sent) as response,
    ):
        raw = await response.read()
        if response.content_type == "text/event-stream":
            lines = raw.replace(b"\r\n", b"\n").split(b"\n")
            messages = [orjson.loads(line[5:]) for line in lines if line.startswith(b"data:")]
        else:
            messages = [orjson.loads(raw)] if raw[:1] in (b"{", b"[") else []
        return Response(
            status=response.status, headers=response.headers, messages=messages, body=raw
        )


async def until(condition: Callable[[], Any], *, within_s: float = 10.0) -> None:
    """Let the loop turn until something holds."""
    with anyio.fail_after(within_s):
        while not condition():
            await anyio.sleep(0.005)


INITIALIZE: Json = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "tester", "version": "1"},
    },
}
