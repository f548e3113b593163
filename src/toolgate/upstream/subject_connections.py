"""Connections to one server, one for each subject whose credential they use."""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Generic, Protocol, TypeVar

IDLE_S = 900.0
"""Seconds a connection stays open after its last call."""

MOST = 256
"""Largest number of connections to one server; the longest idle one is closed first."""


class SubjectConnection(Protocol):
    """A connection: an `UpstreamServer`."""

    async def run(self) -> None:
        """Keep the connection up until cancelled."""
        ...


MemberT = TypeVar("MemberT", bound=SubjectConnection)


class _PooledConnection(Generic[MemberT]):
    def __init__(self, member: MemberT) -> None:
        self.member = member
        self.task: asyncio.Task[None] = asyncio.create_task(member.run(), name="toolgate-member")
        self.used_at = monotonic()


class SubjectConnections(Generic[MemberT]):
    """The connections by subject, opened on demand."""

    def __init__(self, make: Callable[[str], MemberT]) -> None:
        self._make = make
        self._entries: dict[str, _PooledConnection[MemberT]] = {}
        self._tidying: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._entries)

    def acquire(self, subject: str) -> MemberT:
        """Return the connection of a subject."""
        entry = self._entries.pop(subject, None)
        # A connection that has ended for good, such as one whose login was refused.
        if entry is None or entry.task.done():
            entry = _PooledConnection(self._make(subject))
        self._entries[subject] = entry  # the last in the order
        entry.used_at = monotonic()
        # The longest idle one: they are in the order of their use.
        while len(self._entries) > MOST:
            self.drop(next(iter(self._entries)))
        if self._tidying is None:
            loop = asyncio.get_running_loop()
            self._tidying = loop.call_later(IDLE_S, self._tidy)
        return entry.member

    @property
    def subjects(self) -> list[str]:
        """The subjects that have a connection."""
        return list(self._entries)

    def drop(self, *subjects: str) -> None:
        """Close connections of subjects, whose credentials may no longer be valid."""
        for subject in subjects:
            entry = self._entries.pop(subject, None)
            if entry is not None:
                entry.task.cancel()
                self._ending.add(entry.task)
                entry.task.add_done_callback(self._ending.discard)

    def _tidy(self) -> None:
        self._tidying = None
        oldest = monotonic() - IDLE_S
        self.drop(*[name for name, entry in self._entries.items() if entry.used_at <= oldest])
        if self._entries:
            loop = asyncio.get_running_loop()
            self._tidying = loop.call_later(IDLE_S, self._tidy)

    async def aclose(self) -> None:
        """Close all connections."""
        if self._tidying is not None:
            self._tidying.cancel()
        self.drop(*self.subjects)
        if self._ending:
            await asyncio.wait(set(self._ending))
