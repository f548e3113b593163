"""A server of this process that is put together from parts: functions, texts and another server.

That is what a pack is to clients. The parts are asked for when the connection is opened, so code of
a pack runs, and its libraries are loaded, only then. The server speaks the handshake era, like
functions.
"""

import asyncio
import base64
import re
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any, Final, cast

from anyio import to_thread

from toolgate.errors import RpcError
from toolgate.types import Json, json_array, json_object
from toolgate.upstream._functions import (
    FunctionTool,
    FunctionWire,
    ToolContext,
    ToolServices,
    context_of_call,
)
from toolgate.upstream.base import CallSink, Wire, WireEvents

__all__ = ["LocalParts", "LocalPrompt", "LocalResource", "LocalServer", "LocalWire", "context_in"]

_INVALID_PARAMS: Final = -32602
_NOT_FOUND: Final = -32002
_MOST_BYTES: Final = 32 * 2**20
_MARK: Final = "toolgate/call"
_PLACE: Final = re.compile(r"\{\{\s*([a-z][a-z0-9_]*)\s*\}\}")
_LISTS: Final = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}

_held: dict[str, ToolContext] = {}
"""Contexts of calls that run in a server which answers in a task of its own, by their marks."""


@dataclass(frozen=True, kw_only=True)
class LocalPrompt:
    """A prompt that is a text with places for arguments: `{{name}}`."""

    name: str
    """What it is asked for by."""

    text: str
    """What it says."""

    description: str = ""
    """One sentence for people."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of its arguments, in the order of the text."""
        return tuple(dict.fromkeys(_PLACE.findall(self.text)))

    def listed(self) -> Json:
        """As `prompts/list` shows it."""
        shown: Json = {"name": self.name}
        if self.description:
            shown["description"] = self.description
        if self.arguments:
            shown["arguments"] = [{"name": name, "required": True} for name in self.arguments]
        return shown

    def said(self, arguments: Mapping[str, object]) -> Json:
        """As `prompts/get` answers it.

        Raises:
            RpcError: An argument is missing.
        """
        missing = [name for name in self.arguments if name not in arguments]
        if missing:
            raise RpcError(_INVALID_PARAMS, f"Missing arguments: {', '.join(missing)}")
        text = _PLACE.sub(lambda found: str(arguments[found[1]]), self.text)
        answer: Json = {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
        return {"description": self.description, **answer} if self.description else answer


@dataclass(frozen=True, kw_only=True)
class LocalResource:
    """A resource that is a file."""

    uri: str
    """What it is asked for by."""

    path: Path
    """Where it is; it is read when somebody asks."""

    mime_type: str
    """What it is; a `text/` type, JSON and the like are answered as text."""

    def listed(self) -> Json:
        """As `resources/list` shows it."""
        return {"uri": self.uri, "name": self.path.name, "mimeType": self.mime_type}

    def read(self) -> Json:
        """As `resources/read` answers it.

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
        found: Json = {"uri": self.uri, "mimeType": self.mime_type}
        try:
            found["text"] = content.decode()
        except UnicodeDecodeError:
            found["blob"] = base64.b64encode(content).decode()
        return {"contents": [found]}


@dataclass(frozen=True, kw_only=True)
class LocalParts:
    """What such a server is made of."""

    name: str
    """What it calls itself."""

    tools: Sequence[FunctionTool] = ()
    """Functions; their names go before those of `server`."""

    prompts: Sequence[LocalPrompt] = ()
    """Texts."""

    resources: Sequence[LocalResource] = ()
    """Files."""

    services: ToolServices = field(default_factory=ToolServices)
    """What its tools may use."""

    server: object = None
    """A FastMCP server, or one of the `mcp` library, that offers more; None: there is none."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LocalServer:
    """The target of such a server; each is another one."""

    load: Callable[[], Awaitable[LocalParts]]
    """Gives the parts, whenever a connection is opened."""


class LocalWire(FunctionWire):
    """A wire to parts."""

    def __init__(self, parts: LocalParts, inner: Wire | None) -> None:
        """Make one over the wire to `parts.server`, where there is one."""
        super().__init__(parts.name, parts.tools, parts.services)
        self._parts = parts
        self._inner = inner
        self._prompts = {each.name: each for each in parts.prompts}
        self._resources = {each.uri: each for each in parts.resources}

    async def open(self, events: WireEvents) -> None:
        """Start the other server, where there is one."""
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
            own = await super().request(method, params, headers=headers, sink=sink)
            return _greeting(own, await ask(method, params))
        if method in _LISTS:
            own = {} if "cursor" in params else await self._answer(method, params, None)
            other = await ask(method, params)
            key = _LISTS[method]
            return {**other, key: [*json_array(own.get(key)), *json_array(other.get(key))]}
        if method != "tools/call":
            return await ask(method, params)
        context = context_of_call(self._numbered(sink, progress=progress), self._parts.services)
        with _mark(context) as mark:
            meta = {**json_object(params.get("_meta")), _MARK: mark}
            return await ask(method, {**params, "_meta": meta})

    async def notify(self, method: str, params: Json, *, headers: Mapping[str, str]) -> None:
        """Pass on to the other server."""
        if self._inner is not None:
            await self._inner.notify(method, params, headers=headers)

    def begin_session(self, version: str) -> None:
        """Pass on to the other server."""
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
        """End what runs, and the other server."""
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
                capabilities = json_object(greeting.get("capabilities"))
                if self._prompts:
                    capabilities["prompts"] = {}
                if self._resources:
                    capabilities["resources"] = {}
                return {**greeting, "capabilities": capabilities}
            case "prompts/list":
                return {"prompts": [each.listed() for each in self._parts.prompts]}
            case "resources/list":
                return {"resources": [each.listed() for each in self._parts.resources]}
            case "resources/templates/list":
                return {"resourceTemplates": []}
            case "prompts/get" if prompt := self._prompts.get(str(params.get("name"))):
                return prompt.said(json_object(params.get("arguments")))
            case "resources/read" if resource := self._resources.get(str(params.get("uri"))):
                return await to_thread.run_sync(resource.read)
            case "prompts/get" | "resources/read":
                raise RpcError(_INVALID_PARAMS, f"Unknown {method.partition('s/')[0]}")
            case _:
                return await super()._answer(method, params, sink, progress=progress)


def context_in(meta: object) -> ToolContext:
    """The context of the call that came with this `_meta`, or one without anybody."""
    mark = cast("Mapping[str, Any]", meta).get(_MARK) if isinstance(meta, Mapping) else None
    return _held.get(str(mark)) or context_of_call(None)


@contextmanager
def _mark(context: ToolContext) -> Generator[str]:
    mark = token_hex(16)
    _held[mark] = context
    try:
        yield mark
    finally:
        _held.pop(mark, None)


def _greeting(own: Json, other: Json) -> Json:
    """Both answers to `initialize` as one."""
    capabilities = {
        **json_object(own.get("capabilities")),
        **json_object(other.get("capabilities")),
    }
    return {**other, "serverInfo": own.get("serverInfo"), "capabilities": capabilities}
