"""The fast path for the most frequent requests: modern calls and tool listings.

It runs before the SDK's application and responds to clear cases only: one request, headers that
match the body, no notifications expected before the result. All other requests go on to the SDK
with the body that was read, and get their response or error there.
"""

import asyncio
from dataclasses import dataclass

from toolgate.base.json_text import dumps
from toolgate.errors import CannotAskError
from toolgate.gateway.gateway import Gateway
from toolgate.gateway.visible_catalog import Authorized
from toolgate.server.asgi.authentication import IS_RELAYED
from toolgate.server.asgi.parsing.json_parser import (
    BadMessageError,
    Envelope,
    error_bytes,
)
from toolgate.server.asgi.parsing.messages import Receive, Send
from toolgate.server.mcp.methods import check_call, check_list
from toolgate.server.mcp.response_stream import ResponseStream, result_parts
from toolgate.server.mcp.result_shape import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    PROTOCOL_VERSION,
    discovery_answer,
    http_status,
    rpc_error,
    shape,
)
from toolgate.types import MODERN_VERSION, Caller, Era, Json

_METHODS = frozenset({"tools/call", "tools/list", "server/discover"})
_VERSION = MODERN_VERSION.encode()
_PLAIN_HEADER = frozenset(range(0x20, 0x7F))


@dataclass(frozen=True, kw_only=True)
class FastPathRequest:
    """A request that the fast path handles."""

    request_id: str | int
    """Its JSON-RPC id."""

    method: str
    """A method that the fast path handles."""

    params: Json
    """Its parameters."""

    caller: Caller
    """The caller."""

    authorized: Authorized | None
    """The tool to call, if it exists and the caller may use it."""


class FastPathPeer:
    """A modern client that wants only the result."""

    era: Era = "modern"
    """Only modern requests take the fast path."""

    wants_progress = False
    """Requests with a progress token do not take the fast path."""

    log_level: str | None = None
    """Requests with a log level do not take the fast path."""

    def __init__(self, capabilities: Json) -> None:
        self.capabilities = capabilities
        """Capabilities that the client declared in this request."""

    async def progress(self, params: Json) -> None:
        """Discard progress."""

    async def log(self, params: Json) -> None:
        """Discard a log message."""

    async def ask(self, method: str, params: Json) -> Json:  # noqa: ARG002
        """Refuse: requests to a modern client are part of the result.

        Raises:
            CannotAskError: Always.
        """
        raise CannotAskError(
            f"A stateless client (protocol version 2026-07-28) cannot be asked {method!r} directly."
        )


class FastPath:
    """Recognizes and handles requests of the fast path."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._frame: tuple[bytes, bytes] = _frame()

    def accepted(
        self, envelope: Envelope, headers: list[tuple[bytes, bytes]], caller: Caller
    ) -> FastPathRequest | None:
        """Return the request in a message; None if the SDK has to handle it."""
        method, meta, request_id = envelope.method, envelope.meta, envelope.request_id
        if (
            method not in _METHODS
            or request_id is None
            or meta.get(PROTOCOL_VERSION) != MODERN_VERSION
            or not isinstance(meta.get(CLIENT_CAPABILITIES), dict)
            or not isinstance(meta.get(CLIENT_INFO, {}), dict)
            or "progressToken" in meta
            or LOG_LEVEL in meta
            or not _headers_agree(headers, method, envelope.params.get("name"))
        ):
            return None
        authorized = None
        if method == "tools/call":
            authorized = self._gateway.visible.authorize_name(caller, envelope.params["name"])
            if (
                authorized is not None
                and authorized.entry.mirrors_arguments
                and not IS_RELAYED.get()
            ):
                return None
        return FastPathRequest(
            request_id=request_id,
            method=method,
            params=envelope.params,
            caller=caller,
            authorized=authorized,
        )

    async def serve(self, request: FastPathRequest, receive: Receive, send: Send) -> None:
        """Respond to a request; cancel the call if the client disconnects."""
        answer = ResponseStream(receive, send)
        answer.begin()
        try:
            status, parts = await self._answer(request)
        except asyncio.CancelledError:
            if answer.has_left():
                return
            raise
        finally:
            answer.end()
        await answer.finish(status, parts)

    async def _answer(self, request: FastPathRequest) -> tuple[int, tuple[bytes, ...]]:
        """Return status and body, in parts to avoid copying a large result."""
        try:
            if request.method == "tools/list":
                check_list(request.params)
                listing = await self._gateway.listing.list_tools(request.caller)
                before, after = self._frame
                return 200, result_parts(dumps(request.request_id), before, listing, after)
            if request.method == "server/discover":
                result = discovery_answer(self._gateway.listing.instructions(request.caller))
                shaped = dumps(shape(result, request.method, "modern"))
                return 200, result_parts(dumps(request.request_id), shaped)
            peer = FastPathPeer(request.params["_meta"][CLIENT_CAPABILITIES])
            check_call(request.params)
            result = await self._gateway.call(
                request.caller, request.params, peer, authorized=request.authorized
            )
            shaped = dumps(shape(result, request.method, "modern"))
            return 200, result_parts(dumps(request.request_id), shaped)
        except BadMessageError as error:
            code, message, data = error.rpc_code, error.message, None
        except Exception as error:  # noqa: BLE001 - logged and answered there
            code, message, data = rpc_error(error, "modern")
        return http_status(code), (error_bytes(request.request_id, code, message, data),)


def _headers_agree(headers: list[tuple[bytes, bytes]], method: str, tool: object) -> bool:
    """Whether the headers accept a JSON response, and match the method and tool of the body.

    Requests with repeated headers, or headers that mirror an argument, are left to the SDK.
    """
    version = named_method = named_tool = accept = kind = None
    for name, value in headers:
        if name == b"accept":
            accept = value if accept is None else b""
        elif name == b"content-type":
            kind = value
        elif not name.startswith(b"mcp-"):
            continue
        elif name == b"mcp-method":
            named_method = value if named_method is None else b""
        elif name == b"mcp-protocol-version":
            version = value if version is None else b""
        elif name == b"mcp-name":
            named_tool = value if named_tool is None else b""
        elif name.startswith((b"mcp-param-", b"mcp-session-id")):
            return False
    return (
        version == _VERSION
        and named_method == method.encode()
        and kind is not None
        and kind.startswith(b"application/json")
        and accept is not None
        and b"application/json" in accept
        and b"text/event-stream" in accept
        and (_names_tool(named_tool, tool) if method == "tools/call" else named_tool != b"")
    )


def _names_tool(header: bytes | None, tool: object) -> bool:
    """Whether a header names the tool, without any encoding."""
    return (
        isinstance(tool, str)
        and header is not None
        and _PLAIN_HEADER.issuperset(header)
        and header.decode("ascii") == tool
        and not tool.startswith("=?")
    )


def _frame() -> tuple[bytes, bytes]:
    """Return the JSON before and after the entries of a modern `tools/list`."""
    marker = "\0"
    framed = dumps(shape({"tools": marker}, "tools/list", "modern"))
    before, after = framed.split(dumps(marker))
    return before, after
