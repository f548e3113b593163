"""The store contract for backups and restores."""

from pathlib import Path

import pytest

from toolgate.errors import StoreError
from toolgate.store import (
    AuditFilter,
    Store,
    StoreMaintenance,
    make_store,
)
from toolgate.testing.contracts.store.fixtures import StoreFixtures
from toolgate.testing.contracts.store.samples import (
    SAMPLE_PROJECT,
    fill_store,
    sample_record,
    sample_server,
    store_contents,
)


@pytest.mark.anyio
class BackupContract(StoreFixtures):
    """Backups and restores."""

    async def test_a_backup_restores_everything(
        self, store: Store, other: Store, tmp_path: Path
    ) -> None:
        """Visible to current users of the store; newer data is gone."""
        assert isinstance(store, StoreMaintenance)
        await fill_store(store)
        before, key = await store_contents(store), await store.secret("state")
        await store.backup(tmp_path / "backup.db")
        await store.audit.append([sample_record(9)])
        await store.servers.save(sample_server("later"))
        await store.catalog.delete_snapshot(SAMPLE_PROJECT, "git")

        rows = await store.restore(tmp_path / "backup.db")

        assert rows["audit"] == 2
        assert await store_contents(other) == before
        assert await other.secret("state") == key

    async def test_a_backup_becomes_a_store_of_another_kind(
        self, store: Store, tmp_path: Path
    ) -> None:
        """From SQLite to PostgreSQL and back."""
        assert isinstance(store, StoreMaintenance)
        await fill_store(store)
        await store.backup(tmp_path / "backup.db")

        elsewhere = make_store(f"sqlite:///{tmp_path / 'elsewhere.db'}")
        assert isinstance(elsewhere, StoreMaintenance)
        await elsewhere.restore(tmp_path / "backup.db")
        assert await store_contents(elsewhere) == await store_contents(store)
        await elsewhere.audit.append([sample_record(7)])
        await elsewhere.backup(tmp_path / "back.db")
        await elsewhere.close()
        await store.restore(tmp_path / "back.db")

        assert (await store.audit.select(AuditFilter(limit=1))) == [sample_record(7)]

    @pytest.mark.parametrize(
        "content", [b"", b"no database at all", None], ids=["empty", "text", "none"]
    )
    async def test_what_is_no_backup_is_refused_and_changes_nothing(
        self, store: Store, tmp_path: Path, content: bytes | None
    ) -> None:
        """An invalid file must not empty the store."""
        assert isinstance(store, StoreMaintenance)
        await store.audit.append([sample_record()])
        if content is not None:
            (tmp_path / "backup").write_bytes(content)

        with pytest.raises(StoreError) as caught:
            await store.restore(tmp_path / "backup")

        assert str(tmp_path / "backup") in str(caught.value)
        assert await store.audit.select(AuditFilter()) == [sample_record()]
