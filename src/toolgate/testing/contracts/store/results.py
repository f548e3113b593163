"""The store contract for large results that are read in pages."""

import pytest

from toolgate.store import (
    PrunedCounts,
    Retention,
    Store,
)
from toolgate.testing.contracts.store.fixtures import StoreFixtures
from toolgate.testing.contracts.store.samples import HOSTILE, NOW, sample_result


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

    async def test_results_are_listed_by_the_beginning_of_their_handle(self, store: Store) -> None:
        """Without their text; of one caller or of all, and none that has expired."""
        later = "2026-07-28T14:00:00.000Z"
        await store.results.save(sample_result("value-1", body=b"12345"))
        await store.results.save(sample_result(f"value-{HOSTILE}", expires_at=later))
        await store.results.save(sample_result("value-2", caller_id=HOSTILE))
        await store.results.save(sample_result("value_3"))
        await store.results.save(sample_result("value-4", expires_at=NOW))

        everybody = await store.results.select(prefix="value-", caller_id=None, now=NOW, limit=9)
        assert [one.handle for one in everybody] == [f"value-{HOSTILE}", "value-1", "value-2"]
        assert everybody[1].size_bytes == 5
        few = await store.results.select(prefix="value-", caller_id=HOSTILE, now=NOW, limit=9)
        assert [one.handle for one in few] == ["value-2"]
        await store.results.remove(f"value-{HOSTILE}")
        await store.results.remove("value-9")
        rest = await store.results.select(prefix="value-", caller_id=None, now=NOW, limit=1)
        assert [one.handle for one in rest] == ["value-1"]

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
