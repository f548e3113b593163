"""The store contract for audit records: written, filtered, counted and removed."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from toolgate.base.ids import new_id
from toolgate.errors import StoreError
from toolgate.store import (
    DURATION_BOUNDS_MS,
    AuditFilter,
    AuditWriterRow,
    PrunedCounts,
    Retention,
    Store,
)
from toolgate.testing.contracts.store.fixtures import StoreFixtures
from toolgate.testing.contracts.store.samples import HOSTILE, NOW, audit_records, sample_record
from toolgate.types import AuditRecord


@pytest.mark.anyio
class AuditContract(StoreFixtures):
    """Audit records: written, filtered, counted and deleted."""

    @given(record=audit_records)
    @settings(
        max_examples=40,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    async def test_any_audit_record_comes_back_as_it_was(
        self, store: Store, record: AuditRecord
    ) -> None:
        """A record that cannot be stored would be lost, or block all others."""
        await store.audit.append([record])

        records = await store.audit.select(AuditFilter(project_id=record.project_id, limit=10_000))

        assert record in records

    async def test_calls_are_counted_by_period_and_duration(self, store: Store) -> None:
        """The data of charts: calls, failures, searches, tokens and bytes."""
        records = [
            sample_record(0, action="call", server="git", duration_ms=3.0, request_bytes=10),
            sample_record(0, action="call", server="git", duration_ms=4.0, status="tool_error"),
            sample_record(1, action="call", server="time", duration_ms=90_000.0, response_bytes=7),
            sample_record(1, action="discover", detail={"tokens": 120}),
            sample_record(1, action="token_create"),
        ]
        await store.audit.append([replace(record, record_id=new_id()) for record in records])
        since = records[0].at

        counts = await store.audit.call_counts(since)

        seen = [(c.duration_class, c.calls, c.errors, c.searches, c.search_tokens) for c in counts]
        slowest = len(DURATION_BOUNDS_MS)
        assert seen == [(2, 2, 1, 0, 0), (0, 0, 0, 1, 120), (slowest, 1, 0, 0, 0)]
        assert [count.period for count in counts] == [records[0].at[:16], *[records[2].at[:16]] * 2]
        assert sum(count.call_bytes for count in counts) == 17
        of_day = await store.audit.call_counts(since, period_chars=10, server="git")
        assert [(count.period, count.calls) for count in of_day] == [(since[:10], 2)]

    async def test_records_are_found_by_words_and_by_conversation(self, store: Store) -> None:
        """Words match anywhere in a record; wildcards of the database are literal."""
        records = [
            sample_record(0, target="git:log_100%", conversation="a"),
            sample_record(1, query="Read the FILE", conversation="b"),
            sample_record(2, detail={"token": "anna"}, conversation="b"),
        ]
        await store.audit.append(records)

        async def ids(**criteria: str) -> list[str]:
            rows = await store.audit.select(AuditFilter(oldest_first=True, **criteria))  # pyright: ignore[reportArgumentType]
            return [row.record_id for row in rows]

        first, second, third = (record.record_id for record in records)
        assert await ids(text="file read") == [second]
        assert await ids(text="LOG_100%") == [first]
        assert await ids(text="log%100") == []
        assert await ids(text="anna") == [third]
        assert await ids(conversation="b") == [second, third]

    async def test_odd_details_do_not_cost_the_record(self, store: Store) -> None:
        """Values outside JSON are stored as text, endless nesting is dropped."""
        endless: dict[str, object] = {}
        endless["again"] = endless
        deep: dict[str, object] = {}
        for _ in range(100_000):
            deep = {"in": deep}
        details = [{"path": Path("a")}, endless, deep, {"size": 10**400}]

        await store.audit.append(
            [sample_record(minute, detail=detail) for minute, detail in enumerate(details)]
        )

        records = await store.audit.select(AuditFilter())
        assert [record.record_id for record in records] == [
            sample_record(minute).record_id for minute in (3, 2, 1, 0)
        ]
        assert records[3].detail == {"path": "a"}

    @pytest.mark.parametrize("oldest_first", [False, True], ids=["newest", "oldest"])
    async def test_audit_records_come_in_order_and_by_page(
        self, store: Store, *, oldest_first: bool
    ) -> None:
        """Regardless of the order in which they were written."""
        records = [sample_record(minute // 3, record_id=new_id()) for minute in range(50)]
        await store.audit.append(records[25:])
        await store.audit.append(records[:25])

        first = await store.audit.select(AuditFilter(oldest_first=oldest_first, limit=30))
        last = (first[-1].at, first[-1].record_id)
        rest = await store.audit.select(AuditFilter(oldest_first=oldest_first, after=last))

        assert first + rest == (records if oldest_first else records[::-1])

    async def test_a_record_that_is_there_is_left_alone(self, store: Store) -> None:
        """A batch is written again if its result is unknown."""
        await store.audit.append([sample_record(1)])
        await store.audit.append([sample_record(1, status="other"), sample_record(2)])
        await store.audit.append([])

        assert await store.audit.select(AuditFilter()) == [sample_record(2), sample_record(1)]

    @pytest.mark.parametrize(
        ("filters", "minutes"),
        [
            (AuditFilter(), [4, 3, 2, 1, 0]),
            (AuditFilter(project_id="other"), [1]),
            (AuditFilter(action="discover"), [2]),
            (AuditFilter(server="time"), [3]),
            (AuditFilter(status="timed_out"), [4]),
            (AuditFilter(since="2026-07-28T00:03:00.000Z"), [4, 3]),
            (AuditFilter(phase="intent"), [0]),
            (AuditFilter(limit=2), [4, 3]),
            (AuditFilter(server="git", since="2026-07-28T00:01:00.000Z", limit=2), [4, 2]),
            (AuditFilter(server=HOSTILE), []),
        ],
        ids=str,
    )
    async def test_a_filter_gives_the_records_that_fit(
        self, store: Store, filters: AuditFilter, minutes: list[int]
    ) -> None:
        """Every field narrows the result."""
        await store.audit.append(
            [
                sample_record(0, phase="intent"),
                sample_record(1, project_id="other"),
                sample_record(2, action="discover"),
                sample_record(3, server="time"),
                sample_record(4, status="timed_out"),
            ]
        )

        records = await store.audit.select(filters)

        assert [int(record.record_id, 16) for record in records] == minutes

    async def test_intents_without_an_outcome_are_found(self, store: Store) -> None:
        """They remain after a kill; earlier ones are not searched."""
        intents = [sample_record(minute, phase="intent") for minute in range(4)]
        outcome = sample_record(9, parent_id=intents[2].record_id)
        await store.audit.append([*intents, outcome])

        found = await store.audit.open_intents(intents[1].at)

        assert sorted(found, key=lambda record: record.at) == [intents[1], intents[3]]

    async def test_a_process_is_renewed_and_removed(self, store: Store) -> None:
        """Its start time stays."""
        first = AuditWriterRow(writer_id="w1", started_at=NOW, seen_at=NOW)
        later = AuditWriterRow(writer_id="w1", started_at=NOW, seen_at="2031-01-01T00:00:00.000Z")
        await store.audit.save_writer(first)
        await store.audit.save_writer(later)
        assert await store.audit.writers() == [later]

        await store.audit.remove_writer("w1")
        await store.audit.remove_writer("w1")
        assert await store.audit.writers() == []

    async def test_a_batch_that_cannot_be_written_leaves_nothing(self, store: Store) -> None:
        """The store remains usable."""
        broken = sample_record(2, action=None)

        with pytest.raises(StoreError) as caught:
            await store.audit.append([sample_record(1), broken, sample_record(3)])

        assert "action" in caught.value.full_text
        assert await store.audit.select(AuditFilter()) == []
        await store.audit.append([sample_record(1)])
        assert await store.audit.select(AuditFilter()) == [sample_record(1)]

    async def test_old_records_go_and_young_ones_stay(self, store: Store) -> None:
        """More than one portion, with the exact count."""
        old = [sample_record(minute % 1440, record_id=new_id()) for minute in range(2500)]
        young = sample_record(0, at="2026-08-01T00:00:00.000Z")
        await store.audit.append([*old, young])

        pruned = await store.prune(Retention(audit_days=2), now="2026-08-01T12:00:00.000Z")

        assert pruned == PrunedCounts(audit_records=2500)
        assert await store.audit.select(AuditFilter()) == [young]

    async def test_records_are_counted_from_a_moment_on_up_to_so_many(self, store: Store) -> None:
        """It shows in advance whether counting everything would take long."""
        await store.audit.append([sample_record(minute) for minute in range(9)])
        first = sample_record(4).at
        assert await store.audit.count(first, limit=100) == 5
        assert await store.audit.count(first, limit=3) == 3
        assert await store.audit.count("9999", limit=3) == 0

    async def test_the_oldest_records_go_when_there_are_too_many_bytes(self, store: Store) -> None:
        """The newest records that fit remain."""
        records = [sample_record(minute, query="x" * 1000) for minute in range(100)]
        await store.audit.append(records)

        pruned = await store.prune(Retention(audit_max_bytes=50_000), now=NOW)

        left = await store.audit.select(AuditFilter())
        assert left == records[: -len(left) - 1 : -1]
        assert 30 < len(left) < 50
        assert pruned == PrunedCounts(audit_records=100 - len(left))
