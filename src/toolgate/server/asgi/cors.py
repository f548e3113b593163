"""Cross-origin requests (CORS): which web pages may read responses."""

from toolgate.server.asgi.host_check import HostCheck
from toolgate.server.asgi.parsing.headers import HEADERS, header
from toolgate.server.asgi.parsing.messages import App, Receive, Scope, Send, with_header

_PREFLIGHT_MAX_AGE_S = b"600"
"""How long browsers remember a preflight answer; the limit that Chromium applied for years."""


class Cors:
    """Answers preflight requests, and marks responses as readable for allowed origins."""

    def __init__(self, app: App, host_check: HostCheck) -> None:
        self._app = app
        self._host_check = host_check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request (ASGI)."""
        origin = scope[HEADERS].get(b"origin")
        if origin is not None and self._host_check.may_read(origin):
            if scope["method"] == "OPTIONS":
                await _send_preflight(scope, _readable_by(send, origin))
                return
            send = _readable_by(send, origin)
        await self._app(scope, receive, send)


def _readable_by(send: Send, origin: bytes) -> Send:
    """Return a `send` whose responses the browser lets a page of this origin read."""
    for name, value in (
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", b"Mcp-Session-Id, X-Request-Id"),
        (b"vary", b"Origin"),
    ):
        send = with_header(send, name, value)
    return send


async def _send_preflight(scope: Scope, send: Send) -> None:
    requested = header(scope, b"access-control-request-headers") or "content-type"
    headers = [
        (b"access-control-allow-methods", b"GET, POST, DELETE"),
        (b"access-control-allow-headers", requested.encode("latin-1")),
        (b"access-control-max-age", _PREFLIGHT_MAX_AGE_S),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
