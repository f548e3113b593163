"""An MCP session over standard input and output, for one client."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from toolgate.base.ids import new_id
from toolgate.base.json_text import dumps
from toolgate.base.logs import REQUEST_ID
from toolgate.base.tracing import Trace, join_trace, observe, trace_of
from toolgate.gateway.gateway import Gateway
from toolgate.server.asgi.parsing.json_parser import (
    INVALID_REQUEST,
    BadMessageError,
    body_too_large,
    check_envelope,
    error_bytes,
    parse_json_async,
)
from toolgate.server.mcp.front import McpServer
from toolgate.server.mcp.pipes import LineReader, LineWriter
from toolgate.settings import ServeSettings
from toolgate.types import Json, json_object

log = logging.getLogger(__name__)

_MOST_OPEN = 10_000
"""Largest number of open requests; chosen: bounds memory."""

_Incoming = MemoryObjectSendStream["SessionMessage | Exception"]
_Outgoing = MemoryObjectReceiveStream[SessionMessage]


async def serve_lines(
    gateway: Gateway,
    reader: LineReader,
    writer: LineWriter,
    settings: ServeSettings,
    *,
    token: str = "",
    project: str = "",
    logs_requests: bool = False,
) -> None:
    """Serve one client until it closes its side; `token` and `project` are its defaults."""
    requests = _OpenRequests(are_logged=logs_requests)
    front = McpServer(gateway, token=token, project=project, answering=requests.answering)
    to_server, from_client = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, reader, writer, to_server, settings, requests)
        tasks.start_soon(_write, from_server, writer, requests)
        await front.run(from_client, to_client)
        tasks.cancel_scope.cancel()


@dataclass(frozen=True, kw_only=True)
class _OpenRequest:
    """A request without a response yet."""

    method: str
    request_id: str
    """Toolgate's id of the request; the client's own is another."""
    trace: Trace
    began_s: float


class _OpenRequests:
    """Open requests, each logged in one line if configured."""

    def __init__(self, *, are_logged: bool) -> None:
        self._are_logged = are_logged
        self._open: dict[object, _OpenRequest] = {}

    def begin(self, message: JSONRPCMessage) -> None:
        """Register a request until it gets a response."""
        if not isinstance(message, JSONRPCRequest) or len(self._open) >= _MOST_OPEN:
            return
        meta = json_object((message.params or {}).get("_meta"))
        self._open[message.id] = _OpenRequest(
            method=message.method,
            request_id=new_id(),
            trace=trace_of(meta.get("traceparent"), meta.get("tracestate")),
            began_s=perf_counter(),
        )

    @contextmanager
    def answering(self, message_id: object) -> Generator[None]:
        """Run code in the context of a request."""
        request = self._open.get(message_id)
        if request is None:
            yield
            return
        REQUEST_ID.set(request.request_id)
        join_trace(request.trace)
        try:
            with observe("request", method=request.method, path="stdio"):
                yield
        except anyio.get_cancelled_exc_class():
            self._log(self._open.pop(message_id, None), "cancelled", 0)
            raise

    def finish(self, message: JSONRPCMessage, size_bytes: int) -> None:
        """Unregister the request of a response."""
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            status = message.error.code if isinstance(message, JSONRPCError) else "ok"
            self._log(self._open.pop(message.id, None), status, size_bytes)

    def _log(self, request: _OpenRequest | None, status: int | str, size_bytes: int) -> None:
        """Log a request in one line, without its content."""
        if request is None or not self._are_logged:
            return
        log.info(
            "request",
            extra={
                "method": request.method,
                "path": "stdio",
                "status": status,
                "duration_ms": round((perf_counter() - request.began_s) * 1000, 1),
                "response_bytes": size_bytes,
                "request_id": request.request_id,
                "trace_id": request.trace.trace_id,
            },
        )


async def _read(
    reader: LineReader,
    writer: LineWriter,
    to_server: _Incoming,
    settings: ServeSettings,
    requests: _OpenRequests,
) -> None:
    async with to_server:
        async for line in reader:
            try:
                if line is None:
                    raise body_too_large(settings.max_body_bytes)
                envelope = check_envelope(
                    await parse_json_async(line, max_depth=settings.max_depth)
                )
                parsed = jsonrpc_message_adapter.validate_python(envelope.message, by_name=False)
            except BadMessageError as error:
                await writer.write(error_bytes(error.request_id, error.rpc_code, error.message))
            except ValidationError:
                text = "The message is no JSON-RPC request, notification or response."
                await writer.write(error_bytes(None, INVALID_REQUEST, text))
            else:
                requests.begin(parsed)
                await to_server.send(SessionMessage(parsed))


async def _write(from_server: _Outgoing, writer: LineWriter, requests: _OpenRequests) -> None:
    async with from_server:
        async for outgoing in from_server:
            line = dumps(_plain(outgoing.message))
            await writer.write(line)
            requests.finish(outgoing.message, len(line))


def _plain(message: JSONRPCMessage) -> Json:
    """Return a message as JSON, its payload unchanged."""
    match message:
        case JSONRPCResponse():
            return {"jsonrpc": "2.0", "id": message.id, "result": message.result}
        case JSONRPCError():
            error = message.error.model_dump(by_alias=True, exclude_unset=True)
            return {"jsonrpc": "2.0", "id": message.id, "error": error}
        case JSONRPCRequest() | JSONRPCNotification():
            plain: Json = {"jsonrpc": "2.0", "method": message.method}
            if isinstance(message, JSONRPCRequest):
                plain["id"] = message.id
            if message.params is not None:
                plain["params"] = message.params
            return plain
