"""Limits the memory for bodies that are read before it is known who sends them."""

from collections.abc import Generator
from contextlib import contextmanager

from toolgate.server.asgi.parsing.messages import Message, Receive, Scope

SMALL_BYTES = 64 * 2**10
"""Bodies up to this size in bytes are always read; a thousand of them are 64 MB. Chosen."""

_TOTAL_BYTES = 64 * 2**20
"""Largest number of bytes of all unverified bodies together; chosen."""


class BodiesError(Exception):
    """Too many large bodies of unknown clients are being read."""


class UnverifiedBodies:
    """The bodies that are being read from clients whose headers do not prove who they are."""

    def __init__(self) -> None:
        self._held_bytes = 0

    @contextmanager
    def limited(self, receive: Receive) -> Generator[Receive]:
        """Give a `receive` for one body, which counts until the context ends.

        It raises `BodiesError` if the body is not small and all together would be too large.
        """
        held = 0

        async def receive_counted() -> Message:
            nonlocal held
            message = await receive()
            size = len(message.get("body", b""))
            held += size
            self._held_bytes += size
            if held > SMALL_BYTES and self._held_bytes > _TOTAL_BYTES:
                raise BodiesError
            return message

        try:
            yield receive_counted
        finally:
            self._held_bytes -= held


def is_small(scope: Scope) -> bool:
    """Whether a request declares a small body."""
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    return bool(lengths) and lengths[0].isdigit() and int(lengths[0]) <= SMALL_BYTES
