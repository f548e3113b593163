"""The store contract for SQL statements and versions of database schemas."""

from dataclasses import replace

import pytest

from toolgate.store import (
    PrunedCounts,
    Retention,
    Store,
    StoredStatement,
)
from toolgate.testing.contracts.store.fixtures import StoreFixtures
from toolgate.testing.contracts.store.samples import HOSTILE, NOW, SAMPLE_PROJECT, sample_schema


@pytest.mark.anyio
class DatabaseContract(StoreFixtures):
    """SQL statements and versions of database schemas."""

    async def test_statements_come_back_newest_first_for_whom_they_are(self, store: Store) -> None:
        """By project, caller and time; old ones are deleted."""
        first = StoredStatement(
            statement_id="1",
            at="2026-07-01T10:00:00.000Z",
            project_id=SAMPLE_PROJECT,
            caller_id="ann",
            conversation="t",
            connection="shop",
            dialect="sqlite",
            statement=f"SELECT '{HOSTILE}'",
            outcome="refused",
            reason="Because.",
        )
        second = replace(
            first, statement_id="2", at="2026-07-02T10:00:00.000Z", outcome="done", rows=3
        )
        other = replace(second, statement_id="3", caller_id="bob", elapsed_ms=1.5)
        for statement in (first, second, other, second):
            await store.statements.append(statement)

        assert await store.statements.select(SAMPLE_PROJECT) == [other, second, first]
        assert await store.statements.select(SAMPLE_PROJECT, caller_id="ann", limit=1) == [second]
        assert await store.statements.select(SAMPLE_PROJECT, since=second.at) == [other, second]
        assert await store.statements.select("other") == []
        elsewhere = replace(first, statement_id="4", connection="hr", outcome="failed")
        await store.statements.append(elsewhere)
        select = store.statements.select
        assert await select(SAMPLE_PROJECT, connection="hr") == [elsewhere]
        assert await select(SAMPLE_PROJECT, outcome="refused") == [first]
        page = await select(SAMPLE_PROJECT, limit=2)
        assert page == [other, second]
        last = (page[-1].at, page[-1].statement_id)
        assert await select(SAMPLE_PROJECT, before=last, limit=1) == [elsewhere]
        assert await select(SAMPLE_PROJECT, before=(elsewhere.at, "4")) == [first]

        pruned = await store.prune(Retention(statement_days=1), now="2026-07-03T00:00:00.000Z")
        assert pruned == PrunedCounts(statements=2)
        pruned = await store.prune(Retention(statement_max_bytes=0), now=NOW)
        assert pruned == PrunedCounts(statements=2)

    async def test_versions_of_a_schema_come_back_newest_first(self, store: Store) -> None:
        """The latest with its content, lists without."""
        for version in (sample_schema(1), sample_schema(2, connection=HOSTILE), sample_schema(2)):
            assert await store.schemas.add(version)

        assert await store.schemas.latest(SAMPLE_PROJECT, "shop") == sample_schema(2)
        assert await store.schemas.latest(SAMPLE_PROJECT, HOSTILE) == sample_schema(
            2, connection=HOSTILE
        )
        assert await store.schemas.latest("another", "shop") is None
        versions = await store.schemas.versions(SAMPLE_PROJECT, "shop", limit=10)
        assert versions == [sample_schema(2, content=b""), sample_schema(1, content=b"")]
        assert await store.schemas.versions(SAMPLE_PROJECT, "shop", limit=1) == versions[:1]

    async def test_a_version_of_a_schema_is_numbered_once(self, store: Store) -> None:
        """Of two processes that see a change, one is told that it was too late."""
        assert await store.schemas.add(sample_schema(1))
        assert not await store.schemas.add(sample_schema(1, digest="other"))

        assert await store.schemas.latest(SAMPLE_PROJECT, "shop") == sample_schema(1)

    async def test_a_version_of_a_schema_is_seen_again(self, store: Store) -> None:
        """The latest time stays, in whatever order they arrive."""
        await store.schemas.add(sample_schema(1))
        for day in ("03", "02"):
            at = f"2026-07-{day}T12:00:00.000Z"
            await store.schemas.mark_seen(SAMPLE_PROJECT, "shop", 1, at)

        schema = await store.schemas.latest(SAMPLE_PROJECT, "shop")
        assert schema == sample_schema(1, seen_at="2026-07-03T12:00:00.000Z")

    async def test_old_versions_of_schemas_go_but_never_a_last_one(self, store: Store) -> None:
        """Neither by age nor by size."""
        for version in (*map(sample_schema, (1, 20, 21, 22)), sample_schema(1, connection="old")):
            await store.schemas.add(version)

        pruned = await store.prune(Retention(schema_days=30), now="2026-08-19T12:00:00.000Z")
        assert pruned == PrunedCounts(schemas=1)
        pruned = await store.prune(Retention(schema_max_bytes=1), now=NOW)
        assert pruned == PrunedCounts(schemas=2)
        left = await store.schemas.versions(SAMPLE_PROJECT, "shop", limit=10)
        assert [version.number for version in left] == [22]
        assert await store.schemas.latest(SAMPLE_PROJECT, "old") is not None
