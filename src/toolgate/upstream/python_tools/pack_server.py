"""An in-process server made of parts: functions, prompts, files and another server.

Clients see a pack as such a server. The parts are loaded when the connection is opened; only
then does a pack's code run, and only then are its libraries loaded. Like functions, the server
speaks the handshake era.
"""

import asyncio
import base64
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any, Final, cast

from anyio import to_thread

from toolgate.errors import RpcError, UpstreamError
from toolgate.types import Json, json_array, json_object
from toolgate.upstream.base import CallSink, ChildlessWire, Wire, WireEvents
from toolgate.upstream.python_tools.function_wire import FunctionWire
from toolgate.upstream.python_tools.functions import FunctionTool
from toolgate.upstream.python_tools.tool_context import ToolContext, ToolServices, context_of_call

# https://www.jsonrpc.org/specification#error_object
_INVALID_PARAMS: Final = -32602
# https://modelcontextprotocol.io/specification/2025-11-25/server/resources#error-handling
_NOT_FOUND: Final = -32002
# Bytes of a file that is served as a resource (chosen: more would not fit into any model).
_MOST_BYTES: Final = 32 * 2**20
_MARK: Final = "toolgate/call"
_PLACE: Final = re.compile(r"\{\{\s*([a-z][a-z0-9_]*)\s*\}\}")
_LISTS: Final = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}

_contexts: dict[str, ToolContext] = {}
"""Contexts, by mark, of calls that a server answers in its own task."""


