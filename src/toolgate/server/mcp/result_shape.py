"""The wire shape of results and errors per protocol era. Knows no transport and no SDK."""

import logging
from collections.abc import Mapping
from typing import Any, cast

import toolgate
from toolgate.base.logs import REQUEST_ID
from toolgate.errors import RpcError, ToolgateError
from toolgate.server.asgi.parsing.json_parser import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
)
from toolgate.types import Era, Json

__all__ = [
    "ACCESS_CODE",
    "CLIENT_CAPABILITIES",
    "CLIENT_INFO",
    "FORBIDDEN_CODE",
    "HEADER_MISMATCH",
    "LOG_LEVEL",
    "PROTOCOL_VERSION",
    "SERVER_INFO",
    "SERVER_INFO_KEY",
    "TTL_MS",
    "capabilities",
    "http_status",
    "rpc_error",
    "shape",
]

log = logging.getLogger(__name__)

_PREFIX = "io.modelcontextprotocol/"
PROTOCOL_VERSION = _PREFIX + "protocolVersion"
CLIENT_CAPABILITIES = _PREFIX + "clientCapabilities"
CLIENT_INFO = _PREFIX + "clientInfo"
LOG_LEVEL = _PREFIX + "logLevel"
SERVER_INFO_KEY = _PREFIX + "serverInfo"

SERVER_INFO: Json = {"name": "toolgate", "title": "Toolgate", "version": toolgate.__version__}
"""How the gateway names itself to clients."""

TTL_MS = 0
"""How long a client may keep a list: not at all, since changes are announced only to listeners."""

HEADER_MISMATCH = -32020
"""Of the MCP specification (draft, streamable HTTP)."""
RESOURCE_NOT_FOUND = -32002
"""Of the MCP specification (resources, error handling)."""

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
"""Methods whose modern results must say how long they hold."""

ACCESS_CODE = -31001
"""Nobody is known to ask."""

FORBIDDEN_CODE = -31003
"""Who asks may not."""

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
"""JSON-RPC code by `ToolgateError.code`; our own lie outside the range that is reserved."""

_OTHER_CODE = -31000
"""Of ours, outside of what JSON-RPC reserves."""

_OF_THE_CONNECTION = frozenset({HEADER_MISMATCH, -32022})
"""Codes by which a server refuses headers or version of who asks it: of Toolgate. A client would
take them for its own. A missing capability (-32021) is the client's: Toolgate declares what it has.
"""

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
    """Status of a modern HTTP answer that carries this JSON-RPC error."""
    return _HTTP_STATUS.get(rpc_code, 200)


def capabilities(era: Era) -> Json:
    """What the gateway offers, whatever its servers offer at the moment."""
    declared: Json = {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "prompts": {"listChanged": True},
        "completions": {},
    }
    return declared | {"logging": {}} if era == "handshake" else declared


def shape(result: Json, method: str, era: Era) -> Json:
    """A result as the era's clients expect it; what it holds besides stays as it is."""
    return _modern(result, method) if era == "modern" else _handshake(result)


def rpc_error(error: Exception, era: Era) -> tuple[int, str, Any]:
    """Code, message and data of the JSON-RPC error that tells a client of `error`."""
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
        # What one caller sees is never another's, whatever the server said of its own answer.
        shaped["cacheScope"] = "private"
    meta = _object(shaped.get("_meta"))
    shaped["_meta"] = {**meta, SERVER_INFO_KEY: SERVER_INFO}
    return shaped


def _handshake(result: Json) -> Json:
    meta = _object(result.get("_meta"))
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


def _object(value: object) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}
