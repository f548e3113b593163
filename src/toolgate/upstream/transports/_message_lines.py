"""Splits a stream of bytes into messages, one per line, in linear time."""

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["HEAD_BYTES", "TAIL_BYTES", "LineFramer", "OverlongMessage"]

HEAD_BYTES = 4096
"""How much of the start of an overlong message is kept, to see whose it is."""

TAIL_BYTES = 512
"""How much of its end."""


@dataclass(frozen=True, kw_only=True)
class OverlongMessage:
    """A message over the limit: told once when the limit is passed, once more at its end."""

    head: bytes
    """Its first bytes, `HEAD_BYTES` at most."""

    tail: bytes | None = None
    """Its last bytes, `TAIL_BYTES` at most; None while it is still coming."""


class LineFramer:
    """Cuts a stream into lines without their ends; skips what is longer than the limit."""

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._head: bytes | None = None  # of the overlong line that is being skipped
        self._tail = b""

    def feed(self, chunk: bytes) -> Iterator[bytes | OverlongMessage]:
        """The lines that this chunk completes, in order."""
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            yield from self._add(piece)
            yield self._finish()
        yield from self._add(rest)

    def _add(self, piece: bytes) -> Iterator[OverlongMessage]:
        # Of a line that is too long, only both ends are kept, however long it gets.
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
            # Told at once: the request that it answers need not wait for its end.
            yield OverlongMessage(head=self._head)

    def _finish(self) -> bytes | OverlongMessage:
        parts, head, tail = self._parts, self._head, self._tail
        self._parts, self._size, self._head, self._tail = [], 0, None, b""
        if head is not None:
            return OverlongMessage(head=head, tail=tail)
        # Most lines come in a single piece, which need not be copied.
        return parts[0] if len(parts) == 1 else b"".join(parts)
