"""A client's request to an upstream server: its deadline, progress and questions."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from time import monotonic
from typing import Any

from toolgate.errors import CannotAskError
from toolgate.types import Json, Peer

ASKABLE = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
"""Requests that a server may send to a client, and the client capability that each requires."""

ASKABLE_CAPABILITIES = frozenset(ASKABLE.values())
"""Capabilities of clients that can be asked something."""

_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class Deadline:
    """The time limits of a call: without progress, and in total.

    Use it with `async with`; it raises `TimeoutError`. The time in which a person is asked does
    not count.
    """

    def __init__(self, *, idle_s: float, total_s: float) -> None:
        self.idle_s = idle_s
        self.total_s = max(total_s, idle_s)
        self.spent_s = 0.0
        """Seconds already spent on starting the server."""
        self._timeout: asyncio.Timeout | None = None
        self._ends = 0.0
        self._paused = 0

    async def __aenter__(self) -> "Deadline":
        started_at = asyncio.get_running_loop().time() - self.spent_s
        self.spent_s = 0.0
        self._ends = started_at + self.total_s
        self._timeout = asyncio.timeout_at(min(started_at + self.idle_s, self._ends))
        await self._timeout.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> bool | None:
        timeout, self._timeout = self._timeout, None
        assert timeout is not None
        return await timeout.__aexit__(*exc)

    def extend(self) -> None:
        """Extend the deadline, since the server reported progress."""
        if self._timeout is not None and not self._paused and not self._timeout.expired():
            current = asyncio.get_running_loop().time()
            self._timeout.reschedule(min(current + self.idle_s, self._ends))

    def pause(self) -> None:
        """Pause the deadline while somebody is being asked."""
        self._paused += 1
        if self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(None)

    def resume(self) -> None:
        """Resume the deadline after the answer."""
        self._paused -= 1
        self.extend()


class ClientCall:
    """The `CallSink` that receives what a wire gets for a request.

    `peer` is replaced when a client resumes a parked call with a new request.
    """

    def __init__(
        self, peer: Peer | None, deadline: Deadline, *, headers: Mapping[str, str] | None = None
    ) -> None:
        self.peer = peer
        self.headers = headers or {}
        """Headers of the client that are forwarded to the server."""
        self.deadline = deadline
        self.answer: Callable[[str, Json], Awaitable[Json]] | None = None
        """Set by the bridge if questions are not simply passed to the peer."""
        self.started = monotonic()

    @property
    def capabilities(self) -> Json:
        """The client's capabilities for being asked."""
        return self.peer.capabilities if self.peer is not None else {}

    def can_be_asked(self, method: str) -> bool:
        """Whether the client declared the capability that this question requires."""
        return ASKABLE.get(method) in self.capabilities

    async def progress(self, params: Json) -> None:
        """Extend the deadline and pass the progress on."""
        self.deadline.extend()
        if self.peer is not None and self.peer.wants_progress:
            await self.peer.progress(params)

    async def log(self, params: Json) -> None:
        """Pass a log message on; the peer drops what its client does not want."""
        if self.peer is not None:
            await self.peer.log(params)

    async def ask(self, method: str, params: Json) -> Json:
        """Ask the client in the form that its era requires, and return the answer."""
        if not self.can_be_asked(method):
            raise CannotAskError(
                f"The server asks the client ({method}), and this client cannot answer that.",
                allowed=f"It declared: {', '.join(sorted(self.capabilities)) or 'nothing'}.",
                hint="Use a client with this capability, or a tool that does not need it.",
            )
        assert self.peer is not None
        self.deadline.pause()
        try:
            if self.answer is not None:
                return await self.answer(method, params)
            return await self.peer.ask(method, params)
        finally:
            self.deadline.resume()


def severity(level: object) -> int:
    """Severity of a log level, 0 (`debug`) to 7 (`emergency`); an unknown one counts as `info`."""
    return _LEVELS.index(level) if level in _LEVELS else _LEVELS.index("info")


async def wait_for_any(*events: asyncio.Event) -> None:
    """Wait until one of several events is set."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for waiting in waits:
            waiting.cancel()
