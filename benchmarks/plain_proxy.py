"""A proxy that does nothing but send calls on, for comparison with the gateway.

    python -m benchmarks.plain_proxy PORT FARM CLOSED

It uses the same HTTP libraries as the gateway. A call of `healthy7__echo` goes to `FARM/healthy/7`,
and one of a dead server to `CLOSED`, where nobody listens. No permissions, no audit, no sessions.
"""

import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import uvicorn

_ACCEPTED, _BAD_GATEWAY = 202, 502


class PlainProxy:
    """The ASGI application."""

    def __init__(self, farm: str, closed: str) -> None:
        """Send calls to these two addresses."""
        self._farm = farm
        self._closed = closed
        self._session: aiohttp.ClientSession | None = None

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[dict[str, Any]]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        """Handle one request (ASGI)."""
        assert scope["type"] == "http"
        body = bytearray()
        more = True
        while more:
            piece = await receive()
            body += piece.get("body", b"")
            more = piece.get("more_body", False)
        status, content = await self._answer(json.loads(body))
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(content)),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    async def _answer(self, message: dict[str, Any]) -> tuple[int, bytes]:
        if "id" not in message:
            return _ACCEPTED, b""
        name, _, tool = message.get("params", {}).get("name", "").partition("__")
        if not tool:  # `initialize`, which any answer satisfies here, or a search
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": {}}
            return 200, json.dumps(reply).encode()
        message["params"]["name"] = tool
        kind = name.rstrip("0123456789")
        address = self._closed if kind == "dead" else self._farm
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        request = self._session.post(
            f"{address}/{kind}/{name.removeprefix(kind)}",
            data=json.dumps(message).encode(),
            headers={"content-type": "application/json"},
        )
        try:
            async with request as answer:
                return answer.status, await answer.read()
        except aiohttp.ClientError:
            return _BAD_GATEWAY, b""


if __name__ == "__main__":
    uvicorn.run(
        PlainProxy(*sys.argv[2:]),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        loop="asyncio",
        http="httptools",
        lifespan="off",
        log_level="critical",
        access_log=False,
    )
