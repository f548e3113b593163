"""The contract of stores finds faults: each broken store fails in the test that names its fault."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from toolgate.errors import StoreError
from toolgate.store import (
    AuditFilter,
    PrunedCounts,
    Retention,
    StoredResult,
    StoredServer,
    StoredSnapshot,
    UsageEntry,
    UsageFilter,
)
from toolgate.store.engine.deadline import TransactionAttempt
from toolgate.store.sql.audit.records import SqlAudit
from toolgate.store.sql.catalog import SqlCatalog
from toolgate.store.sql.results import SqlResults
from toolgate.store.sql.servers import SqlServers
from toolgate.store.sql.usage import SqlUsage
from toolgate.store.sqlite import SqliteStore
from toolgate.testing.contracts.store import StoreContract
from toolgate.testing.contracts.store.samples import SAMPLE_PROJECT
from toolgate.types import AuditRecord


def store_with(topic: str, repository: Callable[[SqliteStore], object]) -> type[SqliteStore]:
    """A store of which one repository is another one."""

    class BrokenStore(SqliteStore):
        def __init__(self, path: Path) -> None:
            super().__init__(path)
            setattr(self, topic, repository(self))

    return BrokenStore


class MixesProjects(SqlCatalog):
    async def snapshots(self, project_id: str) -> list[StoredSnapshot]:
        return [*await super().snapshots(SAMPLE_PROJECT), *await super().snapshots("other")]


class ForgetsTheAlias(SqlServers):
    async def save(self, server: StoredServer) -> None:
        await super().save(replace(server, alias=None))


class SwallowsFailures(SqlServers):
    async def save(self, server: StoredServer) -> None:
        try:
            await super().save(server)
        except StoreError:
            return


class WritesOneByOne(SqlAudit):
    async def append(self, records: Sequence[AuditRecord]) -> None:
        for record in records:
            await super().append([record])


class OverwritesRecords(SqlAudit):
    async def append(self, records: Sequence[AuditRecord]) -> None:
        def forget(connection: Any) -> None:
            for record in records:
                connection.exec_driver_sql(
                    "DELETE FROM audit WHERE record_id = ?", (record.record_id,)
                )

        await self.database.write(forget)
        await super().append(records)


class IgnoresTheStatus(SqlAudit):
    async def select(self, query: AuditFilter) -> list[AuditRecord]:
        return await super().select(replace(query, status=None))


class CutsBytes(SqlResults):
    async def get(self, handle: str) -> StoredResult | None:
        result = await super().get(handle)
        return result and replace(result, body=result.body[:1_000_000])


class ForgetsSecrets(SqliteStore):
    async def secret(self, name: str) -> bytes:
        return name.encode().ljust(32, b"\0") if name == "handles" else id(self).to_bytes(32)


class PrunesTooMuch(SqliteStore):
    async def prune(self, retention: Retention, *, now: str, **options: Any) -> PrunedCounts:
        return await super().prune(retention, now=now)


class PrunesNothing(SqliteStore):
    async def prune(self, retention: Retention, *, now: str, **options: Any) -> PrunedCounts:
        return PrunedCounts()


class ForgetsNothing(SqlUsage):
    async def clear(self, project_id: str) -> int:
        return 1


class MixesUsage(SqlUsage):
    async def select(self, query: UsageFilter) -> list[UsageEntry]:
        return await super().select(replace(query, with_uses=False))


class BacksUpHalf(SqliteStore):
    async def restore(self, source: Path) -> dict[str, int]:
        rows = await super().restore(source)
        await self.catalog.delete_snapshot(SAMPLE_PROJECT, "git")
        return rows


class KeepsWhatNobodyWaitsFor(SqliteStore):
    def _transact(self, work: Any, attempt: TransactionAttempt | None, *, writes: bool) -> Any:
        del attempt
        return super()._transact(work, None, writes=writes)


Test = Callable[..., Any]
CONTRACT = StoreContract


@pytest.mark.parametrize(
    ("broken", "test", "more"),
    [
        (
            store_with("catalog", lambda store: MixesProjects(store, store.catalog.texts)),
            CONTRACT.test_listings_come_back_by_server_and_project,
            (),
        ),
        (
            store_with("servers", ForgetsTheAlias),
            CONTRACT.test_servers_come_back_as_they_were_saved_by_name,
            (),
        ),
        (
            store_with("servers", SwallowsFailures),
            CONTRACT.test_a_name_is_taken_once_per_project,
            (),
        ),
        (
            store_with("servers", SwallowsFailures),
            CONTRACT.test_a_server_of_an_unknown_project_is_refused,
            (),
        ),
        (
            store_with("audit", WritesOneByOne),
            CONTRACT.test_a_batch_that_cannot_be_written_leaves_nothing,
            (),
        ),
        (
            store_with("audit", OverwritesRecords),
            CONTRACT.test_a_record_that_is_there_is_left_alone,
            (),
        ),
        (
            store_with("audit", IgnoresTheStatus),
            CONTRACT.test_a_filter_gives_the_records_that_fit,
            ("status",),
        ),
        (store_with("results", CutsBytes), CONTRACT.test_results_come_back_by_handle, ()),
        (ForgetsSecrets, CONTRACT.test_a_secret_is_the_same_for_all_from_its_first_use, ("other",)),
        (PrunesTooMuch, CONTRACT.test_only_old_listings_of_servers_that_are_gone_go, ()),
        (PrunesNothing, CONTRACT.test_old_records_go_and_young_ones_stay, ()),
        (PrunesNothing, CONTRACT.test_expired_results_go_and_then_the_oldest, ()),
        (store_with("usage", ForgetsNothing), CONTRACT.test_a_project_can_be_forgotten, ()),
        (
            store_with("usage", MixesUsage),
            CONTRACT.test_the_usage_log_gives_the_searches_that_are_wanted,
            (),
        ),
        (PrunesNothing, CONTRACT.test_the_usage_log_stays_within_its_limits, ()),
        (KeepsWhatNobodyWaitsFor, CONTRACT.test_what_nobody_waits_for_any_more_is_not_kept, ()),
        (BacksUpHalf, CONTRACT.test_a_backup_restores_everything, ("other", "folder")),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_broken_store_fails_in_the_test_that_names_its_fault(
    broken: type[SqliteStore], test: Test, more: tuple[str, ...], tmp_path: Path
) -> None:
    stores = [broken(tmp_path / "toolgate.db") for _ in range(2)]
    for store in stores:
        await store.open()
    await stores[0].projects.add_references([SAMPLE_PROJECT])
    filled: dict[str, tuple[Any, ...]] = {
        "other": (stores[1],),
        "folder": (tmp_path,),
        "status": (AuditFilter(status="timed_out"), [4]),
    }
    arguments = [value for name in more for value in filled[name]]

    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await test(StoreContract(), stores[0], *arguments)

    for store in stores:
        await store.close()
