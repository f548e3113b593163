"""The wire shape of results and errors per protocol era; independent of transports and SDK."""

import logging
from collections.abc import Mapping
from typing import Any

import toolgate
from toolgate.base.logs import REQUEST_ID
from toolgate.errors import RpcError, ToolgateError
from toolgate.server.asgi.parsing.json_parser import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
)
from toolgate.types import MODERN_VERSION, Era, Json, json_object

log = logging.getLogger(__name__)

_PREFIX = "io.modelcontextprotocol/"
PROTOCOL_VERSION = _PREFIX + "protocolVersion"
CLIENT_CAPABILITIES = _PREFIX + "clientCapabilities"
CLIENT_INFO = _PREFIX + "clientInfo"
LOG_LEVEL = _PREFIX + "logLevel"
SERVER_INFO_KEY = _PREFIX + "serverInfo"

SERVER_INFO: Json = {"name": "toolgate", "title": "Toolgate", "version": toolgate.__version__}
"""Name and version that the gateway reports to clients."""

TTL_MS = 0
"""Milliseconds that a client may cache a list: none, since only listeners hear of changes."""

HEADER_MISMATCH = -32020
"""From the MCP specification (draft, streamable HTTP)."""
RESOURCE_NOT_FOUND = -32002
"""From the MCP specification (resources, error handling)."""

_CACHED = frozenset(
    {
        "tools/list",
        "resources/list",
        "resources/templates/list",
        "prompts/list",
        "resources/read",
        "server/discover",
    }
)
"""Methods whose modern results must say how long they may be cached."""

ACCESS_CODE = -31001
"""The caller is not authenticated."""

FORBIDDEN_CODE = -31003
"""The caller lacks permission."""

_RPC_CODES: Mapping[str, int] = {
    "unknown_tool": INVALID_PARAMS,
    "unknown_prompt": INVALID_PARAMS,
    "unknown_resource": INVALID_PARAMS,
    "argument": INVALID_PARAMS,
    "handle": INVALID_PARAMS,
    "access": ACCESS_CODE,
    "limit": -31005,
    "forbidden": FORBIDDEN_CODE,
    "unknown_server": -31004,
    "unreachable": -31010,
    "connection_lost": -31011,
    "server_down": -31012,
    "timed_out": -31013,
    "invalid_answer": -31014,
    "cannot_ask": -31015,
    "login_needed": -31016,
    "upstream": -31019,
    "store": -31020,
    "config": -31030,
}
"""JSON-RPC code by `ToolgateError.code`; Toolgate's own codes are outside the reserved range."""

_OTHER_CODE = -31000
"""Toolgate's own code, outside the range that JSON-RPC reserves."""

_OF_THE_CONNECTION = frozenset({HEADER_MISMATCH, -32022})
"""Codes by which a server refuses the headers or version of Toolgate's own connection. They are
not passed on, since clients would apply them to theirs. A missing capability (-32021) is passed on:
Toolgate declares the client's capabilities."""

_HTTP_STATUS: Mapping[int, int] = {
    PARSE_ERROR: 400,
    -32600: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    -32021: 400,
    -32022: 400,
    METHOD_NOT_FOUND: 404,
}
"""https://modelcontextprotocol.io/specification/2026-07-28/basic/transports"""


def http_status(rpc_code: int) -> int:
    """Return the status of a modern HTTP response that carries this JSON-RPC error."""
    return _HTTP_STATUS.get(rpc_code, 200)


def _capabilities(era: Era) -> Json:
    """Return the capabilities of the gateway, whatever its servers currently offer."""
    declared: Json = {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "prompts": {"listChanged": True},
        "completions": {},
    }
    return declared | {"logging": {}} if era == "handshake" else declared


def discovery_answer(instructions: str) -> Json:
    """Return the result of `server/discover`, with these instructions unless they are empty."""
    answer: Json = {
        "supportedVersions": [MODERN_VERSION],
        "capabilities": _capabilities("modern"),
    }
    return answer | ({"instructions": instructions} if instructions else {})


def handshake_answer(instructions: str) -> Json:
    """Return the gateway's part of the result of `initialize`, which lacks the version."""
    answer: Json = {"capabilities": _capabilities("handshake"), "serverInfo": SERVER_INFO}
    return answer | ({"instructions": instructions} if instructions else {})


def shape(result: Json, method: str, era: Era) -> Json:
    """Return a result in the shape of the client's era; other members stay unchanged."""
    return _modern(result, method) if era == "modern" else _handshake(result)


def rpc_error(error: Exception, era: Era) -> tuple[int, str, Any]:
    """Return code, message and data of the JSON-RPC error for an exception."""
    if isinstance(error, RpcError):
        if error.rpc_code in _OF_THE_CONNECTION:
            data = {"code": error.code, "rpc": {"code": error.rpc_code, "data": error.data}}
            return _RPC_CODES["upstream"], error.message, data
        return error.rpc_code, error.message, error.data
    if not isinstance(error, ToolgateError):
        log.error("request failed", exc_info=error)
        data = {"code": "internal", "retryable": False, "requestId": REQUEST_ID.get()}
        return INTERNAL_ERROR, "Internal error; the log of the gateway says more.", data
    code = _RPC_CODES.get(error.code)
    if code is None:
        code = next(
            (_RPC_CODES[c.code] for c in _ancestors(error) if c.code in _RPC_CODES), _OTHER_CODE
        )
    if error.code == "unknown_resource" and era == "handshake":
        code = RESOURCE_NOT_FOUND
    data = {"code": error.code, "retryable": error.retryable, "requestId": REQUEST_ID.get()}
    return code, str(error), data


def _ancestors(error: ToolgateError) -> list[type[ToolgateError]]:
    return [c for c in type(error).__mro__ if issubclass(c, ToolgateError)]


def _modern(result: Json, method: str) -> Json:
    shaped = dict(result)
    kind = shaped.setdefault("resultType", "complete")
    if method in _CACHED and kind == "complete":
        shaped.setdefault("ttlMs", TTL_MS)
        # A caller's results are never shared, whatever the server said of its own result.
        shaped["cacheScope"] = "private"
    meta = json_object(shaped.get("_meta"))
    shaped["_meta"] = {**meta, SERVER_INFO_KEY: SERVER_INFO}
    return shaped


def _handshake(result: Json) -> Json:
    meta = json_object(result.get("_meta"))
    if SERVER_INFO_KEY not in meta and result.keys().isdisjoint(_MODERN_ONLY):
        return result
    shaped = {key: value for key, value in result.items() if key not in _MODERN_ONLY}
    if SERVER_INFO_KEY in meta:
        other_meta = {key: value for key, value in meta.items() if key != SERVER_INFO_KEY}
        shaped.pop("_meta", None)
        if other_meta:
            shaped["_meta"] = other_meta
    return shaped


_MODERN_ONLY = frozenset({"resultType", "ttlMs", "cacheScope"})
