"""The store contract for listings of servers, and the definitions in them."""

from dataclasses import replace

import pytest

from toolgate.store import (
    PrunedCounts,
    Retention,
    Store,
    ToolVersion,
)
from toolgate.testing.contracts.store.fixtures import StoreFixtures
from toolgate.testing.contracts.store.samples import (
    HOSTILE,
    NOW,
    SAMPLE_PROJECT,
    sample_fingerprint,
    sample_server,
    sample_snapshot,
)


@pytest.mark.anyio
class CatalogContract(StoreFixtures):
    """Listings of servers, and the definitions in them."""

    async def test_listings_come_back_by_server_and_project(self, store: Store) -> None:
        """The bytes are unchanged."""
        await store.projects.add_references(["other"])
        listings = [
            sample_snapshot("git", listing=bytes(range(256)) * 5000),
            sample_snapshot("time"),
        ]
        for listing in (*listings, sample_snapshot("git", project_id="other")):
            await store.catalog.save_snapshot(listing)

        assert await store.catalog.snapshots(SAMPLE_PROJECT) == listings

        await store.catalog.delete_snapshot(SAMPLE_PROJECT, "git")
        assert await store.catalog.snapshots(SAMPLE_PROJECT) == [sample_snapshot("time")]
        assert len(await store.catalog.snapshots("other")) == 1

    async def test_a_listing_is_written_again_only_when_its_digest_changed(
        self, store: Store
    ) -> None:
        """Servers are listed often and rarely change."""
        later = "2026-07-28T12:30:00.000Z"
        await store.catalog.save_snapshot(sample_snapshot("git"))

        await store.catalog.save_snapshot(sample_snapshot("git", listed_at=later))
        assert await store.catalog.snapshots(SAMPLE_PROJECT) == [sample_snapshot("git")]

        changed = sample_snapshot("git", listed_at=later, listing=b"{}", digest="two")
        await store.catalog.save_snapshot(changed)
        assert await store.catalog.snapshots(SAMPLE_PROJECT) == [changed]

    async def test_a_definition_that_is_replaced_is_kept_as_a_version(self, store: Store) -> None:
        """Only if it changed; the newest 20, for the configured time."""
        later = "2026-08-%02dT12:00:00.000Z"
        await store.catalog.save_fingerprints(
            [sample_fingerprint("log"), sample_fingerprint(HOSTILE)], changed={"log"}
        )
        await store.catalog.save_fingerprints(
            [sample_fingerprint("log"), sample_fingerprint(HOSTILE)], changed={"log"}
        )
        assert await store.catalog.tool_versions(SAMPLE_PROJECT, "git", "log") == []
        for day in range(1, 25):
            body = f'{{"day":{day}}}'.encode()
            changed = sample_fingerprint(
                "log", digest=f"d{day}", definition=body, seen_at=later % day
            )
            await store.catalog.save_fingerprints(
                [changed, sample_fingerprint("other")], changed={"log", HOSTILE}
            )

        versions = await store.catalog.tool_versions(SAMPLE_PROJECT, "git", "log")
        assert len(versions) == 20
        newest = ToolVersion(
            definition=b'{"day":23}',
            state="accepted",
            seen_at=later % 23,
            replaced_at=later % 24,
        )
        assert versions[0] == newest
        assert await store.catalog.tool_versions(SAMPLE_PROJECT, "git", HOSTILE) == []

        pruned = await store.prune(Retention(tool_version_days=2), now=later % 26)
        assert pruned == PrunedCounts(tool_versions=19)
        assert await store.catalog.tool_versions(SAMPLE_PROJECT, "git", "log") == [newest]
        await store.catalog.delete_fingerprints(SAMPLE_PROJECT, "git")
        assert await store.catalog.tool_versions(SAMPLE_PROJECT, "git", "log") == []

    async def test_definitions_come_back_as_they_were_seen_last(self, store: Store) -> None:
        """By server, kind and name, without those of other projects and servers."""
        log, hostile = (
            sample_fingerprint("log"),
            sample_fingerprint(HOSTILE, state="held", accepted_digest="", accepted=b""),
        )
        prompt = sample_fingerprint("log", kind="prompt", definition=b'{"name":"log","title":"L"}')
        other = sample_fingerprint("log", server="other")
        await store.catalog.save_fingerprints([hostile, log, prompt, other])
        assert await store.catalog.fingerprints(SAMPLE_PROJECT, "git") == sorted(
            [log, hostile, prompt], key=lambda fingerprint: (fingerprint.kind, fingerprint.name)
        )
        assert len(await store.catalog.fingerprints(SAMPLE_PROJECT)) == 4
        assert await store.catalog.fingerprints("another") == []
        seen_at = log.seen_at
        await store.catalog.save_fingerprints([replace(other, seen_at="")])
        assert await store.catalog.servers_seen_by(SAMPLE_PROJECT, seen_at) == {"git"}
        assert await store.catalog.servers_seen_by(SAMPLE_PROJECT, seen_at[:-1]) == frozenset()
        assert await store.catalog.servers_seen_by("another", seen_at) == frozenset()

        decided = replace(hostile, state="accepted", accepted=b"{}", decided_by="anna")
        before = await store.access.version()
        await store.catalog.save_fingerprints([log, other])
        assert await store.access.version() == before, "seeing a tool is no decision"
        decided = replace(decided, decided_at="2026-08-01T12:00:00.000Z")
        await store.catalog.save_fingerprints([decided])
        assert await store.access.version() > before, "other processes have to hear of a decision"
        assert decided in await store.catalog.fingerprints(SAMPLE_PROJECT, "git")
        await store.catalog.delete_fingerprints(SAMPLE_PROJECT, "git")
        assert await store.catalog.fingerprints(SAMPLE_PROJECT) == [other]

    async def test_only_old_listings_of_servers_that_are_gone_go(self, store: Store) -> None:
        """Servers in the store and those named by the caller still exist."""
        await store.servers.save(sample_server("stored"))
        for name in ("stored", "configured", "gone", "seen"):
            await store.catalog.save_snapshot(
                sample_snapshot(name, listed_at="2026-05-01T00:00:00.000Z")
            )
        await store.catalog.save_snapshot(
            sample_snapshot("seen", listed_at="2026-07-01T00:00:00.000Z")
        )

        pruned = await store.prune(
            Retention(), now=NOW, configured=[(SAMPLE_PROJECT, "configured")]
        )

        assert pruned == PrunedCounts(snapshots=1)
        left = [snapshot.server for snapshot in await store.catalog.snapshots(SAMPLE_PROJECT)]
        assert left == ["configured", "seen", "stored"]
