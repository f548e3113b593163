"""The store contract for large results that are read in pages."""

import pytest

from toolgate.store import (
    PrunedCounts,
    Retention,
    Store,
)
from toolgate.testing.contracts.store.fixtures import StoreFixtures
from toolgate.testing.contracts.store.samples import HOSTILE, NOW, sample_result

__all__ = ["ResultContract"]


@pytest.mark.anyio
class ResultContract(StoreFixtures):
    """Large results that are read in pages."""

    async def test_results_come_back_by_handle(self, store: Store) -> None:
        """Any bytes, even many; unknown handles return None, whatever a client sends."""
        large = sample_result("one", caller_id=HOSTILE, body=bytes(range(256)) * 40_000)
        await store.results.save(large)

        assert await store.results.get("one") == large
        assert await store.results.get("two") is None
        assert await store.results.get(HOSTILE) is None

    async def test_expired_results_go_and_then_the_oldest(self, store: Store) -> None:
        """Sizes count uncompressed."""
        hours = {"gone": "11:59", "first": "12:10", "second": "12:20", "third": "12:30"}
        for handle, hour in hours.items():
            expires_at = f"2026-07-28T{hour}:00.000Z"
            await store.results.save(sample_result(handle, body=b"x" * 100, expires_at=expires_at))

        pruned = await store.prune(Retention(results_max_bytes=200), now=NOW)

        assert pruned == PrunedCounts(results=2)
        handles = [handle for handle in hours if await store.results.get(handle) is not None]
        assert handles == ["second", "third"]
