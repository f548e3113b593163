"""Standard input and output as lines of bytes, whatever they are connected to.

Threads read and write: an event loop can wait for pipes, but not for files, terminals or handles
on Windows. Both take linear time in the number of bytes, however long a line is.
"""

import asyncio
import contextlib
import os
import queue
import sys
import threading
from collections.abc import AsyncIterator, Generator, Iterator

import anyio

_CHUNK = 256 * 2**10
"""Bytes read at a time; chosen: four times the buffer of a pipe."""
_LINES_AHEAD = 16
"""Messages read ahead of their responses; chosen: bounds memory."""
_WAITING_BYTES = 4 * 2**20
"""Largest number of bytes queued for a slow reader; chosen: bounds memory."""


@contextlib.contextmanager
def claim_standard_streams() -> Generator[tuple[int, int]]:
    """Yield descriptors to the client; meanwhile other output goes to standard error.

    Child processes that inherit the standard streams read an empty input and cannot write to the
    client.
    """
    sys.stdout.flush()
    reading, writing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        yield reading, writing
    finally:
        sys.stdout.flush()
        os.dup2(reading, 0)
        os.dup2(writing, 1)
        os.close(writing)
        # The reading end stays open, because a thread may still be blocked on it.


class LineReader:
    """Yields lines from a descriptor as they arrive, without line ends and empty lines."""

    def __init__(self, descriptor: int, *, max_bytes: int) -> None:
        self._descriptor = descriptor
        self._max_bytes = max_bytes
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = threading.Semaphore(_LINES_AHEAD)

    async def __aiter__(self) -> AsyncIterator[bytes | None]:
        """Yield each line; None for one that is too long."""
        threading.Thread(target=self._work, name="stdin", daemon=True).start()
        while (line := await self._lines.get()) is not None:
            self._room.release()
            yield line or None

    def _work(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is gone: nobody reads any more
            for line in _split(_chunks(self._descriptor), self._max_bytes):
                self._room.acquire()
                self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
            self._loop.call_soon_threadsafe(self._lines.put_nowait, None)


class LineWriter:
    """Writes lines to a descriptor in the order of the calls."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._waiting = 0
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._thread = threading.Thread(target=self._work, name="stdout", daemon=True)
        self._thread.start()
        self.gone = asyncio.Event()
        """Event that is set when the client no longer reads; later lines are discarded."""

    async def write(self, line: bytes) -> None:
        """Write a line, which must not contain a line break; wait while the client is slow."""
        while not self._has_room.is_set() and not self.gone.is_set():
            await self._has_room.wait()
        if self.gone.is_set():
            return
        self._waiting += len(line)
        if self._waiting > _WAITING_BYTES:
            self._has_room.clear()
        self._lines.put(line)

    async def close(self, *, within_s: float = 2.0) -> None:
        """Wait until everything is written, for at most `within_s` seconds."""
        self._lines.put(None)
        with anyio.move_on_after(within_s, shield=True):
            await anyio.to_thread.run_sync(self._thread.join, within_s, abandon_on_cancel=True)

    def _work(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                _write_all(self._descriptor, line + b"\n")
            except OSError:
                self._tell(self.gone.set)
                self._tell(self._has_room.set)
                return
            self._tell(self._written, len(line))

    def _tell(self, *call: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is gone
            self._loop.call_soon_threadsafe(*call)  # pyright: ignore[reportArgumentType]

    def _written(self, size: int) -> None:
        self._waiting -= size
        if self._waiting <= _WAITING_BYTES:
            self._has_room.set()


def _chunks(descriptor: int) -> Iterator[bytes]:
    with contextlib.suppress(OSError):
        while chunk := os.read(descriptor, _CHUNK):
            yield chunk


def _split(chunks: Iterator[bytes], max_bytes: int) -> Iterator[bytes]:
    """Yield lines of a stream; an empty one stands for a line over `max_bytes`."""
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            parts.append(chunk[start:end])
            size += end - start
            if size > max_bytes:
                yield b""
            elif line := b"".join(parts).strip():
                yield line
            parts, size, start = [], 0, end + 1
        size += len(chunk) - start
        if size <= max_bytes:
            parts.append(chunk[start:])
        else:
            parts.clear()
    if size <= max_bytes and (line := b"".join(parts).strip()):
        yield line


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest[: 2**20]) :]
