"""Ends open event streams when their caller loses access."""

import asyncio
import contextlib
from collections.abc import Generator
from typing import Any
from weakref import WeakSet

from toolgate.errors import AccessError
from toolgate.security.access import Admission, PresentedCredentials
from toolgate.server.asgi.authentication import ANONYMOUS
from toolgate.types import Caller

_CHECK_EVERY_S = 30.0
"""Seconds between checks whether callers still have access, for tokens that expire; chosen."""


class OpenStreams:
    """Open streams by task, checked periodically and when access changes."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._streams: dict[asyncio.Task[Any], tuple[PresentedCredentials, str]] = {}
        """Credentials of each request, and the id of its caller."""
        self._revoked = WeakSet[asyncio.Task[Any]]()
        self._next_check: asyncio.Task[None] | asyncio.TimerHandle | None = None

    @contextlib.contextmanager
    def watched(self, credentials: PresentedCredentials, caller: Caller) -> Generator[None]:
        """Cancel the current task if its caller loses access."""
        task = asyncio.current_task()
        if caller.identity is ANONYMOUS or not self._admission.required or task is None:
            yield
            return
        self._streams[task] = (credentials, caller.caller_id)
        if self._next_check is None:
            loop = asyncio.get_running_loop()
            self._next_check = loop.call_later(_CHECK_EVERY_S, self.check_soon)
        try:
            yield
        finally:
            del self._streams[task]

    def check_soon(self) -> None:
        """Check all streams now, and periodically while there are any."""
        self.stop_checking()
        if self._streams:
            self._next_check = asyncio.ensure_future(self._check())

    def stop_checking(self) -> None:
        """Cancel the scheduled check."""
        if self._next_check is not None:
            self._next_check.cancel()
            self._next_check = None

    def is_revoked(self, task: asyncio.Task[Any]) -> bool:
        """Whether a task was cancelled because its caller lost access."""
        return task in self._revoked

    async def _check(self) -> None:
        for task, (credentials, caller_id) in list(self._streams.items()):
            try:
                caller = await self._admission.admit(credentials)
            except AccessError:
                caller = None
            if task in self._streams and (caller is None or caller.caller_id != caller_id):
                self._revoked.add(task)
                task.cancel()
        loop = asyncio.get_running_loop()
        is_needed = bool(self._streams)
        self._next_check = loop.call_later(_CHECK_EVERY_S, self.check_soon) if is_needed else None
