"""The SDK's front over lines of JSON: one client, on standard input and output."""

import logging
from time import perf_counter
from typing import Any

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

from toolgate.gateway import Gateway
from toolgate.jsontext import dumps
from toolgate.logs import REQUEST_ID
from toolgate.observe import parse_trace
from toolgate.serve._caller import request_id_of
from toolgate.serve._message import (
    INVALID_REQUEST,
    BadMessageError,
    check_envelope,
    error_bytes,
    read_aside,
    too_long,
)
from toolgate.serve._pipes import LineReader, LineWriter
from toolgate.serve.mcp import Front
from toolgate.settings import ServeSettings
from toolgate.types import Json, json_object

__all__ = ["serve_lines"]

log = logging.getLogger(__name__)

_MOST_OPEN = 10_000

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
    """Serve one client until it closes its side; `token` and `project` hold unless it names own."""
    requests = _Requests() if logs_requests else None
    to_server, from_client = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, reader, writer, to_server, settings, requests)
        tasks.start_soon(_write, from_server, writer, requests)
        await Front(gateway, token=token, project=project).run(from_client, to_client)
        tasks.cancel_scope.cancel()


class _Requests:
    """One line in the log about each request that was answered: nothing of what it asked."""

    def __init__(self) -> None:
        self._open: dict[str | int, tuple[float, dict[str, Any]]] = {}

    def came(self, message: JSONRPCMessage, request_id: str) -> None:
        """Remember a request until it is answered."""
        if not isinstance(message, JSONRPCRequest) or len(self._open) >= _MOST_OPEN:
            return
        fields: dict[str, Any] = {"method": message.method, "request_id": request_id}
        meta = json_object((message.params or {}).get("_meta"))
        trace = parse_trace(meta.get("traceparent"))
        if trace is not None:
            fields["trace_id"] = trace.trace_id
        self._open[message.id] = perf_counter(), fields

    def left(self, message: JSONRPCMessage, size_bytes: int) -> None:
        """Write the line of what is answered."""
        if not isinstance(message, JSONRPCResponse | JSONRPCError) or message.id is None:
            return
        known = self._open.pop(message.id, None)
        if known is None:
            return
        began, fields = known
        fields["status"] = message.error.code if isinstance(message, JSONRPCError) else "ok"
        took_ms = round((perf_counter() - began) * 1000, 1)
        fields |= {"path": "stdio", "duration_ms": took_ms, "response_bytes": size_bytes}
        log.info("request", extra=fields)


async def _read(
    reader: LineReader,
    writer: LineWriter,
    to_server: _Incoming,
    settings: ServeSettings,
    requests: _Requests | None,
) -> None:
    async with to_server:
        async for line in reader:
            try:
                if line is None:
                    raise too_long(settings.max_body_bytes)
                message = check_envelope(await read_aside(line, max_depth=settings.max_depth))
                parsed = jsonrpc_message_adapter.validate_python(message, by_name=False)
            except BadMessageError as error:
                await writer.write(error_bytes(error.request_id, error.rpc_code, error.message))
            except ValidationError:
                text = "The message is no JSON-RPC request, notification or response."
                await writer.write(error_bytes(None, INVALID_REQUEST, text))
            else:
                request_id = request_id_of(None)
                REQUEST_ID.set(request_id)
                if requests is not None:
                    requests.came(parsed, request_id)
                await to_server.send(SessionMessage(parsed))


async def _write(from_server: _Outgoing, writer: LineWriter, requests: _Requests | None) -> None:
    async with from_server:
        async for outgoing in from_server:
            line = dumps(_plain(outgoing.message))
            await writer.write(line)
            if requests is not None:
                requests.left(outgoing.message, len(line))


def _plain(message: JSONRPCMessage) -> Json:
    """A message as JSON, its payload untouched."""
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
