"""A scripted upstream server, for tests.

```python
from toolgate.testing import FakeUpstream, memory_app, text_result

weather = FakeUpstream(tools={"forecast": lambda params: text_result("sunny")})
async with memory_app({"weather": weather}) as app:
    weather.crash()
```
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from toolgate.errors import ConnectionLostError, RpcError, UnreachableError
from toolgate.types import LEGACY_VERSION, MODERN_VERSION, Json, json_object
from toolgate.upstream import CallSink, WireEvents

Tool = Callable[[Json], "Json | Awaitable[Json]"]
"""Takes the parameters of a call and returns its result; may raise the errors of a transport."""


def text_result(text: str, **members: Any) -> Json:
    """A `tools/call` result with one text block."""
    return {"content": [{"type": "text", "text": text}], **members}


class FakeUpstream:
    """A server and its transports. Pass it to `memory_app` under the server's name."""

    def __init__(
        self,
        tools: Mapping[str, Tool] | None = None,
        *,
        definitions: Mapping[str, Json] | None = None,
        prompts: tuple[Json, ...] = (),
        resources: tuple[Json, ...] = (),
        templates: tuple[Json, ...] = (),
        instructions: str = "",
        speaks: Literal["modern", "handshake", "both"] = "both",
    ) -> None:
        self.tools = dict(tools or {"echo": _echo})
        self.definitions = dict(definitions or {})
        """Definitions by tool name; other tools get a simple one."""
        self.prompts = prompts
        self.resources = resources
        self.templates = templates
        self.instructions = instructions
        self.speaks = speaks
        self.refuses = False
        """Whether new connections fail."""
        self.silent: set[str] = set()
        """Methods that are never answered."""
        self.requests: list[tuple[str, Json]] = []
        """All received requests with their parameters."""
        self.cancelled: list[str] = []
        """Methods of requests that were cancelled."""
        self.wires: list[_FakeWire] = []
        """All connections, the latest last."""
        self.connected = asyncio.Event()
        """Set when a connection is made; clear it to wait for the next one."""

    def __call__(self, spec: object) -> "_FakeWire":
        """Create a transport."""
        del spec
        wire = _FakeWire(self)
        self.wires.append(wire)
        return wire

    def calls(self, tool: str) -> list[Json]:
        """Parameters of the calls of a tool."""
        return [p for m, p in self.requests if m == "tools/call" and p.get("name") == tool]

    def crash(self) -> None:
        """End all connections, like a process that dies."""
        for wire in self.wires:
            wire.end("The process exited with status 1.")

    async def announce(self, method: str = "notifications/tools/list_changed") -> None:
        """Send a notification on all open connections."""
        for wire in self.wires:
            if wire.events is not None and not wire.ended.is_set():
                await wire.events.on_notification(method, {})

    async def ask(self, method: str, params: Json) -> Json:
        """Send a request on the last connection, outside of calls."""
        events = self.wires[-1].events
        assert events is not None
        return await events.on_request(method, params)

    async def answer(self, method: str, params: Json, sink: CallSink | None) -> Json:
        """Answer a request."""
        if method in self.silent:
            await asyncio.get_running_loop().create_future()
        listable: Json = {"listChanged": True}
        capabilities: Json = {
            "tools": listable,
            "prompts": listable,
            "resources": {**listable, "subscribe": True},
        }
        offered: Json = {"capabilities": capabilities}
        if self.instructions:
            offered["instructions"] = self.instructions
        match method:
            case "server/discover" if self.speaks != "handshake":
                return {"supportedVersions": [MODERN_VERSION], **offered}
            case "initialize" if self.speaks != "modern":
                return {"protocolVersion": LEGACY_VERSION, **offered}
            case "tools/list":
                return {"tools": [self._definition(name) for name in self.tools]}
            case "prompts/list":
                return {"prompts": list(self.prompts)}
            case "resources/list":
                return {"resources": list(self.resources)}
            case "resources/templates/list":
                return {"resourceTemplates": list(self.templates)}
            case "resources/read":
                return {"contents": [{"uri": params["uri"], "text": f"body of {params['uri']}"}]}
            case "prompts/get":
                text = {"type": "text", "text": f"prompt {params['name']}"}
                return {"messages": [{"role": "user", "content": text}]}
            case "completion/complete":
                return {"completion": {"values": [str(json_object(params["ref"]).get("name"))]}}
            case "subscriptions/listen":
                await asyncio.get_running_loop().create_future()
            case "tools/call" if params.get("name") in self.tools:
                result = self.tools[params["name"]](params | ({"sink": sink} if sink else {}))
                return result if isinstance(result, dict) else await result
            case "ping" | "resources/subscribe" | "resources/unsubscribe":
                return {}
            case _:
                pass
        raise RpcError(-32601, "Method not found")

    def _definition(self, name: str) -> Json:
        plain: Json = {"name": name, "description": f"Tool {name}.", "inputSchema": _ANYTHING}
        return plain | self.definitions.get(name, {})


_ANYTHING: Json = {"type": "object"}


def _echo(params: Json) -> Json:
    return text_result(str(json_object(params.get("arguments")).get("text")))


class _FakeWire:
    """A connection to a `FakeUpstream`; implements `Wire`."""

    def __init__(self, upstream: FakeUpstream) -> None:
        self.upstream = upstream
        self.events: WireEvents | None = None
        self.ended = asyncio.Event()
        self.reason = ""
        self.waiting: set[asyncio.Future[Json]] = set()

    @property
    def pid(self) -> int | None:
        """There is no process."""
        return None

    @property
    def stderr_tail(self) -> tuple[str, ...]:
        """There is no process."""
        return ()

    async def open(self, events: WireEvents) -> None:
        """Connect, unless the upstream refuses."""
        if self.upstream.refuses:
            raise UnreachableError("The connection was refused.")
        self.events = events
        self.upstream.connected.set()

    async def request(
        self,
        method: str,
        params: Json,
        *,
        headers: Mapping[str, str],
        sink: CallSink | None = None,
        progress: bool = False,
    ) -> Json:
        """Have the upstream answer a request."""
        del headers, progress
        if self.ended.is_set():
            raise ConnectionLostError(self.reason, sent=False)
        self.upstream.requests.append((method, params))
        answer = asyncio.ensure_future(self.upstream.answer(method, params, sink))
        self.waiting.add(answer)
        try:
            return await answer
        except asyncio.CancelledError:
            if self.ended.is_set():
                raise ConnectionLostError(self.reason, sent=True) from None
            answer.cancel()
            self.upstream.cancelled.append(method)
            raise
        finally:
            self.waiting.discard(answer)

    async def notify(self, method: str, params: Json, *, headers: Mapping[str, str]) -> None:
        """Ignore a notification."""
        del method, params, headers

    def begin_session(self, version: str) -> None:
        """Nothing to do."""
        del version

    def end(self, reason: str) -> None:
        """End the connection; pending requests fail."""
        if not self.ended.is_set():
            self.reason = reason
            self.ended.set()
            for answer in list(self.waiting):
                answer.cancel()

    async def closed(self) -> str:
        """Wait for the end."""
        await self.ended.wait()
        return self.reason

    async def aclose(self) -> None:
        """End it."""
        self.end("It was closed.")
