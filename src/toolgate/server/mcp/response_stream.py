"""The response to one request: plain JSON, or an event stream if messages come before it."""

import asyncio
from collections.abc import Callable
from typing import Any

import anyio.lowlevel

from toolgate.base.json_text import dumps
from toolgate.server.asgi.parsing.messages import Receive, Send
from toolgate.types import Json

WATCH_AFTER_S = 0.05
"""Seconds after which a call is watched for a disconnecting client."""

STREAM_AFTER_S = 15.0
"""Seconds of silence after which a stream with keep-alives begins, for proxies in between."""

PIECE_BYTES = 2**18
"""Largest piece of a response in bytes that is passed to the socket at once."""

_JSON_HEADERS = (b"content-type", b"application/json")
_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


class ResponseStream:
    """Sends a response, and before it the messages of its request, in order."""

    def __init__(
        self, receive: Receive, send: Send, *, on_leave: Callable[[], object] | None = None
    ) -> None:
        """Create a stream that has sent nothing.

        Args:
            receive: Reports when the client disconnects (ASGI).
            send: Receives the response (ASGI).
            on_leave: Called when the client disconnects; None: the current task is cancelled
                instead.
        """
        self._receive = receive
        self._send = send
        self._on_leave = on_leave
        self._timer: asyncio.TimerHandle | None = None
        self._watch: asyncio.Task[None] | None = None
        self._has_left = False
        self._begun: asyncio.Future[None] | None = None
        """Done when the head of an event stream was sent; None: the response is not a stream."""

    def begin(self) -> None:
        """Watch for the client to disconnect, from now until `end`."""
        # Delayed, since most calls end before a task to watch them would have started.
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(WATCH_AFTER_S, self._start_watching, task)

    def has_left(self) -> bool:
        """Whether the client left, which cancelled the task; clears that cancellation."""
        if not self._has_left:
            return False
        task = asyncio.current_task()
        return task is None or task.uncancel() == 0

    def end(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
        if self._watch is not None:
            self._watch.cancel()

    async def notify(self, message: Json) -> None:
        """Send a message before the response, which is an event stream from then on."""
        await self._stream(b"event: message\r\ndata: " + dumps(message) + b"\r\n\r\n")

    async def finish(self, status: int, parts: tuple[bytes, ...]) -> None:
        """Send the response, in parts to avoid copying a large one."""
        if self._begun is not None:
            await self._begun
            await self._send_body((b"event: message\r\ndata: ", *parts, b"\r\n\r\n"))
            return
        length = (b"content-length", str(sum(map(len, parts))).encode())
        headers = [_JSON_HEADERS, length]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send_body(parts)

    async def _send_body(self, parts: tuple[bytes, ...]) -> None:
        """Send a large body piece by piece, so that other calls can run."""
        if sum(map(len, parts)) > PIECE_BYTES:
            for part in parts:
                for start in range(0, len(part), PIECE_BYTES):
                    piece = part[start : start + PIECE_BYTES]
                    await self._send(
                        {"type": "http.response.body", "body": piece, "more_body": True}
                    )
                    await anyio.lowlevel.checkpoint()  # a quick reader never makes us wait
            parts = ()
        await self._send({"type": "http.response.body", "body": b"".join(parts)})

    def _start_watching(self, task: asyncio.Task[Any]) -> None:
        self._timer = None
        self._watch = asyncio.get_running_loop().create_task(self._watch_for_disconnect(task))

    async def _watch_for_disconnect(self, task: asyncio.Task[Any]) -> None:
        gone = asyncio.ensure_future(_disconnected(self._receive))
        try:
            while not gone.done():
                await asyncio.wait({gone}, timeout=STREAM_AFTER_S)
                if not gone.done():
                    await self._stream(b": ping\r\n\r\n")
        finally:
            gone.cancel()
        if self._on_leave is not None:
            self._on_leave()
            return
        self._has_left = True
        task.cancel()

    async def _stream(self, event: bytes) -> None:
        if self._begun is None:
            self._begun = asyncio.get_running_loop().create_future()
            try:
                await self._send(
                    {"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS}
                )
            finally:
                self._begun.set_result(None)
        await self._begun
        await self._send({"type": "http.response.body", "body": event, "more_body": True})


def result_parts(request_id: bytes, *result: bytes) -> tuple[bytes, ...]:
    """Return the response to a request, from its id and its result as JSON."""
    return b'{"jsonrpc":"2.0","id":', request_id, b',"result":', *result, b"}"


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
