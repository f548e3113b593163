"""The store contract for the log of searches and of the tools used after them."""

from dataclasses import replace

import pytest

from toolgate.errors import StoreError
from toolgate.store import (
    PrunedCounts,
    Retention,
    Store,
    UsageEntry,
    UsageFilter,
)
from toolgate.testing.contracts.store.fixtures import StoreFixtures
from toolgate.testing.contracts.store.samples import (
    HOSTILE,
    SAMPLE_PROJECT,
    sample_search,
    sample_use,
)


@pytest.mark.anyio
class UsageContract(StoreFixtures):
    """The log of searches and of the tools used after them."""

    async def test_searches_come_back_newest_first_with_what_became_of_them(
        self, store: Store
    ) -> None:
        """Unchanged, with any text."""
        first = sample_search(1, query=HOSTILE, conversation=HOSTILE, weak=True)
        second = sample_search(2, vector=b"", model="", margin=None, shown=())
        uses = [sample_use(3, 1, tool=HOSTILE), sample_use(4, 1, outcome="wrong")]

        await store.usage.append([first, second], uses[:1])
        await store.usage.append([], uses[1:])

        searches = await store.usage.select(UsageFilter(project_id=SAMPLE_PROJECT))
        assert searches == [UsageEntry(search=second), UsageEntry(search=first, uses=tuple(uses))]

    async def test_the_usage_log_gives_the_searches_that_are_wanted(self, store: Store) -> None:
        """Always of one project; optionally of a caller, with uses, since a time."""
        searches = [sample_search(minute) for minute in range(4)]
        searches += [sample_search(4, caller_id="ann"), sample_search(5, project_id="other")]
        await store.usage.append(
            searches, [sample_use(10, 0), sample_use(11, 2), sample_use(12, 0)]
        )

        async def numbers(**filters: object) -> list[int]:
            logged = await store.usage.select(
                replace(UsageFilter(project_id=SAMPLE_PROJECT), **filters)
            )
            return [int(entry.search.search_id, 16) for entry in logged]

        assert await numbers() == [4, 3, 2, 1, 0]
        assert await numbers(limit=2) == [4, 3]
        assert await numbers(caller_id="ann") == [4]
        assert await numbers(since=searches[3].at) == [4, 3]
        assert await numbers(with_uses=True) == [2, 0]
        assert await numbers(with_uses=True, since=sample_use(12, 0).at) == [0]
        assert await numbers(project_id="nobody") == []

    async def test_a_use_waits_for_its_search(self, store: Store) -> None:
        """They are written alternately; duplicates are dropped."""
        await store.usage.append([], [sample_use(2, 1)])
        assert await store.usage.select(UsageFilter(project_id=SAMPLE_PROJECT)) == []

        for _ in range(2):
            await store.usage.append([sample_search(1)], [sample_use(2, 1)])

        searches = await store.usage.select(UsageFilter(project_id=SAMPLE_PROJECT, with_uses=True))
        assert searches == [UsageEntry(search=sample_search(1), uses=(sample_use(2, 1),))]

    async def test_a_batch_of_usage_is_written_whole_or_not_at_all(self, store: Store) -> None:
        """Otherwise a retry would write it twice."""
        with pytest.raises(StoreError):
            await store.usage.append(
                [sample_search(1), sample_search(2, margin="none")], [sample_use(3, 1)]
            )  # pyright: ignore[reportArgumentType]

        sizes = await store.sizes()
        assert (sizes["usage_searches"], sizes["usage_uses"]) == (0, 0)

    async def test_a_project_can_be_forgotten(self, store: Store) -> None:
        """Without affecting others."""
        await store.usage.append(
            [sample_search(1), sample_search(2, project_id="other")],
            [sample_use(3, 1), sample_use(4, 2, project_id="other")],
        )

        assert await store.usage.clear(SAMPLE_PROJECT) == 1
        assert await store.usage.clear(SAMPLE_PROJECT) == 0

        sizes = await store.sizes()
        assert (sizes["usage_searches"], sizes["usage_uses"]) == (1, 1)

    async def test_the_usage_log_stays_within_its_limits(self, store: Store) -> None:
        """In days and bytes, oldest first, uses together with their searches."""
        searches = [sample_search(minute) for minute in range(60)]
        searches.append(sample_search(90, at="2026-01-01T00:00:00.000Z"))
        uses = [sample_use(70 + minute, minute) for minute in range(20)]
        await store.usage.append(searches, uses)

        pruned = await store.prune(Retention(usage_days=30), now="2026-07-28T12:00:00.000Z")
        assert pruned == PrunedCounts(usage=1)

        pruned = await store.prune(
            Retention(usage_max_bytes=10_000), now="2026-07-28T12:00:00.000Z"
        )
        remaining = await store.usage.select(UsageFilter(project_id=SAMPLE_PROJECT))
        assert 5 <= len(remaining) <= 14
        assert remaining[0].search == searches[59]
        assert pruned.usage == 60 - len(remaining) + 20
