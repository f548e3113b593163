"""The store is kept within its limits while the gateway runs."""

from collections.abc import Callable, Collection
from pathlib import Path

import anyio
import pytest
from anyio import create_task_group, fail_after

from tests.limits import HANG_S
from toolgate.audit import retention_of, run_housekeeping
from toolgate.errors import StoreError
from toolgate.settings import StoreSettings
from toolgate.store import AuditAnchor, AuditFilter, PrunedCounts, Retention
from toolgate.store.sqlite import SqliteStore
from toolgate.testing.contracts.store import sample_record


def test_limits_come_from_the_settings() -> None:
    settings = StoreSettings(
        audit_days=1.5, audit_max_mb=2, results_max_mb=3, usage_days=4, usage_max_mb=5
    )

    assert retention_of(settings) == Retention(
        audit_days=1.5,
        audit_max_bytes=2 * 2**20,
        results_max_bytes=3 * 2**20,
        usage_days=4,
        usage_max_bytes=5 * 2**20,
    )


class Watched(SqliteStore):
    """Tells when it was cleaned, and fails when told to."""

    turns = 0
    broken = False
    reached: anyio.Event
    until = 1

    async def prune(
        self,
        retention: Retention,
        *,
        now: str,
        configured: Collection[tuple[str, str]] = (),
        sign: Callable[[int, str], AuditAnchor] | None = None,
    ) -> PrunedCounts:
        self.turns += 1
        try:
            if self.broken:
                raise StoreError("The store failed: it is full.")
            return await super().prune(retention, now=now, configured=configured, sign=sign)
        finally:
            if self.turns == self.until:
                self.reached.set()


async def test_old_records_go_in_the_background(tmp_path: Path) -> None:
    store = Watched(tmp_path / "toolgate.db")
    store.reached = anyio.Event()
    await store.open()
    await store.audit.append([sample_record(), sample_record(1, at="2999-01-01T00:00:00.000Z")])

    with fail_after(HANG_S):
        async with create_task_group() as group:
            group.start_soon(
                lambda: run_housekeeping(store, Retention, first_after_s=0, every_s=0.01)
            )
            await store.reached.wait()
            group.cancel_scope.cancel()

    assert [record.at[:4] for record in await store.audit.select(AuditFilter())] == ["2999"]
    await store.close()


async def test_a_failure_is_logged_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Watched(tmp_path / "toolgate.db")
    store.reached, store.until, store.broken = anyio.Event(), 3, True

    with fail_after(HANG_S):
        async with create_task_group() as group:
            group.start_soon(
                lambda: run_housekeeping(store, Retention, first_after_s=0, every_s=0.01)
            )
            await store.reached.wait()
            group.cancel_scope.cancel()

    assert caplog.records[0].getMessage() == "clean-up failed"
    assert "it is full" in caplog.records[0].__dict__["reason"]
    await store.close()
