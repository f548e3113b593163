"""The transport to Python functions of this process.

Needs no protocol library: it answers with plain dicts, in the caller's task. It speaks the
handshake era, in which a tool can ask the client in the middle of a call.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import cast

import toolgate
from toolgate.errors import (
    CannotAskError,
    ConnectionLostError,
    InvalidAnswerError,
    RpcError,
    ToolgateError,
)
from toolgate.types import LEGACY_VERSION, Json
from toolgate.upstream.base import CallSink, ChildlessWire, WireEvents
from toolgate.upstream.python_tools.functions import FunctionTool
from toolgate.upstream.python_tools.tool_context import (
    ToolServices,
    context_of_call,
)

_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", LEGACY_VERSION)


# https://www.jsonrpc.org/specification#error_object
_INVALID_PARAMS = -32602


# https://www.jsonrpc.org/specification#error_object
_METHOD_NOT_FOUND = -32601


_CONTINUES = ("requestState", "inputResponses")
"""Parameters of a client that answers the questions of an earlier result."""


class FunctionWire(ChildlessWire):
    """A wire to functions of this process."""

    def __init__(
        self, name: str, tools: Sequence[FunctionTool], services: ToolServices | None = None
    ) -> None:
        self._name = name
        self._tools = {tool.name: tool for tool in tools}
        self._services = services
        self._running: set[asyncio.Timeout] = set()
        self._tokens = count(1)
        self._ended = asyncio.Event()

    async def open(self, events: WireEvents) -> None:  # noqa: ARG002 -- contract
        """Describe the tools, so that an invalid one fails here and not in a listing."""
        for tool in self._tools.values():
            _ = tool.definition

    async def request(
        self,
        method: str,
        params: Json,
        *,
        headers: Mapping[str, str],  # noqa: ARG002 -- contract
        sink: CallSink | None = None,
        progress: bool = False,
    ) -> Json:
        """Answer in the caller's task."""
        if self._ended.is_set():
            raise ConnectionLostError("The connection was closed.", sent=False)
        abort = asyncio.timeout(None)  # `aclose` lets it run out
        self._running.add(abort)
        try:
            async with abort:
                return await self._answer(method, params, sink, progress=progress)
        except TimeoutError:
            if not abort.expired():
                raise
            raise ConnectionLostError("The connection was closed.", sent=True) from None
        finally:
            self._running.discard(abort)

    async def notify(self, method: str, params: Json, *, headers: Mapping[str, str]) -> None:
        """Do nothing: notifications of clients do not matter to functions."""

    async def closed(self) -> str:
        """Wait until `aclose`; nothing else ends the connection."""
        await self._ended.wait()
        return "The connection was closed."

    async def aclose(self) -> None:
        """Stop running calls."""
        self._ended.set()
        started_at = asyncio.get_running_loop().time()
        for abort in self._running:
            if abort.when() is None:
                abort.reschedule(started_at)

    async def _answer(
        self, method: str, params: Json, sink: CallSink | None, *, progress: bool
    ) -> Json:
        match method:
            case "initialize":
                version: object = params.get("protocolVersion")
                return {
                    "protocolVersion": version if version in _VERSIONS else LEGACY_VERSION,
                    "capabilities": {"tools": {}, "logging": {}},
                    "serverInfo": {"name": self._name, "version": toolgate.__version__},
                }
            case "ping" | "logging/setLevel":
                return {}
            case "tools/list":
                return {"tools": [dict(tool.definition) for tool in self._tools.values()]}
            case "tools/call":
                return await self._call(params, self._numbered(sink, progress=progress))
            case _:
                raise RpcError(_METHOD_NOT_FOUND, "Method not found")

    def _numbered(self, sink: CallSink | None, *, progress: bool) -> CallSink | None:
        return _NumberedSink.over(sink, self._tokens, progress=progress)

    async def _call(self, params: Json, sink: CallSink | None) -> Json:
        name: object = params.get("name")
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None:
            raise RpcError(_INVALID_PARAMS, f"Unknown tool: {name}")
        continuation = {name: params[name] for name in _CONTINUES if name in params}
        context = context_of_call(sink, self._services, continuation)
        arguments: object = params.get("arguments")
        try:
            return await tool.call(
                cast("Json", arguments) if isinstance(arguments, dict) else {}, context
            )
        except ToolgateError as error:
            if isinstance(error, RpcError | CannotAskError):
                raise
            raise InvalidAnswerError(str(error)) from error


class _NumberedSink:
    """Adds the progress token that a server would return; drops progress nobody requested."""

    def __init__(self, sink: CallSink, token: int | None) -> None:
        self._sink = sink
        self._token = token

    @classmethod
    def over(
        cls, sink: CallSink | None, tokens: Iterator[int], *, progress: bool
    ) -> "_NumberedSink | None":
        return None if sink is None else cls(sink, next(tokens) if progress else None)

    async def progress(self, params: Json) -> None:
        if self._token is not None:
            await self._sink.progress({"progressToken": self._token, **params})

    async def log(self, params: Json) -> None:
        await self._sink.log(params)

    async def ask(self, method: str, params: Json) -> Json:
        return await self._sink.ask(method, params)
