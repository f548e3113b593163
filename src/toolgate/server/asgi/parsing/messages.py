"""Small ASGI functions that all endpoints share."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import anyio

from toolgate.base.json_text import dumps

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


_MOST_DRAINED_BYTES = 256 * 2**20
"""Largest number of bytes read after a refusal, so that the client sees it; chosen."""
_DRAIN_S = 10.0
"""Largest number of seconds to read them; chosen."""


class DisconnectedError(Exception):
    """The client disconnected before its request was complete."""


class TooLargeError(Exception):
    """The body is larger than allowed."""


async def read_body(scope: Scope, receive: Receive, *, max_bytes: int) -> bytes:
    """Return the whole body of a request.

    Raises:
        TooLargeError: The body is larger than `max_bytes`, or declared so.
        DisconnectedError: The client disconnected.
    """
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > max_bytes:
            raise TooLargeError
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body", False):
        body = message.get("body", b"")
        if len(body) > max_bytes:
            raise TooLargeError
        return body
    collected = bytearray()
    while message["type"] == "http.request":
        collected += message.get("body", b"")
        if len(collected) > max_bytes:
            raise TooLargeError
        if not message.get("more_body", False):
            return bytes(collected)
        message = await receive()
    raise DisconnectedError


def replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that repeats a body already read, then passes on what follows."""
    is_given = False

    async def receive_again() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def discard_body(send: Send, scope: Scope, receive: Receive) -> Send:
    """Return a `send` for a response to a body that was not read completely.

    A connection that is closed while the client still sends is reset, and most clients then do
    not see the response. So the rest is read after the response, within limits.
    """

    async def send_draining(message: Message) -> None:
        is_last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if not is_last:
            await send(message)
            return
        await send({**message, "more_body": True})
        # A read would tell a client that sent `Expect: 100-continue` to send its body.
        if all(name != b"expect" for name, _ in scope["headers"]):
            with anyio.move_on_after(_DRAIN_S):
                await _drain(receive)
        await send({"type": "http.response.body", "body": b""})

    return send_draining


async def _drain(receive: Receive) -> None:
    drained = 0
    while drained < _MOST_DRAINED_BYTES:
        message = await receive()
        drained += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body", False):
            return


def with_header(send: Send, name: bytes, value: bytes) -> Send:
    """Return a `send` that adds a header to the response."""

    async def send_with(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), (name, value)]}
        await send(message)

    return send_with


async def send_json(
    send: Send,
    status: int,
    body: object,
    *,
    headers: tuple[tuple[bytes, bytes], ...] = (),
    kind: bytes = b"application/json",
) -> None:
    """Respond with JSON; a body of bytes is sent as it is."""
    data = body if isinstance(body, bytes) else dumps(body)
    all_headers = [
        (b"content-type", kind),
        (b"content-length", str(len(data)).encode()),
        *headers,
    ]
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    await send({"type": "http.response.body", "body": data})
