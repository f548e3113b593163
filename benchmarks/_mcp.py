"""Messages of the modern MCP protocol and the HTTP headers that go with them."""

from typing import Any

PROTOCOL = "2026-07-28"
_PREFIX = "io.modelcontextprotocol/"


def message(method: str, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """A request and its headers."""
    meta = {
        f"{_PREFIX}protocolVersion": PROTOCOL,
        f"{_PREFIX}clientCapabilities": {},
        f"{_PREFIX}clientInfo": {"name": "benchmark", "version": "1"},
    }
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": PROTOCOL,
        "Mcp-Method": method,
    }
    if "name" in params:
        headers["Mcp-Name"] = params["name"]
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": method,
        "params": {**params, "_meta": meta},
    }, headers


def tools_call(name: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """A `tools/call` and its headers."""
    return message("tools/call", {"name": name, "arguments": arguments})
