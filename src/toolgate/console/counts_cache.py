"""Counts over the whole audit, computed in the background and cached for pages."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextvars import Context
from dataclasses import dataclass
from time import monotonic
from typing import Generic, TypeVar, cast

from toolgate.errors import ToolgateError
from toolgate.store import Store

__all__ = ["CachedCount", "CountsCache"]

log = logging.getLogger(__name__)

T = TypeVar("T")

_FEW = 2_000
"""Records that are counted while somebody waits for the page."""
_GOOD_FOR_S = 60.0
"""Seconds after which figures are counted anew, while the old ones are still shown."""
_SHOWN_FOR_S = 180.0
"""Seconds after which they would be about another time than a page says."""


@dataclass(frozen=True, kw_only=True)
class CachedCount(Generic[T]):
    """Figures, and when they were counted."""

    value: T
    """They."""

    at_s: float
    """Reading of `monotonic` then."""

    @property
    def age_s(self) -> float:
        """Seconds since then."""
        return monotonic() - self.at_s


class CountsCache:
    """What was counted last."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._entries: dict[str, CachedCount[object]] = {}
        self._counting: dict[str, asyncio.Task[None]] = {}

    async def get(
        self, name: str, since: str, count: Callable[[], Awaitable[T]]
    ) -> CachedCount[T] | None:
        """The figures: fresh where there are few records, else some of a few minutes ago at most.

        Args:
            name: What is counted.
            since: From when on; UTC, ISO 8601.
            count: Counts it.

        Gives:
            None while it is counted, where nobody has asked for it lately.

        Raises:
            StoreError: The store does not answer.
        """
        if await self._store.audit.count(since, limit=_FEW + 1) <= _FEW:
            return CachedCount(value=await count(), at_s=monotonic())
        entry = cast("CachedCount[T] | None", self._entries.get(name))
        if name not in self._counting and (entry is None or entry.age_s > _GOOD_FOR_S):
            # Not within the patience of the page, nor whatever else belongs to its request.
            self._counting[name] = asyncio.create_task(self._count(name, count), context=Context())
        return None if entry is None or entry.age_s > _SHOWN_FOR_S else entry

    async def _count(self, name: str, count: Callable[[], Awaitable[object]]) -> None:
        try:
            self._entries[name] = CachedCount(value=await count(), at_s=monotonic())
        except ToolgateError as error:
            log.warning("figures were not counted", extra={"figures": name, "reason": str(error)})
        finally:
            del self._counting[name]
