"""The transport `inprocess`: a server that is a Python object in this process.

The object is a FastMCP server, a server of the `mcp` library, or functions marked with `@tool`;
or its name, `MODULE:NAME` or `FILE.py:NAME`, which is loaded when the wire is opened.
Messages are serialized as for every other transport, so that neither side can change the other's
objects.
"""

import asyncio
import hashlib
import logging
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import anyio
from mcp.server.lowlevel import Server
from mcp.shared.memory import MessageStream, create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from toolgate.base.logs import take_over
from toolgate.errors import OptionError, ToolgateError, UnreachableError
from toolgate.types import Json
from toolgate.upstream.base import CallSink, ChildlessWire, Wire, WireEvents
from toolgate.upstream.json_text import write_json
from toolgate.upstream.python_tools.function_wire import FunctionWire
from toolgate.upstream.python_tools.functions import tools_of
from toolgate.upstream.python_tools.pack_server import LocalServer, ReloadableWire
from toolgate.upstream.transports._duplex import DuplexWire, PendingRequest
from toolgate.upstream.transports._jsonrpc import DamagedMessage, excerpt, read_message

log = logging.getLogger(__name__)

SEND_S = 2.0
"""Seconds a notification waits for a server that does not read."""

_OF_FILE = "toolgate_file_"
"""Start of the names under which files are registered as modules."""

PATIENCE_S = 2.0
"""Seconds a server has to end by itself."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The object that is the server."""

    target: object
    """The object, or its name, `MODULE:NAME` or `FILE.py:NAME`; a name without an object in it
    means all functions in it that are marked with `@tool`."""

    def __post_init__(self) -> None:
        """Check that there is a target.

        Raises:
            OptionError: The target is empty.
        """
        if self.target is None or (
            isinstance(self.target, str) and not self.target.partition(":")[0].strip()
        ):
            raise OptionError(
                "target is empty.", allowed="Allowed: MODULE:NAME, FILE.py:NAME, or an object."
            )


def build(options: Options, *, max_message_bytes: int) -> "InprocessWire":
    """Create the wire for these options; nothing is loaded yet."""
    return InprocessWire(options, max_message_bytes)


class InprocessWire(ChildlessWire):
    """A wire to any kind of target."""

    def __init__(self, options: Options, max_message_bytes: int) -> None:
        self._target = options.target
        self._max_message_bytes = max_message_bytes
        self._wire: Wire | None = None
        self._ended = asyncio.Event()

    async def open(self, events: WireEvents) -> None:
        """Load the target and start it.

        Raises:
            UnreachableError: It cannot be loaded, or is not a server.
        """
        target = self._target
        if isinstance(target, str):
            target = await anyio.to_thread.run_sync(_load, target)
        if isinstance(target, LocalServer):
            self._wire = ReloadableWire(target, self._wire_to)
        else:
            self._wire = self._wire_to(target)
        try:
            await self._wire.open(events)
        except ToolgateError as error:
            raise UnreachableError(str(error)) from error

    async def request(
        self,
        method: str,
        params: Json,
        *,
        headers: Mapping[str, str],
        sink: CallSink | None = None,
        progress: bool = False,
    ) -> Json:
        """Send a request and wait for its result; see `Wire.request`."""
        assert self._wire is not None
        return await self._wire.request(
            method, params, headers=headers, sink=sink, progress=progress
        )

    async def notify(self, method: str, params: Json, *, headers: Mapping[str, str]) -> None:
        """Send a notification; it is dropped if it cannot be sent."""
        assert self._wire is not None
        await self._wire.notify(method, params, headers=headers)

    async def closed(self) -> str:
        """Wait until the connection has ended; return the reason as one sentence."""
        if self._wire is None:
            await self._ended.wait()
            return "The connection was closed."
        return await self._wire.closed()

    async def aclose(self) -> None:
        """Stop the server's task; the object itself can be used again."""
        self._ended.set()
        if self._wire is not None:
            await self._wire.aclose()

    def _wire_to(self, target: object) -> Wire:
        if tools := tools_of(target):
            name = _name_of(target) if isinstance(target, ModuleType) else "functions"
            return FunctionWire(name, tools)
        # FastMCP stores the server of the mcp library under the first name, MCPServer under the
        # second; neither is public, but both libraries use them this way themselves.
        for attribute in ("_mcp_server", "_lowlevel_server"):
            inner = getattr(target, attribute, None)
            if isinstance(inner, Server):
                return _ServerWire(cast("Server[Any]", inner), target, self._max_message_bytes)
        if isinstance(target, Server):
            server = cast("Server[Any]", target)
            return _ServerWire(server, server, self._max_message_bytes)
        raise UnreachableError(
            f"The target is not a server, but {excerpt(repr(target))}.",
            allowed="Allowed: a FastMCP or mcp server, functions with @tool, or their module.",
            hint="Correct `python` of this server.",
        )


