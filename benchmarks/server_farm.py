"""Many MCP servers over HTTP in one process, by path: healthy, slow and flapping ones.

    python -m benchmarks.server_farm PORT

`/healthy/N` answers at once, `/slow/N` after `SLOW_S`, and `/flapping/N` closes the connection
without a response for every other `FLAP_S` seconds. All speak the modern era and have the tool
`echo`. `/direct` is any of them, by the name of the tool: a call of `slow3__echo` takes a second.
"""

import asyncio
import sys
from time import monotonic
from typing import Any

from aiohttp import web

SLOW_S = 1.0
"""Seconds that a slow server takes for a call."""

FLAP_S = 2.0
"""Seconds for which a flapping server responds, and then does not."""

_VERSION = "2026-07-28"
_ECHO = {
    "name": "echo",
    "description": "Echo the text back.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
}


async def _answer(request: web.Request) -> web.StreamResponse:
    message = await request.json()
    kind = request.match_info.get("kind") or _kind_of(message)
    if kind == "dead":  # there is none here
        return web.Response(status=502)
    if kind == "flapping" and int(monotonic() / FLAP_S) % 2:
        assert request.transport is not None
        request.transport.close()
        return web.Response()
    if "id" not in message:
        return web.Response(status=202)
    if message["method"] == "subscriptions/listen":
        await asyncio.Event().wait()
    if message["method"] == "tools/call" and kind == "slow":
        await asyncio.sleep(SLOW_S)
    result = _result(message)
    if result is None:
        error = {"code": -32601, "message": "Method not found"}
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "error": error})
    return web.json_response(
        {"jsonrpc": "2.0", "id": message["id"], "result": {"resultType": "complete"} | result}
    )


def _kind_of(message: dict[str, Any]) -> str:
    name: str = message.get("params", {}).get("name", "")
    return name.partition("__")[0].rstrip("0123456789")


def _result(message: dict[str, Any]) -> dict[str, Any] | None:
    match message["method"]:
        case "server/discover":
            return {"supportedVersions": [_VERSION], "capabilities": {"tools": {}}}
        case "tools/list":
            return {"tools": [_ECHO], "ttlMs": 0, "cacheScope": "private"}
        case "tools/call":
            text = message["params"]["arguments"].get("text", "")
            return {"content": [{"type": "text", "text": text}], "isError": False}
        case _:
            return None


if __name__ == "__main__":
    farm = web.Application()
    farm.router.add_post("/direct", _answer)
    farm.router.add_post("/{kind}/{number}", _answer)
    web.run_app(farm, host="127.0.0.1", port=int(sys.argv[1]), print=None)
