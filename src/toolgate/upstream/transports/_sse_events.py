"""Parses server-sent events from a stream of bytes, in linear time.

The format: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
"""

from collections.abc import Iterator
from dataclasses import dataclass

from toolgate.upstream.transports._message_lines import HEAD_BYTES, LineFramer, OverlongMessage

_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, kw_only=True)
class ServerEvent:
    """One event, possibly without data and only with an id or a retry time."""

    name: str = "message"
    """The type of the event."""

    data: bytes = b""
    """The data; only the beginning if it exceeds the limit."""

    is_overlong: bool = False
    """Whether the data exceeds the limit."""

    event_id: str | None = None
    """The id that this event sets; None if it sets none."""

    retry_ms: int | None = None
    """Milliseconds to wait before reconnecting, if the event sets them."""


class EventParser:
    """Parses one stream; a new stream needs a new parser."""

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._framer = LineFramer(max_bytes=max_bytes + len(b"data: "))
        self._after_return = False
        self._is_first_line = True
        self._clear()

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """Yield the events that this chunk completes, in order."""
        if self._after_return and chunk[:1] == b"\n":
            chunk = chunk[1:]  # the second half of a line end that was cut in two
            self._after_return = False
        if not chunk:
            return
        self._after_return = chunk[-1:] == b"\r"
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        for line in self._framer.feed(chunk):
            if isinstance(line, OverlongMessage):
                self._skip(line)
            elif line:
                self._read(line)
            elif event := self._finish():
                yield event

    def _clear(self) -> None:
        self._name = ""
        self._data: list[bytes] = []
        self._size = 0
        self._is_overlong = False
        self._event_id: str | None = None
        self._retry_ms: int | None = None

    def _read(self, line: bytes) -> None:
        if self._is_first_line:
            # A byte order mark may precede the first line (HTML standard, event streams).
            line = line.removeprefix(_MARK)
            self._is_first_line = False
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._add(value)
        elif field == b"event":
            self._name = value.decode(errors="replace")
        # The same standard: an id with a NUL is ignored, and so is a retry that is not a number.
        elif field == b"id" and b"\0" not in value:
            self._event_id = value.decode(errors="replace")
        elif field == b"retry" and value.isdigit() and len(value) < 10:
            self._retry_ms = int(value)

    def _add(self, value: bytes) -> None:
        self._size += len(value) + bool(self._data)
        if self._is_overlong:
            return
        if self._size > self._max_bytes:
            self._is_overlong = True
            # Enough to see which request it would have answered.
            self._data = [b"\n".join([*self._data, value])[:HEAD_BYTES]]
        else:
            self._data.append(value)

    def _skip(self, line: OverlongMessage) -> None:
        if line.tail is None and line.head.startswith(b"data:"):
            self._is_overlong = True
            self._data = [*self._data, line.head.removeprefix(b"data:").removeprefix(b" ")]
            self._data = [b"\n".join(self._data)[:HEAD_BYTES]]

    def _finish(self) -> ServerEvent | None:
        # A comment or an empty line, which servers send to keep the connection open.
        if not self._data and self._event_id is None and self._retry_ms is None:
            self._clear()
            return None
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        event = ServerEvent(
            name=self._name or "message",
            data=data,
            is_overlong=self._is_overlong,
            event_id=self._event_id,
            retry_ms=self._retry_ms,
        )
        self._clear()
        return event
