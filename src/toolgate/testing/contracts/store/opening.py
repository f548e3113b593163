"""The store contract for opening, and for use by several processes."""

import sys
from collections.abc import Callable

import anyio
import pytest
from anyio import create_task_group

from toolgate.base.ids import new_id
from toolgate.store import (
    AuditFilter,
    Store,
    StoreMaintenance,
)
from toolgate.testing.contracts._limits import HANG_S
from toolgate.testing.contracts.store.fixtures import StoreFixtures
from toolgate.testing.contracts.store.samples import WRITER, sample_record


@pytest.mark.anyio
class OpeningContract(StoreFixtures):
    """Opening a store, using it from several processes, and reopening it."""

    async def test_it_satisfies_the_protocols(self, store: Store) -> None:
        """`plugins.make` rejects others."""
        assert isinstance(store, Store)
        assert isinstance(store, StoreMaintenance)

    async def test_a_new_store_is_empty(self, store: Store) -> None:
        """Only the default project, and the reference to the project of the samples."""
        sizes = await store.sizes()

        assert sizes.pop("total") > 0
        assert sizes.pop("projects") == 2
        assert set(sizes.values()) == {0}

    async def test_what_was_kept_is_there_after_opening_again(
        self, store: Store, make: Callable[[], Store]
    ) -> None:
        """Closing is idempotent."""
        await store.audit.append([sample_record()])
        await store.close()
        await store.close()

        again = make()
        await again.open()
        assert await again.audit.select(AuditFilter()) == [sample_record()]
        await again.close()

    async def test_several_may_open_a_new_place_at_once(self, make: Callable[[], Store]) -> None:
        """Replicas are started together."""
        stores = [make() for _ in range(4)]

        async with create_task_group() as group:
            for store in stores:
                group.start_soon(store.open)

        for store in stores:
            assert (await store.sizes())["projects"] == 1
            await store.close()

    async def test_two_processes_write_and_read_one_store_at_once(
        self, store: Store, store_url: str
    ) -> None:
        """Nothing is lost and no process fails."""
        async with (
            await anyio.open_process([sys.executable, "-c", WRITER, store_url]) as writer,
            create_task_group() as group,
        ):
            for part in range(20):
                records = [sample_record(part, record_id=new_id()) for _ in range(10)]
                group.start_soon(store.audit.append, records)
                group.start_soon(store.audit.select, AuditFilter())
            with anyio.fail_after(HANG_S):
                assert await writer.wait() == 0

        assert (await store.sizes())["audit"] == 400

    async def test_a_cancelled_write_happened_or_not(self, store: Store) -> None:
        """A disconnected client leaves nothing half done, and the store remains usable."""
        records = [sample_record(minute) for minute in range(200)]

        async with create_task_group() as group:
            group.start_soon(store.audit.append, records)
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()

        assert (await store.sizes())["audit"] in {0, 200}
        await store.audit.append(records)
        assert (await store.sizes())["audit"] == 200

    async def test_a_store_exists_once_it_was_opened(self, make: Callable[[], Store]) -> None:
        """The check creates nothing."""
        store = make()
        assert isinstance(store, StoreMaintenance)
        assert not await store.exists()
        assert not await store.exists()

        await store.open()

        assert await store.exists()
        await store.close()

    async def test_a_sound_store_has_no_problems_and_needs_no_upgrade(self, store: Store) -> None:
        """The revision is the same before and after."""
        assert isinstance(store, StoreMaintenance)
        checkup = await store.check()
        upgrade = await store.upgrade()

        assert checkup.problems == ()
        assert upgrade.before == upgrade.after == checkup.schema
        assert upgrade.copy is None
