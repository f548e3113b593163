"""The store contract for stored servers."""

import json
from dataclasses import replace

import pytest

from toolgate.errors import StoreError
from toolgate.store import (
    Store,
)
from toolgate.testing.contracts.store.fixtures import StoreFixtures
from toolgate.testing.contracts.store.samples import (
    HOSTILE,
    SAMPLE_PROJECT,
    sample_server,
)


@pytest.mark.anyio
class ServerContract(StoreFixtures):
    """Stored servers."""

    async def test_servers_come_back_as_they_were_saved_by_name(self, store: Store) -> None:
        """Configurations keep all values and the order of their keys."""
        time = sample_server(
            "time", config={"url": HOSTILE, "b": {"z": 1, "a": [2**70, None, 0.1]}}
        )
        git = sample_server("git", enabled=False, alias="old git")

        await store.servers.save(time)
        await store.servers.save(git)

        assert await store.servers.select(SAMPLE_PROJECT) == [git, time]
        assert json.dumps((await store.servers.select(SAMPLE_PROJECT))[1].config) == json.dumps(
            time.config
        )

    async def test_saving_a_server_again_replaces_it(self, store: Store) -> None:
        """The id identifies a server, so a rename keeps everything else."""
        git = sample_server("git")
        await store.servers.save(git)

        await store.servers.save(replace(git, name="vcs", alias="git"))

        assert await store.servers.select(SAMPLE_PROJECT) == [replace(git, name="vcs", alias="git")]

    async def test_a_name_is_taken_once_per_project(self, store: Store) -> None:
        """The second one is rejected without changes; another project may use the name."""
        await store.projects.add_references(["other"])
        git = sample_server("git")
        await store.servers.save(git)

        with pytest.raises(StoreError):
            await store.servers.save(sample_server("git"))
        await store.servers.save(sample_server("git", project_id="other"))

        assert await store.servers.select(SAMPLE_PROJECT) == [git]

    async def test_a_server_of_an_unknown_project_is_refused(self, store: Store) -> None:
        """Rows without a project would belong to nobody."""
        with pytest.raises(StoreError):
            await store.servers.save(sample_server("git", project_id="nobody"))

        await store.projects.add_references(["nobody"])
        await store.projects.add_references(["nobody"])
        await store.servers.save(sample_server("git", project_id="nobody"))

    async def test_deleting_a_server_says_whether_there_was_one(self, store: Store) -> None:
        """Nothing else is deleted."""
        git, time = sample_server("git"), sample_server("time")
        await store.servers.save(git)
        await store.servers.save(time)

        assert await store.servers.delete(git.server_id)
        assert not await store.servers.delete(git.server_id)
        assert await store.servers.select(SAMPLE_PROJECT) == [time]

    async def test_servers_of_all_projects_can_be_read_at_once(self, store: Store) -> None:
        """By project and name."""
        await store.projects.add_references(["other"])
        here, there = sample_server("time"), sample_server("git", project_id="other")
        await store.servers.save(there)
        await store.servers.save(here)

        assert await store.servers.select(None) == [here, there]