class _ServerWire(DuplexWire):
    """A wire to a server of the mcp library, over in-memory streams."""

    def __init__(self, server: "Server[Any]", owner: object, max_message_bytes: int) -> None:
        super().__init__(max_message_bytes)
        self._server = server
        self._owner = owner
        self._running: asyncio.Task[None] | None = None
        self._outlet: Any = None
        self._sending: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def open(self, events: WireEvents) -> None:
        """Start the server in a task."""
        self._events = events
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running = asyncio.create_task(self._run(started), name="toolgate-inprocess")
        await asyncio.wait({started, self._running}, return_when=asyncio.FIRST_COMPLETED)
        # It ended before it was ready, and `_run` has stated why.
        if not started.done():
            raise UnreachableError(self._end_reason or "The server ended at once.")

    async def aclose(self) -> None:
        """Stop the server's task."""
        if self._is_closed:
            return
        self._is_closed = True
        self._end("The connection was closed.")
        for task in self._sending:
            task.cancel()
        await self._finish_questions()
        if self._running is not None:
            if self._outlet is not None:
                await self._outlet.aclose()  # the server sees the end of its input
            await asyncio.wait({self._running}, timeout=PATIENCE_S)
            self._running.cancel()
            await asyncio.gather(self._running, *self._sending, return_exceptions=True)

    async def _run(self, started: "asyncio.Future[None]") -> None:
        try:
            async with _lifespan(self._owner), create_client_server_memory_streams() as streams:
                (inlet, self._outlet), server_streams = streams
                async with anyio.create_task_group() as group:
                    group.start_soon(self._serve, server_streams)
                    started.set_result(None)
                    async for item in inlet:
                        if isinstance(item, SessionMessage) and not self._is_farewell(item):
                            await self._take(_plain(item))
            self._end("The server in this process has ended.")
        except Exception as error:  # a server of a user must not take the gateway with it
            log.exception("server in this process failed")
            self._end(f"The server in this process failed: {excerpt(repr(error))}.")
        finally:
            self._end("The connection was closed.")

    def _is_farewell(self, item: SessionMessage) -> bool:
        """Whether a message is the library's end of the connection, not an answer of the server."""
        message = item.message
        # The library answers every open request like this when its streams end.
        if not isinstance(message, JSONRPCError) or message.error.code != CONNECTION_CLOSED:
            return False
        if message.error.message != "Connection closed":
            return False
        if isinstance(message.id, int) and (call := self._calls.get(message.id)):
            call.fail(self._lost(sent=True))
        return True

    async def _serve(self, streams: MessageStream) -> None:
        await self._server.run(*streams, self._server.create_initialization_options())

    async def _send_call(
        self,
        text: bytes,
        call: PendingRequest,
        headers: Mapping[str, str],  # noqa: ARG002 -- contract
    ) -> None:
        call.sent = True
        await self._put(text)

    async def _send(self, text: bytes, headers: Mapping[str, str]) -> None:  # noqa: ARG002 -- contract
        with anyio.move_on_after(SEND_S):
            await self._put(text)

    def _send_soon(self, text: bytes, headers: Mapping[str, str]) -> None:
        if self._end_reason is None:
            task = asyncio.create_task(self._send_quietly(text, headers))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _send_quietly(self, text: bytes, headers: Mapping[str, str]) -> None:
        try:
            await self._send(text, headers)
        except ToolgateError as error:
            log.debug("message not sent", extra={"reason": str(error)})

    async def _put(self, text: bytes) -> None:
        # Serialized, as over a pipe: server and gateway must not share objects.
        message = jsonrpc_message_adapter.validate_python(read_message(text))
        try:
            await self._outlet.send(SessionMessage(message))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise self._lost(sent=False) from None


@asynccontextmanager
async def _lifespan(owner: object) -> AsyncGenerator[None]:
    """Run FastMCP's lifespan; servers of the mcp library run theirs themselves."""
    manager = getattr(owner, "_lifespan_manager", None)
    if manager is None:
        yield
        return
    async with manager():
        yield


def _plain(item: SessionMessage) -> object:
    """The message as it would have been parsed from a line of text."""
    message = item.message
    match message:
        case JSONRPCResponse():
            fields: Json = {"id": message.id, "result": message.result}
        case JSONRPCError() | JSONRPCRequest() | JSONRPCNotification():
            fields = message.model_dump(mode="json", by_alias=True, exclude_unset=True)
    call_id = fields.get("id")
    try:
        return read_message(write_json(fields))
    except ToolgateError:
        return DamagedMessage(
            reason="cannot be written as JSON",
            call_id=call_id if isinstance(call_id, int) else None,
            is_rpc=True,
        )


def _load(name: str) -> object:
    """Load the object that `MODULE:NAME` or `FILE.py:NAME` names.

    Raises:
        UnreachableError: It does not exist, or loading it failed.
    """
    module_name, attribute = name, ""
    if ":" in name and not name.endswith(".py"):  # a drive of Windows has a colon, too
        module_name, _, attribute = name.rpartition(":")
    try:
        module = (
            _load_file(Path(module_name))
            if module_name.endswith(".py")
            else import_module(module_name)
        )
    except Exception as error:  # code of a user runs here
        log.debug("target not loaded", exc_info=True)
        raise UnreachableError(
            f"The target {name!r} cannot be loaded: {type(error).__name__}: {excerpt(str(error))}.",
            hint="Correct `python` of this server, or the code that it names.",
        ) from error
    take_over("fastmcp")  # which the module may have imported
    target: object = module
    for part in filter(None, attribute.split(".")):
        if not hasattr(target, part):
            raise UnreachableError(
                f"{module_name!r} has nothing named {attribute!r}.",
                hint="Correct `python` of this server: FILE.py:NAME or MODULE:NAME.",
            )
        target = getattr(target, part)
    return target


def _name_of(module: ModuleType) -> str:
    """Return the name of a module, or that of the file that it was loaded from."""
    name = module.__name__
    return name.removeprefix(_OF_FILE).partition("_")[2] if name.startswith(_OF_FILE) else name


def _load_file(path: Path) -> ModuleType:
    # Registered, since dataclasses look up their module; under a name that no module has.
    digest = hashlib.sha256(str(path).encode(errors="surrogatepass")).hexdigest()[:8]
    spec = spec_from_file_location(f"{_OF_FILE}{digest}_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"no file {str(path)!r}")
    module = sys.modules[spec.name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[spec.name]
        raise
    return module
