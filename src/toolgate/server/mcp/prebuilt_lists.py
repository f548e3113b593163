"""Sends long lists past the SDK: a placeholder stands for the bytes until they are sent.

The SDK would write every definition anew, and cut the text into lines as an event demands: 20 CPU
ms for 642 tools, of which the list itself needs none, since it is one line of JSON already.
"""

from secrets import token_hex

from toolgate.base.json_text import dumps
from toolgate.server.asgi.parsing.messages import Message, Scope, Send

__all__ = ["fill_placeholder", "insert_placeholder"]

_PREPARED = "toolgate.prepared"


def insert_placeholder(scope: Scope, listing: bytes) -> str:
    """A word that nobody can guess, for `fill_placeholder` to put the list in its place."""
    word = token_hex(16)
    scope[_PREPARED] = (dumps(word), listing)
    return word


def fill_placeholder(send: Send, scope: Scope) -> Send:
    """A `send` for streams of events that puts a list where its word stands."""

    async def send_with(message: Message) -> None:
        if _PREPARED in scope and message["type"] == "http.response.body":
            word, listing = scope[_PREPARED]
            before, match, after = message.get("body", b"").partition(word)
            if match:
                del scope[_PREPARED]
                message = {**message, "body": b"".join((before, listing, after))}
        await send(message)

    return send_with
