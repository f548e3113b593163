"""The store contract for the texts of tools."""

import pytest

from toolgate.base.ids import utc_now
from toolgate.store import Store, StoredModel, StoredSnapshot, TextLink, ToolTextCounts
from toolgate.testing.contracts.store.fixtures import StoreFixtures
from toolgate.testing.contracts.store.samples import HOSTILE
from toolgate.types import DEFAULT_PROJECT


def _hash(number: int) -> bytes:
    return number.to_bytes(16)


def _links(*numbers: int) -> list[TextLink]:
    """Tools `t0`, `t1` … each with its own text."""
    return [
        TextLink(
            tool=f"t{number}",
            text_hash=_hash(number),
            description="A tool",
            enriched=f"server t{number}: A tool",
            definition_hash=f"d{number}",
        )
        for number in numbers
    ]


@pytest.mark.anyio
class ToolTextContract(StoreFixtures):
    """The text of each tool, and the models with stored vectors."""

    async def test_texts_become_what_was_said_last(self, store: Store) -> None:
        """Writing the same again changes nothing."""
        assert await store.catalog.texts.links(DEFAULT_PROJECT) == {}
        assert await store.catalog.texts.link(DEFAULT_PROJECT, "s", _links(1, 2, 3)) == 3
        assert await store.catalog.texts.link(DEFAULT_PROJECT, "s", _links(1, 2, 3)) == 0
        assert await store.catalog.texts.link(DEFAULT_PROJECT, "s", _links(2, 3, 4)) == 2
        await store.catalog.texts.link(DEFAULT_PROJECT, "t", _links(9))

        assert await store.catalog.texts.links(DEFAULT_PROJECT) == {
            "s": {f"t{number}": _hash(number) for number in (2, 3, 4)},
            "t": {"t9": _hash(9)},
        }
        assert await store.catalog.texts.linked([_hash(1), _hash(2), _hash(9)]) == {
            _hash(2),
            _hash(9),
        }
        counts = await store.catalog.texts.counts(DEFAULT_PROJECT)
        assert counts == ToolTextCounts(tools=4, servers=2)
        assert await store.catalog.texts.counts("another") == ToolTextCounts(tools=0, servers=0)

    async def test_any_text_names_a_server_or_a_tool(self, store: Store) -> None:
        """Names come from servers, which can send anything."""
        link = TextLink(
            tool=HOSTILE,
            text_hash=_hash(1),
            description=HOSTILE,
            enriched=HOSTILE,
            definition_hash=HOSTILE,
        )
        await store.catalog.texts.link(DEFAULT_PROJECT, HOSTILE, [link])

        assert await store.catalog.texts.links(DEFAULT_PROJECT) == {HOSTILE: {HOSTILE: _hash(1)}}
        assert await store.catalog.texts.link(DEFAULT_PROJECT, HOSTILE, [link]) == 0
        assert (await store.catalog.texts.unlink(DEFAULT_PROJECT, HOSTILE)).tools == 1

    async def test_a_forgotten_server_names_the_texts_that_nobody_else_has(
        self, store: Store
    ) -> None:
        """Two of its tools may share a text."""
        again = TextLink(tool="again", text_hash=_hash(1))
        await store.catalog.texts.link(DEFAULT_PROJECT, "s", [*_links(0, 1, 2), again])
        await store.catalog.texts.link(DEFAULT_PROJECT, "t", _links(2, 3))

        unlinked = await store.catalog.texts.unlink(DEFAULT_PROJECT, "s")

        assert (unlinked.tools, sorted(unlinked.hashes)) == (4, [_hash(0), _hash(1)])
        assert (await store.catalog.texts.unlink(DEFAULT_PROJECT, "s")).tools == 0
        assert list(await store.catalog.texts.links(DEFAULT_PROJECT)) == ["t"]

    async def test_tools_of_servers_without_a_listing_are_pruned_when_they_are_old(
        self, store: Store
    ) -> None:
        """Those of other servers stay."""
        for server in ("s", "t"):
            await store.catalog.texts.link(DEFAULT_PROJECT, server, _links(1))
        listing = StoredSnapshot(
            project_id=DEFAULT_PROJECT,
            server="t",
            listing=b"{}",
            digest="d",
            listed_at=utc_now(),
        )
        await store.catalog.save_snapshot(listing)

        assert await store.catalog.texts.prune(before=utc_now(plus_s=-60)) == 0
        assert await store.catalog.texts.prune(before=utc_now(plus_s=60)) == 1
        assert list(await store.catalog.texts.links(DEFAULT_PROJECT)) == ["t"]

    async def test_models_are_listed_by_their_last_use(self, store: Store) -> None:
        """Using one again changes nothing else."""
        models = [
            StoredModel(collection_id=f"c{number}", model=HOSTILE, dim=number) for number in (1, 2)
        ]
        for model in (*models, models[0]):
            await store.catalog.texts.use_model(model)

        listed = await store.catalog.texts.models()
        assert sorted(listed, key=lambda model: model.dim) == models
        assert await store.catalog.texts.models(unused_since=utc_now(plus_s=-60)) == []
        assert len(await store.catalog.texts.models(unused_since=utc_now(plus_s=60))) == 2
        await store.catalog.texts.delete_model("c1")
        assert await store.catalog.texts.models() == models[1:]
