"""What Toolgate adds to a request for a server: `_meta` and HTTP headers, by era.

Data about the client's own connection, and data for Toolgate only, is never forwarded:
https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization (token passthrough).
"""

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, cast

import toolgate
from toolgate.base.tracing import trace_headers
from toolgate.types import Era, Json, json_object

PREFIX = "io.modelcontextprotocol/"
CLIENT_INFO: Json = {"name": "toolgate", "version": toolgate.__version__}

_OF_THE_CONNECTION = frozenset(
    {"progressToken"}
    | {
        f"{PREFIX}{key}"
        for key in ("protocolVersion", "clientInfo", "clientCapabilities", "serverInfo")
    }
)
_FOR_TOOLGATE_ALONE = frozenset({"token", "projectId"})
_KEPT_BACK = _OF_THE_CONNECTION | _FOR_TOOLGATE_ALONE
_LOG_LEVEL = f"{PREFIX}logLevel"

_PLAIN = re.compile(r"[\x20-\x7e]*")
_SENTINEL = re.compile(r"=\?base64\?.*\?=", re.DOTALL)
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")

HeaderParams = Mapping[str, str]
"""Header suffixes by parameter name, from `x-mcp-header` in a tool's input schema."""


def envelope(
    method: str,
    params: Mapping[str, Any],
    *,
    era: Era,
    version: str,
    capabilities: Json,
    log_level: str | None = None,
    mirrored: HeaderParams | None = None,
) -> tuple[Json, dict[str, str]]:
    """Return parameters and headers of a request in the form that a session requires.

    Args:
        method: JSON-RPC method.
        params: As the client sent them, with the upstream's own name in `name`.
        era: Era of the session.
        version: Revision negotiated for the session.
        capabilities: What the calling client can be asked; sent to a modern server with each
            request.
        log_level: Level set by a client with a session; sent to a modern server with each request.
        mirrored: Parameters that a modern HTTP server wants in headers.
    """
    sent = params.get("_meta")
    meta: Json = {}
    if isinstance(sent, dict):
        members = cast("Json", sent).items()
        # What the client says about itself concerns its own connection; this is another one.
        meta = {key: value for key, value in members if key not in _KEPT_BACK}
    headers = {"mcp-protocol-version": version}
    if era == "modern":
        meta[f"{PREFIX}protocolVersion"] = version
        meta[f"{PREFIX}clientInfo"] = CLIENT_INFO
        meta[f"{PREFIX}clientCapabilities"] = capabilities
        if log_level is not None:
            meta.setdefault(_LOG_LEVEL, log_level)
        headers["mcp-method"] = method
        name = params.get("name", params.get("uri"))
        # The headers let proxies route a request without reading its body; the server checks that
        # both say the same.
        if isinstance(name, str):
            headers["mcp-name"] = header_value(name)
        if mirrored:
            headers |= _mirror(params.get("arguments"), mirrored)
    else:
        meta.pop(_LOG_LEVEL, None)
    if traced := trace_headers():
        # Belongs to the client's trace, which ours replaces.
        meta.pop("tracestate", None)
        meta |= traced
        headers |= traced
    out = {key: value for key, value in params.items() if key != "_meta"}
    if meta:
        out["_meta"] = meta
    return out, headers


def header_params(schema: object) -> HeaderParams | None:
    """The parameters of a tool that are mirrored in headers; None if the annotations are invalid.

    A client must not use a tool with an invalid `x-mcp-header`: a suffix that is not an HTTP
    token, that two parameters share, or whose value is not a string, number or boolean.
    https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
    """
    mirrored: dict[str, str] = {}
    for name, prop in json_object(json_object(schema).get("properties")).items():
        declared = json_object(prop)
        if "x-mcp-header" not in declared:
            continue
        suffix = declared["x-mcp-header"]
        if not isinstance(suffix, str) or not _TOKEN.fullmatch(suffix):
            return None
        # Header names are case-insensitive (RFC 9110, section 5.1).
        if suffix.lower() in {other.lower() for other in mirrored.values()}:
            return None
        if declared.get("type") not in ("string", "integer", "number", "boolean"):
            return None
        mirrored[name] = suffix
    return mirrored


def header_value(text: str) -> str:
    """Encode a value for an HTTP header; anything but plain ASCII in the base64 sentinel."""
    if _PLAIN.fullmatch(text) and text == text.strip() and not _SENTINEL.fullmatch(text):
        return text
    return f"=?base64?{b64encode(text.encode('utf-8', 'replace')).decode()}?="


def _mirror(arguments: object, mirrored: HeaderParams) -> dict[str, str]:
    values = json_object(arguments)
    return {
        f"mcp-param-{suffix.lower()}": header_value(
            # As JSON writes it, not as Python does.
            str(value).lower() if isinstance(value, bool) else str(value)
        )
        for name, suffix in mirrored.items()
        if (value := values.get(name)) is not None
    }
