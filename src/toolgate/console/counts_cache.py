"""Counts over the whole audit log, computed in the background and cached for pages."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextvars import Context
from dataclasses import dataclass
from time import monotonic
from typing import Generic, TypeVar, cast

from toolgate.errors import ToolgateError
from toolgate.store import Store

log = logging.getLogger(__name__)

T = TypeVar("T")

_FEW = 2_000
"""Records that are counted while the page waits."""
_GOOD_FOR_S = 60.0
"""Seconds after which counts are updated; the old ones are still shown meanwhile."""
_SHOWN_FOR_S = 180.0
"""Seconds after which counts no longer match the period on the page."""


@dataclass(frozen=True, kw_only=True)
class CachedCount(Generic[T]):
    """A result and when it was counted."""

    value: T
    """The result."""

    at_s: float
    """Value of `monotonic` when it was counted."""

    @property
    def age_s(self) -> float:
        """Seconds since it was counted."""
        return monotonic() - self.at_s


class CountsCache:
    """Cache of the last counts."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._entries: dict[str, CachedCount[object]] = {}
        self._counting: dict[str, asyncio.Task[None]] = {}

    async def get(
        self, name: str, since: str, count: Callable[[], Awaitable[T]]
    ) -> CachedCount[T] | None:
        """Return counts: current ones if there are few records, else up to a few minutes old.

        Args:
            name: What is counted.
            since: Start of the period; UTC, ISO 8601.
            count: Counts it.

        Returns:
            The counts; None while they are computed if no recent ones are cached.

        Raises:
            StoreError: The store does not respond.
        """
        if await self._store.audit.count(since, limit=_FEW + 1) <= _FEW:
            return CachedCount(value=await count(), at_s=monotonic())
        entry = cast("CachedCount[T] | None", self._entries.get(name))
        if name not in self._counting and (entry is None or entry.age_s > _GOOD_FOR_S):
            # An empty context: the deadline and other context of the request do not apply.
            self._counting[name] = asyncio.create_task(self._count(name, count), context=Context())
        return None if entry is None or entry.age_s > _SHOWN_FOR_S else entry

    async def _count(self, name: str, count: Callable[[], Awaitable[object]]) -> None:
        try:
            self._entries[name] = CachedCount(value=await count(), at_s=monotonic())
        except ToolgateError as error:
            log.warning("figures were not counted", extra={"figures": name, "reason": str(error)})
        finally:
            del self._counting[name]
