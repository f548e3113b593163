"""A gateway in memory that tests serve over HTTP and stdio."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import anyio
import orjson

from toolgate.base.processes.loop_monitor import LoopMonitor
from toolgate.base.signing import Signer
from toolgate.catalog import build_entries
from toolgate.errors import (
    ConnectionLostError,
    RpcError,
    TimedOutError,
    UnknownResourceError,
    UnknownServerError,
    UnknownToolError,
)
from toolgate.gateway.execution.result_shape import Shape
from toolgate.gateway.visible_catalog import Authorized
from toolgate.security.access import Admission
from toolgate.settings import ServeSettings, Settings
from toolgate.types import Caller, Json, Peer, ServerStatus

STRING = {"type": "string"}


def tool(name: str, **properties: Json) -> Json:
    return {
        "name": name,
        "title": name.title(),
        "description": f"The tool {name}.",
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "$defs": {"unused": {"$anchor": "here"}},
        },
        "x-unknown": {"kept": None},
        "_meta": {"com.example/tag": "x"},
    }


@dataclass(frozen=True, kw_only=True)
class Change:
    kind: str
    uri: str | None = None


@dataclass
class FakeGateway:
    """Answers from memory and remembers what it was asked."""

    settings: Settings = field(default_factory=Settings)
    instruction_text: str = "Find tools, then run them."
    listed: list[Json] = field(
        default_factory=lambda: [
            tool("a__echo", text=STRING),
            tool("a__regional", region={**STRING, "x-mcp-header": "Region"}),
        ]
    )
    received: list[tuple[Caller, Json]] = field(default_factory=list)
    peers: list[Peer | None] = field(default_factory=list)
    discovered: list[Any] = field(default_factory=list)
    subscribed: list[str] = field(default_factory=list)
    started: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    listeners: list[Callable[[Change], None]] = field(default_factory=list)
    enabled: dict[str, bool] = field(default_factory=dict)
    loop_monitor: LoopMonitor = field(default_factory=LoopMonitor)
    admission: Admission = field(
        default_factory=lambda: Admission((), required=False, projects=lambda: ())
    )

    @property
    def visible(self) -> "FakeGateway":
        """One double stands for all services of a gateway."""
        return self

    def has_unlisted(self) -> bool:
        return False

    def manages(self, caller: Caller) -> bool:
        return True

    manage = changes = discovery = calls = resources = prompts = servers = listing = visible
    shaper = visible

    async def run(self, caller: Caller, shape: Shape, call: Callable[[], Awaitable[Json]]) -> Json:
        assert shape.is_whole
        return await call()

    async def list_tools(self, caller: Caller) -> bytes:
        return orjson.dumps(self.listed)

    async def list_resources(self, caller: Caller) -> bytes:
        return orjson.dumps([{"uri": "memo://1", "name": "one"}])

    async def list_templates(self, caller: Caller) -> bytes:
        return orjson.dumps([{"uriTemplate": "memo://{n}", "name": "any"}])

    async def list_prompts(self, caller: Caller) -> bytes:
        return orjson.dumps([{"name": "a__greet", "arguments": [{"name": "who"}]}])

    async def call(
        self,
        caller: Caller,
        params: Json,
        peer: Peer | None,
        *,
        authorized: Authorized | None = None,
    ) -> Json:
        self.received.append((caller, params))
        self.peers.append(peer)
        arguments = params.get("arguments", {})
        return await getattr(self, "run_" + params["name"].replace("-", "_"), self.unknown)(
            arguments, peer, params
        )

    async def unknown(self, arguments: Json, peer: Peer | None, params: Json) -> Json:
        raise UnknownToolError(f"There is no tool {params['name']!r}.")

    async def run_a__echo(self, arguments: Json, peer: Peer | None, params: Json) -> Json:
        content = [{"type": "text", "text": arguments.get("text", ""), "x-block": {"n": None}}]
        result: Json = {"content": content, "x-result": [1, None], "_meta": {"com.example/r": 1}}
        if "structured" in arguments:
            result["structuredContent"] = arguments["structured"]
        return result

    run_a__regional = run_a__echo

    async def run_slow(self, arguments: Json, peer: Peer | None, params: Json) -> Json:
        self.started.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return {"content": [{"type": "text", "text": "done"}]}

    async def run_progress(self, arguments: Json, peer: Peer | None, params: Json) -> Json:
        assert peer is not None
        for step in range(1, 4):
            await peer.progress({"progress": step, "total": 3, "message": f"step {step}"})
        return {"content": []}

    async def run_logs(self, arguments: Json, peer: Peer | None, params: Json) -> Json:
        assert peer is not None
        for level in ("debug", "info", "error"):
            await peer.log({"level": level, "logger": "l", "data": {"level": level, "none": None}})
        return {"content": [{"type": "text", "text": str(peer.log_level)}]}

    async def run_ask(self, arguments: Json, peer: Peer | None, params: Json) -> Json:
        assert peer is not None
        if peer.era == "modern":
            if "inputResponses" in params:
                answer = params["inputResponses"]["q"], params["requestState"]
                return {"content": [{"type": "text", "text": repr(answer)}]}
            question = {"method": arguments["method"], "params": arguments["params"]}
            return {
                "resultType": "input_required",
                "inputRequests": {"q": question},
                "requestState": "s1",
            }
        answer = await peer.ask(arguments["method"], arguments["params"])
        return {"content": [{"type": "text", "text": repr(answer)}]}

    async def run_rpc_error(self, arguments: Json, peer: Peer | None, params: Json) -> Json:
        raise RpcError(-31999, "boom", {"why": "test", "none": None})

    async def run_timed_out(self, arguments: Json, peer: Peer | None, params: Json) -> Json:
        raise TimedOutError("No answer in 60 s.", hint="It may have run.")

    async def run_lost(self, arguments: Json, peer: Peer | None, params: Json) -> Json:
        raise ConnectionLostError("The connection ended.", sent=True)

    async def run_broken(self, arguments: Json, peer: Peer | None, params: Json) -> Json:
        raise ZeroDivisionError("secret detail")

    async def run_stamped(self, arguments: Json, peer: Peer | None, params: Json) -> Json:
        meta = {"io.modelcontextprotocol/serverInfo": {"name": "up"}, "com.example/r": 1}
        stamp = {"resultType": "complete", "ttlMs": 5, "cacheScope": "public"}
        return {"content": [], "_meta": meta, **stamp}

    async def read(self, caller: Caller, params: Json, peer: Peer | None) -> Json:
        if params["uri"] != "memo://1":
            raise UnknownResourceError(f"There is no resource {params['uri']!r}.")
        return {"contents": [{"uri": params["uri"], "text": "body"}], "ttlMs": 9, "x": None}

    async def get(self, caller: Caller, params: Json, peer: Peer | None) -> Json:
        text = f"Hello {params.get('arguments', {}).get('who')}"
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}

    async def complete(self, caller: Caller, params: Json, peer: Peer | None) -> Json:
        return {"completion": {"values": [params["argument"]["value"] + "!"]}}

    async def subscribe(self, caller: Caller, uri: str) -> None:
        if uri.startswith("none://"):
            raise UnknownResourceError(f"There is no resource {uri!r}.")
        self.subscribed.append(uri)

    async def unsubscribe(self, caller: Caller, uri: str) -> None:
        self.subscribed.remove(uri)

    def on_change(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def change(self, kind: str, uri: str | None = None) -> None:
        for listener in list(self.listeners):
            listener(Change(kind=kind, uri=uri))

    def on_access_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        return lambda: None

    def must_manage(self, caller: Caller) -> None:
        return None

    def may_read(self, caller: Caller, uri: str) -> bool:
        return True

    def instructions(self, caller: Caller) -> str:
        return self.instruction_text

    def authorize_name(self, caller: Caller, exposed_name: str) -> Authorized | None:
        definitions = [tool for tool in self.listed if tool["name"] == exposed_name]
        if not definitions:
            return None
        return Authorized(build_entries("a", tools=definitions, flat=True).tools[0], "rule")

    def input_schema(self, caller: Caller, exposed_name: str) -> Json | None:
        return next((t["inputSchema"] for t in self.listed if t["name"] == exposed_name), None)

    # REST

    async def discover(self, caller: Caller, request: Any) -> Any:
        self.discovered.append(request)
        results = [{"toolKey": "a:echo", "kind": "tool", "relevance": 0.9}]
        return SimpleNamespace(text="a:echo", structured=lambda: {"results": results})

    async def describe(self, caller: Caller, keys: Sequence[str]) -> Any:
        found = [{"toolKey": key} for key in keys]
        return SimpleNamespace(text="", structured=lambda: {"tools": found})

    def tool_views(self, caller: Caller) -> list[Any]:
        return [
            SimpleNamespace(
                key=t["name"].replace("__", ":"),
                own_key=t["name"].replace("__", ":"),
                exposed=t["name"],
                server="a",
                definition=t,
                down=False,
            )
            for t in self.listed
        ]

    def statuses(self, caller: Caller) -> list[ServerStatus]:
        return [ServerStatus(name="a", kind="stdio", state="ready", tools=len(self.listed))]

    async def execute(
        self, caller: Caller, key: str, arguments: Json, *, peer: Peer | None = None
    ) -> Json:
        return await self.call(
            caller, {"name": key.replace(":", "__"), "arguments": arguments}, peer
        )

    def status_of(self, name: str) -> ServerStatus:
        state = "ready" if self.enabled[name] else "disabled"
        return ServerStatus(name=name, kind="stdio", state=state)

    async def add(
        self, caller: Caller, name: str, config: Json, *, save: bool = False, project: str = ""
    ) -> ServerStatus:
        self.enabled[name] = True
        return self.status_of(name)

    async def remove(self, caller: Caller, name: str) -> None:
        if name not in self.enabled:
            raise UnknownServerError(f"There is no server {name!r}.")
        del self.enabled[name]

    async def enable(self, caller: Caller, name: str, enabled: bool) -> ServerStatus:
        self.enabled[name] = enabled
        return self.status_of(name)

    async def restart(self, caller: Caller, name: str) -> ServerStatus:
        return self.status_of(name)


def fake_app(gateway: FakeGateway, **serve_settings: Any) -> Any:
    async def announced(session_id: str) -> None:
        """Nobody else is there to hear it."""

    settings = replace(gateway.settings, serve=ServeSettings(**serve_settings))
    return SimpleNamespace(
        gateway=gateway,
        settings=settings,
        store=None,
        limit_shutdown=lambda: None,
        store_problem="",
        needs_restart=anyio.Event(),
        permissions=SimpleNamespace(
            on_session_end=lambda listener: None, announce_session_end=announced
        ),
        expect_turns=lambda: None,
        signer=Signer(bytes(32)),
        loop_monitor=gateway.loop_monitor,
        logins=SimpleNamespace(links=SimpleNamespace(base="", is_https=False)),
        recorder=SimpleNamespace(
            on_outcome=lambda listener: lambda: None,
            status=lambda: SimpleNamespace(failing_since=None),
        ),
    )
