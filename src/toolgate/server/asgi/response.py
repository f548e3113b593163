"""The response to one request: its state, and the headers that every response has."""

from toolgate.server.asgi.parsing.messages import Message, Send

_SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)
"""Headers added to every response that does not set them itself, as console pages do."""


class ResponseMonitor:
    """A `send` that adds the request id and the security headers, and records what was sent."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._request_id = request_id
        self.has_begun = False
        """Whether the head was sent, so that the status is final."""
        self.status = 0
        """HTTP status; 0 before the response starts."""
        self.is_stream = False
        """Whether the response is an event stream."""
        self.is_within_event = False
        """Whether the last event is incomplete."""
        self.sent_bytes = 0
        """Bytes of the body sent so far."""
        self.is_complete = False
        """Whether the whole response was sent."""

    async def __call__(self, message: Message) -> None:
        """Send a message (ASGI)."""
        self.has_begun = True
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", ()), (b"x-request-id", self._request_id.encode())]
            present = dict(headers)
            headers += [pair for pair in _SECURITY_HEADERS if pair[0] not in present]
            message = {**message, "headers": headers}
            self.is_stream = present.get(b"content-type", b"").startswith(b"text/event-stream")
        elif body := message.get("body"):
            self.is_within_event = not body.endswith(b"\n")
            self.sent_bytes += len(body)
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.is_complete = True


async def send_text(send: Send, status: int, text: str) -> None:
    """Respond to a browser or a scraper with plain text."""
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})


async def send_empty(
    send: Send, status: int, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    """Respond without a body."""
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": b""})


async def send_redirect(send: Send, location: str) -> None:
    """Redirect with status 303."""
    headers = [(b"location", location.encode()), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
