"""Sends long lists past the SDK: a placeholder stands for the bytes until they are sent.

The SDK would serialize every definition again, and split the text into lines for the event: 20
ms of CPU time for 642 tools. The list needs none of that, since it is already one line of JSON.
"""

from secrets import token_hex

from toolgate.base.json_text import dumps
from toolgate.server.asgi.parsing.messages import Message, Scope, Send

_PREPARED = "toolgate.prepared"


def insert_placeholder(scope: Scope, listing: bytes) -> str:
    """Return an unguessable placeholder, which `fill_placeholder` replaces by the list."""
    word = token_hex(16)
    scope[_PREPARED] = (dumps(word), listing)
    return word


def fill_placeholder(send: Send, scope: Scope) -> Send:
    """Return a `send` that replaces the placeholder in the response by the list."""

    async def send_with(message: Message) -> None:
        if _PREPARED in scope and message["type"] == "http.response.body":
            word, listing = scope[_PREPARED]
            before, match, after = message.get("body", b"").partition(word)
            if match:
                del scope[_PREPARED]
                message = {**message, "body": b"".join((before, listing, after))}
        await send(message)

    return send_with
