"""Splits a stream of bytes into messages, one per line, in linear time."""

from collections.abc import Iterator
from dataclasses import dataclass

HEAD_BYTES = 4096
"""Bytes stored from the start of an overlong message, to find the request it answers."""

TAIL_BYTES = 512
"""Bytes stored from its end."""


@dataclass(frozen=True, kw_only=True)
class OverlongMessage:
    """A message over the limit: reported once when the limit is exceeded, and again at its end."""

    head: bytes
    """Its first bytes, at most `HEAD_BYTES`."""

    tail: bytes | None = None
    """Its last bytes, at most `TAIL_BYTES`; None while it is still arriving."""


class LineFramer:
    """Splits a stream into lines without their line ends; skips lines over the limit."""

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._head: bytes | None = None  # of the overlong line that is being skipped
        self._tail = b""

    def feed(self, chunk: bytes) -> Iterator[bytes | OverlongMessage]:
        """Yield the lines that this chunk completes, in order."""
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            yield from self._add(piece)
            yield self._finish()
        yield from self._add(rest)

    def _add(self, piece: bytes) -> Iterator[OverlongMessage]:
        # Only both ends of an overlong line are stored, however long it gets.
        if self._head is not None:
            self._tail = (self._tail + piece[-TAIL_BYTES:])[-TAIL_BYTES:]
            return
        self._size += len(piece)
        if piece:
            self._parts.append(piece)
        if self._size > self._max_bytes:
            whole = b"".join(self._parts)
            self._head, self._tail = whole[:HEAD_BYTES], whole[-TAIL_BYTES:]
            self._parts = []
            # Reported at once: the request that it answers need not wait for its end.
            yield OverlongMessage(head=self._head)

    def _finish(self) -> bytes | OverlongMessage:
        parts, head, tail = self._parts, self._head, self._tail
        self._parts, self._size, self._head, self._tail = [], 0, None, b""
        if head is not None:
            return OverlongMessage(head=head, tail=tail)
        # Most lines arrive in one piece, which need not be copied.
        return parts[0] if len(parts) == 1 else b"".join(parts)
