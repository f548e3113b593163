"""A small MCP server for tests that does what its caller asks, even what no server should.

Written without the protocol library, so that it can send anything and starts at once:

```sh
python -m toolgate.testing.echo_server                              # over standard streams
python src/toolgate/testing/echo_server.py                          # the same, sooner
python -m toolgate.testing.echo_server --transport http --port 9000 # http://127.0.0.1:9000/mcp
python -m toolgate.testing.echo_server --transport sse --port 9000  # http://127.0.0.1:9000/sse
```

Both eras. Tools: `echo`, `give` (answers with the given result), `raw` (sends the given bytes for
an answer), `big`, `progress`, `log`, `ask`, `slow`, `fail`, `crash`, `change`, `stats`. Inside a
test, `serve_http` and `serve_sse` run it in the test's own loop.
"""

import argparse
import asyncio
import base64
import json
import os
import sys
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Final, TypeAlias, cast

import anyio

from toolgate.types import LEGACY_VERSION, MODERN_VERSION, Json, json_object

Send: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Sends a message as text, on the stream of the request it belongs to."""

SESSION: Final = "mcp-session-id"
_TOOLS: Final = {
    "echo": {"text": {"type": "string"}},
    "give": {"result": {"type": "object"}},
    "raw": {"base64": {"type": "string"}},
    "big": {"bytes": {"type": "integer"}},
    "progress": {"count": {"type": "integer"}},
    "log": {"count": {"type": "integer"}},
    "ask": {"method": {"type": "string"}, "params": {"type": "object"}},
    "slow": {"seconds": {"type": "number"}},
    "fail": {"code": {"type": "integer"}, "message": {"type": "string"}, "data": {}},
    "crash": {},
    "change": {},
    "stats": {},
    "when": {"what": {"type": "string"}, "times": {"type": "integer"}},
}


_REMEMBERED = 100
"""Messages whose headers are kept."""


class EchoServer:
    """The behaviour of the server, independent of the transport."""

    def __init__(self, *, modern: bool = True, crash: Callable[[], None] | None = None) -> None:
        self.counts: Counter[str] = Counter()
        """Events counted for `stats`: `calls`, `started`, `cancelled`, `sessions`, `deleted`."""
        self.requests: deque[tuple[str, Mapping[str, str]]] = deque(maxlen=_REMEMBERED)
        """Text and headers of the last messages sent by POST, header names in lower case."""
        self.crash = crash
        """Called by the tool `crash`; by default `serve_http` and `serve_sse` end themselves."""
        self._modern = modern
        self._counted = asyncio.Condition()
        self._ids = count(1)
        self._asked: dict[str, asyncio.Future[Json]] = {}
        self._running: dict[object, asyncio.Task[None]] = {}

    async def count(self, event: str) -> None:
        """Count an event."""
        async with self._counted:
            self.counts[event] += 1
            self._counted.notify_all()

    async def handle(self, text: bytes, send: Send, announce: Send) -> None:
        """Handle a message completely; `announce` sends messages outside of requests."""
        try:
            message = json_object(json.loads(text))
        except ValueError:
            return  # nobody can be told whose message that was
        method, message_id = message.get("method"), message.get("id")
        if method is None:
            if waiting := self._asked.get(str(message_id)):
                waiting.set_result(message)
        elif message_id is None:
            await self._note(str(method), message.get("params") or {})
        else:
            work = self._answer(
                message_id, str(method), message.get("params") or {}, send, announce
            )
            task = self._running[message_id] = asyncio.create_task(work)
            try:
                await task
            except asyncio.CancelledError:
                task.cancel()
                raise
            finally:
                self._running.pop(message_id, None)

    async def _note(self, method: str, params: Json) -> None:
        await self.count(method)
        if method == "notifications/cancelled" and (
            task := self._running.get(params.get("requestId"))
        ):
            task.cancel()

    async def _answer(
        self, message_id: object, method: str, params: Json, send: Send, announce: Send
    ) -> None:
        async def answer(**outcome: object) -> None:
            await send(_dump({"jsonrpc": "2.0", "id": message_id, **outcome}))

        await self.count(method)
        match method:
            case "server/discover" if self._modern:
                await answer(result=_discovered())
            case "initialize":
                await answer(result=_initialized(params))
            case "ping" | "logging/setLevel":
                await answer(result={})
            case "tools/list":
                await answer(result={"tools": _definitions()})
            case "tools/call":
                name, arguments = str(params.get("name")), json_object(params.get("arguments"))
                meta = json_object(params.get("_meta"))
                if name == "raw":
                    pattern = base64.b64decode(arguments["base64"])
                    await send(pattern.replace(b"{id}", str(message_id).encode()))
                elif name == "fail":
                    await answer(error=arguments)
                elif name in _TOOLS:
                    await answer(result=await self._run(name, arguments, meta, send, announce))
                else:
                    await answer(error={"code": -32602, "message": f"Unknown tool: {name}"})
            case _:
                await answer(error={"code": -32601, "message": "Method not found"})

    async def _run(
        self, name: str, arguments: Json, meta: Json, send: Send, announce: Send
    ) -> Json:
        match name:
            case "echo":
                return _text(str(arguments.get("text", "")), meta)
            case "give":
                return cast("Json", arguments["result"])
            case "big":
                return _text("x" * int(arguments["bytes"]))
            case "progress":
                for number in range(int(arguments["count"])):
                    if (token := meta.get("progressToken")) is not None:
                        report = {"progressToken": token, "progress": number + 1}
                        await send(_notification("notifications/progress", report))
            case "log":
                for number in range(int(arguments["count"])):
                    await send(
                        _notification("notifications/message", {"level": "info", "data": number})
                    )
            case "ask":
                answer = await self._ask(arguments["method"], arguments.get("params"), send)
                return _text(json.dumps(answer))
            case "slow":
                await self.count("started")
                try:
                    await anyio.sleep(float(arguments["seconds"]))
                except asyncio.CancelledError:
                    with anyio.CancelScope(shield=True):
                        await self.count("cancelled")
                    raise
            case "crash":
                assert self.crash is not None
                self.crash()
                await anyio.sleep_forever()
            case "when":
                async with self._counted:
                    await self._counted.wait_for(
                        lambda: self.counts[arguments["what"]] >= arguments["times"]
                    )
            case "change":
                await announce(_notification("notifications/tools/list_changed", {}))
            case _:
                return _text(json.dumps(self.counts))
        return _text(name)

    async def _ask(self, method: str, params: Json | None, send: Send) -> Json:
        question_id = f"question-{next(self._ids)}"
        waiting = self._asked[question_id] = asyncio.get_running_loop().create_future()
        question = {"jsonrpc": "2.0", "id": question_id, "method": method, "params": params or {}}
        try:
            await send(_dump(question))
            answer = await waiting
        finally:
            del self._asked[question_id]
        return {key: value for key, value in answer.items() if key in {"result", "error"}}


@asynccontextmanager
async def serve_http(server: EchoServer, port: int = 0) -> AsyncGenerator[str]:
    """Serve streamable HTTP in this event loop. Returns the address."""
    from aiohttp import web  # noqa: PLC0415 -- not for the server over standard streams

    sessions: dict[str, asyncio.Queue[bytes]] = {}

    async def announce(text: bytes) -> None:
        for queue in sessions.values():
            queue.put_nowait(text)

    async def post(request: web.Request) -> web.StreamResponse:
        text = await _noted(server, request)
        message = cast("Json", json.loads(text))
        headers: dict[str, str] = {}
        session = request.headers.get(SESSION)
        if message.get("method") == "initialize":
            headers[SESSION] = f"session-{len(sessions)}-{id(request)}"
            sessions[headers[SESSION]] = asyncio.Queue()
            await server.count("sessions")
        elif session is not None and session not in sessions:
            return _http_error(404, -32600, "Session not found")
        if "id" not in message or "method" not in message:
            await server.handle(text, announce, announce)
            return web.Response(status=202)
        return await _respond(server, request, text, headers, announce)

    async def get(request: web.Request) -> web.StreamResponse:
        queue = sessions.get(request.headers.get(SESSION, ""))
        if queue is None:
            return _http_error(404, -32600, "Session not found")
        response = await _start_events(request, {})
        while True:
            await response.write(_event(await queue.get()))

    async def delete(request: web.Request) -> web.StreamResponse:
        sessions.pop(request.headers.get(SESSION, ""), None)
        await server.count("deleted")
        return web.Response()

    routes = [web.post("/mcp", post), web.get("/mcp", get), web.delete("/mcp", delete)]
    async with _site(server, routes, port) as origin:
        yield f"{origin}/mcp"


@asynccontextmanager
async def serve_sse(server: EchoServer, port: int = 0) -> AsyncGenerator[str]:
    """Serve HTTP with server-sent events in this event loop. Returns the address."""
    from aiohttp import web  # noqa: PLC0415 -- not for the server over standard streams

    streams: dict[str, asyncio.Queue[bytes]] = {}
    working: set[asyncio.Task[None]] = set()

    async def get(request: web.Request) -> web.StreamResponse:
        name = f"stream-{id(request)}"
        queue = streams[name] = asyncio.Queue[bytes]()
        response = await _start_events(request, {})
        await response.write(f"event: endpoint\ndata: /messages?stream={name}\n\n".encode())
        try:
            while True:
                await response.write(_event(await queue.get()))
        finally:
            del streams[name]

    async def post(request: web.Request) -> web.StreamResponse:
        queue = streams.get(request.query.get("stream", ""))
        if queue is None:
            return web.Response(status=404, text="Could not find session")
        task = asyncio.create_task(
            server.handle(await _noted(server, request), queue.put, queue.put)
        )
        working.add(task)
        task.add_done_callback(working.discard)
        return web.Response(status=202, text="Accepted")

    routes = [web.get("/sse", get), web.post("/messages", post)]
    async with _site(server, routes, port) as origin:
        yield f"{origin}/sse"
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)


async def _noted(server: EchoServer, request: Any) -> bytes:
    """The text of a request, recorded with its headers."""
    text: bytes = await request.read()
    headers = {name.lower(): value for name, value in request.headers.items()}
    server.requests.append((text.decode(errors="replace"), headers))
    return text


async def _respond(
    server: EchoServer, request: Any, text: bytes, headers: Mapping[str, str], announce: Send
) -> Any:
    """Answer as JSON if there is only a result, otherwise as a stream."""
    from aiohttp import web  # noqa: PLC0415 -- not for the server over standard streams

    queue = asyncio.Queue[bytes | None]()
    work = asyncio.create_task(server.handle(text, queue.put, announce))
    work.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        first = await queue.get()
        if first is None:
            return web.Response(status=202)
        if b'"method"' not in first[:200]:
            return web.Response(body=first, content_type="application/json", headers=headers)
        response = await _start_events(request, headers)
        await response.write(_event(first))
        while (following := await queue.get()) is not None:
            await response.write(_event(following))
        return response
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def _start_events(request: Any, headers: Mapping[str, str]) -> Any:
    from aiohttp import web  # noqa: PLC0415 -- not for the server over standard streams

    response = web.StreamResponse(headers={**headers, "content-type": "text/event-stream"})
    await response.prepare(request)
    return response


@asynccontextmanager
async def _site(server: EchoServer, routes: list[Any], port: int) -> AsyncGenerator[str]:
    from aiohttp import web  # noqa: PLC0415 -- not for the server over standard streams

    app = web.Application(client_max_size=2**27)
    app.add_routes(routes)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    ending: list[asyncio.Task[None]] = []
    if server.crash is None:
        server.crash = lambda: ending.append(asyncio.create_task(runner.cleanup()))
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        bound = cast("tuple[str, int]", runner.addresses[0])
        yield f"http://127.0.0.1:{bound[1]}"
    finally:
        await asyncio.gather(*ending)
        await runner.cleanup()


async def _serve_stdio(server: EchoServer) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=2**27)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    working: set[asyncio.Task[None]] = set()

    async def send(text: bytes) -> None:
        sys.stdout.buffer.write(text + b"\n")
        sys.stdout.buffer.flush()

    while line := await reader.readline():
        task = asyncio.create_task(server.handle(line, send, send))
        working.add(task)
        task.add_done_callback(working.discard)


async def _serve(server: EchoServer, transport: str, port: int) -> None:
    if transport == "stdio":
        await _serve_stdio(server)
        return
    async with (serve_http if transport == "http" else serve_sse)(server, port) as address:
        print(address, flush=True)  # noqa: T201 -- for whoever started it
        await anyio.sleep_forever()


def _http_error(status: int, code: int, message: str) -> Any:
    from aiohttp import web  # noqa: PLC0415 -- not for the server over standard streams

    error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return web.json_response(error, status=status)


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _event(text: bytes) -> bytes:
    return b"event: message\ndata: " + text + b"\n\n"


def _notification(method: str, params: Json) -> bytes:
    return _dump({"jsonrpc": "2.0", "method": method, "params": params})


def _text(text: str, meta: Json | None = None) -> Json:
    result: Json = {"content": [{"type": "text", "text": text}], "isError": False}
    return {**result, "_meta": meta} if meta else result


def _initialized(params: Json) -> Json:
    version = params.get("protocolVersion")
    return {
        "protocolVersion": version if version != MODERN_VERSION else LEGACY_VERSION,
        "capabilities": {"tools": {"listChanged": True}, "logging": {}},
        "serverInfo": {"name": "echo", "version": "1"},
    }


def _discovered() -> Json:
    return {
        "supportedVersions": [MODERN_VERSION, LEGACY_VERSION],
        "capabilities": {"tools": {"listChanged": True}},
        "resultType": "complete",
        "ttlMs": 60_000,
        "cacheScope": "public",
    }


def _definitions() -> list[Json]:
    return [
        {
            "name": name,
            "description": f"The tool {name} of a server for tests.",
            "inputSchema": {"type": "object", "properties": properties},
        }
        for name, properties in _TOOLS.items()
    ]


def main() -> None:
    """Run the server until its input ends or it is stopped."""
    parser = argparse.ArgumentParser(description="An MCP server for tests.")
    parser.add_argument("--transport", choices=("stdio", "http", "sse"), default="stdio")
    parser.add_argument("--port", type=int, default=0, help="on 127.0.0.1; 0: any free one")
    parser.add_argument("--handshake-only", action="store_true", help="know no server/discover")
    chosen = parser.parse_args()
    server = EchoServer(modern=not chosen.handshake_only, crash=lambda: os._exit(3))
    asyncio.run(_serve(server, chosen.transport, chosen.port))


if __name__ == "__main__":
    main()
