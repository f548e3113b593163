"""Messages between the supervisor and a worker: lines of JSON over a pair of sockets."""

import asyncio
import contextlib
import json
import socket

from toolgate.types import Json, json_object

_MAX_LINE_BYTES = 2**26
"""Maximum length of a line (chosen: metrics of a gateway with 200 servers have about 2**18
bytes)."""


class WorkerChannel:
    """One end of the socket pair."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    def read_first(self) -> Json:
        """Return the first message, before there is an event loop.

        Raises:
            EOFError: The other end is closed.
        """
        with self._socket.makefile("rb", buffering=0) as file:
            line = file.readline()
        if not line:
            raise EOFError("The supervisor has ended.")
        return json_object(json.loads(line))

    async def open(self) -> None:
        """Make the channel usable in this event loop."""
        self._reader, self._writer = await asyncio.open_connection(
            sock=self._socket, limit=_MAX_LINE_BYTES
        )

    async def send(self, kind: str, **fields: object) -> None:
        """Send a message; does nothing once the other end is closed."""
        assert self._writer is not None
        with contextlib.suppress(OSError):
            self._writer.write(json.dumps({"kind": kind, **fields}).encode() + b"\n")
            await self._writer.drain()

    async def receive(self) -> Json | None:
        """Return the next message; None once the other end is closed."""
        assert self._reader is not None
        try:
            line = await self._reader.readline()
        except OSError:
            return None
        return json_object(json.loads(line)) if line.endswith(b"\n") else None

    def close(self) -> None:
        """Close this end."""
        if self._writer is not None:
            self._writer.close()
        else:
            self._socket.close()