@dataclass(frozen=True, kw_only=True)
class LocalPrompt:
    """A prompt made of a text with placeholders for arguments: `{{name}}`."""

    name: str
    """The name of the prompt."""

    text: str
    """The text with its placeholders."""

    description: str = ""
    """One sentence for people."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of the arguments, in the order of the text."""
        return tuple(dict.fromkeys(_PLACE.findall(self.text)))

    def definition(self) -> Json:
        """The definition for `prompts/list`."""
        definition: Json = {"name": self.name}
        if self.description:
            definition["description"] = self.description
        if self.arguments:
            definition["arguments"] = [{"name": name, "required": True} for name in self.arguments]
        return definition

    def render(self, arguments: Mapping[str, object]) -> Json:
        """Return the result of `prompts/get`.

        Raises:
            RpcError: An argument is missing.
        """
        missing = [name for name in self.arguments if name not in arguments]
        if missing:
            raise RpcError(_INVALID_PARAMS, f"Missing arguments: {', '.join(missing)}")
        text = _PLACE.sub(lambda match: str(arguments[match[1]]), self.text)
        answer: Json = {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
        return {"description": self.description, **answer} if self.description else answer


@dataclass(frozen=True, kw_only=True)
class LocalResource:
    """A resource that is a file."""

    uri: str
    """The URI of the resource."""

    path: Path
    """The path of the file, which is read on each request."""

    mime_type: str
    """The media type; a `text/` type, JSON and the like are returned as text."""

    def definition(self) -> Json:
        """The definition for `resources/list`."""
        return {"uri": self.uri, "name": self.path.name, "mimeType": self.mime_type}

    def read(self) -> Json:
        """Return the result of `resources/read`.

        Raises:
            RpcError: The file cannot be read.
        """
        try:
            with self.path.open("rb") as opened:
                content = opened.read(_MOST_BYTES + 1)
        except OSError as error:
            raise RpcError(_NOT_FOUND, f"{self.path.name} cannot be read.") from error
        if len(content) > _MOST_BYTES:
            raise RpcError(_NOT_FOUND, f"{self.path.name} is larger than {_MOST_BYTES:,} bytes.")
        entry: Json = {"uri": self.uri, "mimeType": self.mime_type}
        try:
            entry["text"] = content.decode()
        except UnicodeDecodeError:
            entry["blob"] = base64.b64encode(content).decode()
        return {"contents": [entry]}


@dataclass(frozen=True, kw_only=True)
class LocalParts:
    """The parts of such a server."""

    name: str
    """The name that the server reports."""

    tools: Sequence[FunctionTool] = ()
    """Functions; they take precedence over tools of `server` with the same name."""

    prompts: Sequence[LocalPrompt] = ()
    """Prompts."""

    resources: Sequence[LocalResource] = ()
    """Files."""

    services: ToolServices = field(default_factory=ToolServices)
    """Services that the tools may use."""

    server: object = None
    """A server of FastMCP or of the `mcp` library that offers more; None if there is none."""


class LocalServer:
    """The target of such a server; its parts can be replaced while it is connected."""

    def __init__(self, load: Callable[[], Awaitable[LocalParts]]) -> None:
        """Create a server.

        Args:
            load: Returns the parts; called when a connection is opened or the parts are
                replaced.
        """
        self.load = load
        self.wires: set[ReloadableWire] = set()
        """Open connections to the server."""

    async def reload(self) -> None:
        """Give its connections the current parts, without disturbing running calls."""
        for wire in list(self.wires):
            await wire.reload()


class LocalWire(FunctionWire):
    """A wire to one state of the parts."""

    def __init__(self, parts: LocalParts, inner: Wire | None) -> None:
        """Create a wire over the wire to `parts.server`, if there is one."""
        super().__init__(parts.name, parts.tools, parts.services)
        self._parts = parts
        self._inner = inner
        self._prompts = {prompt.name: prompt for prompt in parts.prompts}
        self._resources = {resource.uri: resource for resource in parts.resources}

    async def open(self, events: WireEvents) -> None:
        """Start the other server, if there is one."""
        await super().open(events)
        if self._inner is not None:
            await self._inner.open(events)

    async def request(
        self,
        method: str,
        params: Json,
        *,
        headers: Mapping[str, str],
        sink: CallSink | None = None,
        progress: bool = False,
    ) -> Json:
        """Answer from the parts, or let the other server answer."""
        inner = self._inner

        async def ask(method: str, params: Json) -> Json:
            assert inner is not None
            return await inner.request(
                method, params, headers=headers, sink=sink, progress=progress
            )

        if inner is None or self._is_own(method, params):
            return await super().request(
                method, params, headers=headers, sink=sink, progress=progress
            )
        if method == "initialize":
            local = await super().request(method, params, headers=headers, sink=sink)
            return _greeting(local, await ask(method, params))
        if method in _LISTS:
            local = {} if "cursor" in params else await self._answer(method, params, None)
            other = await ask(method, params)
            key = _LISTS[method]
            return {**other, key: [*json_array(local.get(key)), *json_array(other.get(key))]}
        if method != "tools/call":
            return await ask(method, params)
        context = context_of_call(self._numbered(sink, progress=progress), self._parts.services)
        with _mark(context) as mark:
            meta = {**json_object(params.get("_meta")), _MARK: mark}
            return await ask(method, {**params, "_meta": meta})

    async def notify(self, method: str, params: Json, *, headers: Mapping[str, str]) -> None:
        """Pass the notification on to the other server."""
        if self._inner is not None:
            await self._inner.notify(method, params, headers=headers)

    def begin_session(self, version: str) -> None:
        """Pass the call on to the other server."""
        if self._inner is not None:
            self._inner.begin_session(version)

    async def closed(self) -> str:
        """Wait until `aclose`, or until the other server ends."""
        if self._inner is None:
            return await super().closed()
        ends = [
            asyncio.ensure_future(super().closed()),
            asyncio.ensure_future(self._inner.closed()),
        ]
        try:
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            return next(iter(done)).result()
        finally:
            for end in ends:
                end.cancel()

    async def aclose(self) -> None:
        """Stop running calls and the other server."""
        await super().aclose()
        if self._inner is not None:
            await self._inner.aclose()

    def _is_own(self, method: str, params: Json) -> bool:
        match method:
            case "tools/call":
                return params.get("name") in self._tools
            case "prompts/get":
                return params.get("name") in self._prompts
            case "resources/read":
                return params.get("uri") in self._resources
            case _:
                return False

    async def _answer(
        self, method: str, params: Json, sink: CallSink | None, *, progress: bool = False
    ) -> Json:
        match method:
            case "initialize":
                greeting = await super()._answer(method, params, sink, progress=progress)
                # All kinds, since the parts can be replaced.
                kinds = {key: {"listChanged": True} for key in ("tools", "prompts", "resources")}
                return {**greeting, "capabilities": {"logging": {}, **kinds}}
            case "prompts/list":
                return {"prompts": [prompt.definition() for prompt in self._parts.prompts]}
            case "resources/list":
                return {"resources": [resource.definition() for resource in self._parts.resources]}
            case "resources/templates/list":
                return {"resourceTemplates": []}
            case "prompts/get" if prompt := self._prompts.get(str(params.get("name"))):
                return prompt.render(json_object(params.get("arguments")))
            case "resources/read" if resource := self._resources.get(str(params.get("uri"))):
                return await to_thread.run_sync(resource.read)
            case "prompts/get" | "resources/read":
                raise RpcError(_INVALID_PARAMS, f"Unknown {method.partition('s/')[0]}")
            case _:
                return await super()._answer(method, params, sink, progress=progress)


class ReloadableWire(ChildlessWire):
    """A wire to parts that may be replaced.

    The gateway is notified that the lists have changed. Until it requests them, calls go to the
    parts that it knows; a running call finishes with the parts it began with.
    """

    def __init__(self, target: LocalServer, wire_to: Callable[[object], Wire]) -> None:
        """Create a wire; `wire_to` returns the wire to `LocalParts.server`."""
        self._target = target
        self._wire_to = wire_to
        self._current: LocalWire | None = None
        self._next: LocalWire | None = None
        self._calls: Counter[LocalWire] = Counter()
        self._greeting: tuple[Json, Mapping[str, str]] | None = None
        self._ended = asyncio.Event()
        self._reason = "The connection was closed."
        self._swapped = asyncio.Event()
        self._renewing = asyncio.Lock()

    async def open(self, events: WireEvents) -> None:
        """Assemble the parts and start."""
        self._events = events
        self._current = await self._build_wire()
        self._target.wires.add(self)

    async def reload(self) -> None:
        """Use the current parts from the next listing on."""
        async with self._renewing:
            try:
                fresh = await self._build_wire()
                if self._greeting is not None:
                    params, headers = self._greeting
                    await fresh.request("initialize", params, headers=headers)
                    await fresh.notify("notifications/initialized", {}, headers=headers)
            except UpstreamError as error:
                self._end(f"The new version cannot be started: {error}")
                return
            if self._next is not None:
                await self._next.aclose()
            self._next = fresh
        for kind in ("tools", "prompts", "resources"):
            await self._events.on_notification(f"notifications/{kind}/list_changed", {})

    async def request(
        self,
        method: str,
        params: Json,
        *,
        headers: Mapping[str, str],
        sink: CallSink | None = None,
        progress: bool = False,
    ) -> Json:
        """Let the known parts answer; a listing switches to the new ones first."""
        assert self._current is not None
        if method == "initialize":
            self._greeting = (params, headers)
        if method in _LISTS and self._next is not None:
            self._current, self._next, old = self._next, None, self._current
            self._swapped.set()
            if old not in self._calls:
                await old.aclose()
        wire = self._current
        self._calls[wire] += 1
        try:
            return await wire.request(method, params, headers=headers, sink=sink, progress=progress)
        finally:
            self._calls[wire] -= 1
            if not self._calls[wire]:
                del self._calls[wire]
                if wire is not self._current:
                    await wire.aclose()

    async def notify(self, method: str, params: Json, *, headers: Mapping[str, str]) -> None:
        """Pass the notification on."""
        for wire in {self._current, *self._calls}:
            if wire is not None:
                await wire.notify(method, params, headers=headers)

    async def closed(self) -> str:
        """Wait until `aclose`, or until the current parts end."""
        while not self._ended.is_set():
            assert self._current is not None
            self._swapped.clear()
            over = asyncio.ensure_future(self._current.closed())
            waits = [asyncio.ensure_future(event.wait()) for event in (self._ended, self._swapped)]
            try:
                await asyncio.wait([over, *waits], return_when=asyncio.FIRST_COMPLETED)
                if over.done() and not self._swapped.is_set() and not self._ended.is_set():
                    return over.result()
            finally:
                for waiting in (over, *waits):
                    waiting.cancel()
        return self._reason

    async def aclose(self) -> None:
        """Stop all parts."""
        self._target.wires.discard(self)
        self._end(self._reason)
        for wire in {self._current, self._next, *self._calls}:
            if wire is not None:
                await wire.aclose()

    async def _build_wire(self) -> LocalWire:
        parts = await self._target.load()
        inner = None if parts.server is None else self._wire_to(parts.server)
        wire = LocalWire(parts, inner)
        try:
            await wire.open(self._events)
        except BaseException:
            await wire.aclose()
            raise
        return wire

    def _end(self, reason: str) -> None:
        self._reason = reason
        self._ended.set()


def context_in(meta: object) -> ToolContext:
    """The context of the call that came with this `_meta`, or one without caller and client."""
    mark = cast("Mapping[str, Any]", meta).get(_MARK) if isinstance(meta, Mapping) else None
    return _contexts.get(str(mark)) or context_of_call(None)


@contextmanager
def _mark(context: ToolContext) -> Generator[str]:
    mark = token_hex(16)
    _contexts[mark] = context
    try:
        yield mark
    finally:
        _contexts.pop(mark, None)


def _greeting(local: Json, other: Json) -> Json:
    """Merge both answers to `initialize`."""
    capabilities = {
        **json_object(local.get("capabilities")),
        **json_object(other.get("capabilities")),
    }
    return {**other, "serverInfo": local.get("serverInfo"), "capabilities": capabilities}
