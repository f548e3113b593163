"""Concurrent calls, counted over all processes that share a store.

Each running call has a row in the store for each limit that applies to it. A process renews the
rows of its calls, so those of a killed process expire.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager

import anyio

from toolgate.base.ids import new_id
from toolgate.errors import StoreError
from toolgate.store import AccessRepository, FullLimit, store_deadline

log = logging.getLogger(__name__)

LEASE_S = 6.0
"""Seconds after which the calls of a killed process no longer count (chosen)."""

# Seconds between two renewals: one may fail before the lease ends.
_RENEW_S = 2.0
# Maximum seconds that a call waits for the store; then this process counts by itself.
_STORE_WAIT_S = 2.0
# Seconds until a failed store is retried.
_RETRY_S = 5.0


class SharedSlots:
    """The running calls of this process, as rows that other processes count too."""

    def __init__(self, store: AccessRepository, clock: Callable[[], float]) -> None:
        """Create the slots without a request to the store.

        Args:
            store: Holds the rows.
            clock: Monotonic time in seconds.
        """
        self._store = store
        self._clock = clock
        self._running: set[str] = set()
        self._unfreed: set[str] = set()
        self._renewed_at = clock()
        self._ask_again_at = 0.0

    @asynccontextmanager
    async def held(self, limits: Mapping[str, int]) -> AsyncGenerator[FullLimit | None]:
        """Hold a slot of each limit in the block; yields a limit that has no free slot.

        Without limits, in a store that only one machine uses, and while the store fails, nothing
        is held and no limit is full.

        Args:
            limits: Maximum concurrent calls, by the name of the limit.
        """
        if not limits or not self._store.shares_limits or self._clock() < self._ask_again_at:
            yield None
            return
        call_id, full = new_id(), None
        try:
            with store_deadline(_STORE_WAIT_S):
                full = await self._store.take_slots(limits, call_id=call_id, lease_s=LEASE_S)
        except BaseException as error:
            self._unfreed.add(call_id)  # the store may keep what nobody waited for
            if not isinstance(error, StoreError):
                raise
            self._ask_again_at = self._clock() + _RETRY_S
            log.warning("limits count by process", extra={"error": error.full_text})
        if call_id in self._unfreed:
            yield None
            return
        if full is not None:
            yield full
            return
        self._running.add(call_id)
        try:
            yield None
        finally:
            self._running.discard(call_id)
            self._unfreed.add(call_id)
            # Before the response is sent: the client's next call may go to another replica.
            with anyio.CancelScope(shield=True):
                await self._free()

    async def keep(self) -> None:
        """Renew the slots of running calls when due, and retry freeing slots."""
        if self._unfreed:
            await self._free()
        now = self._clock()
        if self._running and now - self._renewed_at >= _RENEW_S:
            self._renewed_at = now
            try:
                with store_deadline(_STORE_WAIT_S):
                    await self._store.renew_slots(self._running.copy(), lease_s=LEASE_S)
            except StoreError as error:
                log.warning("running calls cannot be counted", extra={"error": error.full_text})

    async def _free(self) -> None:
        call_ids = self._unfreed.copy()
        try:
            with store_deadline(_STORE_WAIT_S):
                await self._store.free_slots(call_ids)
        except StoreError:
            return  # tried again by `keep`
        self._unfreed -= call_ids
