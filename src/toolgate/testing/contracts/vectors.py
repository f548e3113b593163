"""The contract suite for vector stores of tools.

Example:
    ```python
    class TestMine(VectorContract):
        @pytest.fixture
        async def make_vectors(self) -> MakeVectors:
            return lambda: build(Options())
    ```
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pytest
from anyio import create_task_group
from numpy.typing import NDArray

from toolgate.base.ids import utc_now
from toolgate.store.vectors import HASH_BYTES, TextLink, VectorSpace, VectorStore
from toolgate.types import DEFAULT_PROJECT

__all__ = ["MakeVectors", "VectorContract", "hash_of", "loaded", "some_rows"]

MakeVectors: TypeAlias = Callable[[], VectorStore]
"""Gives one more way into the same place, as another process would have it."""

SPACE = VectorSpace(model="model a", dim=24)
OTHER = VectorSpace(model="model b", dim=24)
SHORTER = VectorSpace(model="model a", dim=12)

HOSTILE = "\x00 \x1a0000 \ud800 é 🚀 '\"; DROP TABLE vectors; --"
"""What a server may call itself or a tool."""

_CLOSE = 2e-3
"""What float16 leaves uncertain."""


def hash_of(number: int) -> bytes:
    """A hash like any other: zeros at its beginning and its end."""
    return number.to_bytes(HASH_BYTES // 2, "big") + bytes(HASH_BYTES // 2)


def some_rows(count: int, dim: int = SPACE.dim, *, seed: int = 7) -> NDArray[np.float16]:
    """Vectors of length 1 in directions of chance."""
    rows = np.random.default_rng(seed).normal(size=(count, dim))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16)


async def loaded(
    vectors: VectorStore, space: VectorSpace, hashes: Sequence[bytes]
) -> dict[bytes, NDArray[np.float16]]:
    """What is there of these texts."""
    vectors_by_hash: dict[bytes, NDArray[np.float16]] = {}

    def put(places: NDArray[np.int64], rows: NDArray[np.float16]) -> None:
        for position, row in zip(places.tolist(), rows, strict=True):
            assert hashes[position] not in vectors_by_hash
            vectors_by_hash[hashes[position]] = row

    await vectors.load(space, hashes, put)
    return vectors_by_hash


def links(*numbers: int, text: str = "A tool") -> list[TextLink]:
    """Tools `t0`, `t1` … each with its own text."""
    return [
        TextLink(
            tool=f"t{number}",
            text_hash=hash_of(number),
            description=text,
            enriched=f"server t{number}: {text}",
            definition_hash=f"d{number}",
        )
        for number in numbers
    ]


@pytest.mark.anyio
class VectorContract:
    """Duties in `toolgate.store.vectors.VectorStore`, one test each."""

    @pytest.fixture
    def make_vectors(self) -> MakeVectors:
        """Another way into one empty place; every subclass says how."""
        raise NotImplementedError

    @pytest.fixture
    def vectors(self, make_vectors: MakeVectors) -> VectorStore:
        """The place under test."""
        return make_vectors()

    async def test_is_a_place_for_vectors(self, vectors: VectorStore) -> None:
        """What `plugins.make` checks."""
        assert isinstance(vectors, VectorStore)

    # Vectors

    async def test_what_was_saved_is_read_to_the_bit(self, make_vectors: MakeVectors) -> None:
        """In another process, few or many, whatever is asked beside it."""
        rows = some_rows(9_000)
        hashes = [hash_of(number) for number in range(9_000)]
        saved = dict(zip(hashes, rows, strict=True))

        assert await make_vectors().save(SPACE, hashes, rows) == 9_000

        other = make_vectors()
        for selection in (hashes, hashes[::-1], hashes[4_000:4_003], [hash_of(9_999), hashes[3]]):
            loaded_rows = await loaded(other, SPACE, selection)
            assert loaded_rows.keys() == saved.keys() & set(selection)
            for text, row in loaded_rows.items():
                assert row.tobytes() == saved[text].tobytes()
            present = await other.known(SPACE, selection)
            assert present.tolist() == [text in loaded_rows for text in selection]

    async def test_an_empty_place_has_nothing(self, vectors: VectorStore) -> None:
        """Nor does it fail."""
        assert await loaded(vectors, SPACE, [hash_of(1)]) == {}
        assert (await vectors.known(SPACE, [hash_of(1)])).tolist() == [False]
        assert await vectors.nearest(SPACE, np.ones(24, np.float32), limit=3) == []
        assert await vectors.links(DEFAULT_PROJECT) == {}
        assert await vectors.unlink(DEFAULT_PROJECT, "s") == 0
        assert await vectors.prune(before=utc_now()) == 0
        assert await vectors.save(SPACE, [], some_rows(0)) == 0
        assert (await vectors.counts(SPACE, DEFAULT_PROJECT)).vectors == 0
        await vectors.settle(SPACE)

    async def test_saving_skips_what_is_equal_and_replaces_what_is_not(
        self, vectors: VectorStore
    ) -> None:
        """Source document 003: an upsert that skips unchanged hashes."""
        hashes = [hash_of(number) for number in range(3)]
        rows = some_rows(3)
        await vectors.save(SPACE, hashes, rows)

        changed = rows.copy()
        changed[1] = some_rows(1, seed=8)[0]
        assert await vectors.save(SPACE, hashes, rows) == 0
        assert await vectors.save(SPACE, hashes, changed) == 1

        assert (await loaded(vectors, SPACE, hashes))[hashes[1]].tobytes() == changed[1].tobytes()

    async def test_models_and_dimensions_never_meet(self, vectors: VectorStore) -> None:
        """Vectors of two models cannot be compared."""
        text = [hash_of(1)]
        await vectors.save(SPACE, text, some_rows(1))
        assert await loaded(vectors, OTHER, text) == {}
        await vectors.save(OTHER, text, some_rows(1, seed=8))
        await vectors.save(SHORTER, text, some_rows(1, 12))

        rows = [await loaded(vectors, space, text) for space in (SPACE, OTHER, SHORTER)]
        near = await vectors.nearest(SHORTER, np.ones(12, np.float32), limit=9)
        counts = await vectors.counts(OTHER, DEFAULT_PROJECT)

        assert [row[text[0]].shape for row in rows] == [(24,), (24,), (12,)]
        assert rows[0][text[0]].tobytes() == some_rows(1)[0].tobytes()
        assert [hit.text_hash for hit in near] == text
        assert (counts.vectors, counts.vectors_of_other_models) == (1, 2)

    @pytest.mark.parametrize(
        "rows", [some_rows(2), some_rows(1, 12), some_rows(1)[0]], ids=["rows", "dim", "flat"]
    )
    async def test_rows_that_do_not_fit_are_refused(
        self, vectors: VectorStore, rows: NDArray[np.float16]
    ) -> None:
        """Before anything is written."""
        with pytest.raises(ValueError, match="do not fit"):
            await vectors.save(SPACE, [hash_of(1)], rows)

        assert (await vectors.known(SPACE, [hash_of(1)])).tolist() == [False]

    async def test_two_that_save_at_once_share_what_they_save(
        self, make_vectors: MakeVectors
    ) -> None:
        """Two gateways that start together on one database."""
        hashes = [hash_of(number) for number in range(600)]
        rows = some_rows(600)

        async def save(vectors: VectorStore, order: int) -> None:
            for at in range(0, 600, 100)[::order]:
                part = slice(at, at + 100)
                await vectors.save(SPACE, hashes[part][::order], rows[part][::order])

        async with create_task_group() as group:
            group.start_soon(save, make_vectors(), 1)
            group.start_soon(save, make_vectors(), -1)
            group.start_soon(save, make_vectors(), 1)

        stored = await loaded(make_vectors(), SPACE, hashes)
        assert all(
            stored[text].tobytes() == row.tobytes() for text, row in zip(hashes, rows, strict=True)
        )

    # Nearness

    async def test_the_nearest_come_first(self, vectors: VectorStore) -> None:
        """With their cosines, whatever the length of the request is."""
        hashes, rows = [hash_of(number) for number in range(500)], some_rows(500)
        await vectors.save(SPACE, hashes, rows)
        await vectors.settle(SPACE)
        query = some_rows(1, seed=9)[0].astype(np.float32)

        hits = await vectors.nearest(SPACE, query * 3, limit=5)

        cosines = rows.astype(np.float32) @ query
        best = np.argsort(-cosines)[:5]
        assert [hit.text_hash for hit in hits] == [hashes[at] for at in best]
        assert [hit.cosine for hit in hits] == pytest.approx(cosines[best], abs=_CLOSE)

    async def test_only_what_is_allowed_is_ranked(self, vectors: VectorStore) -> None:
        """Filtered before it is ranked: the farthest are found when only they are allowed."""
        hashes, rows = [hash_of(number) for number in range(2_000)], some_rows(2_000)
        await vectors.save(SPACE, hashes, rows)
        await vectors.settle(SPACE)
        query = some_rows(1, seed=9)[0].astype(np.float32)
        order: list[int] = np.argsort(-(rows.astype(np.float32) @ query)).tolist()
        far = [hashes[at] for at in order[-50:]]

        hits = await vectors.nearest(SPACE, query, limit=10, allowed=far)

        assert [hit.text_hash for hit in hits] == far[:10]
        assert await vectors.nearest(SPACE, query, limit=10, allowed=[]) == []
        assert await vectors.nearest(SPACE, query, limit=10, allowed=[hash_of(9_999)]) == []

    async def test_what_is_equally_near_is_in_order_of_its_hash(self, vectors: VectorStore) -> None:
        """So that an answer does not depend on the day."""
        hashes = [hash_of(number) for number in (5, 3, 9, 1)]
        await vectors.save(SPACE, hashes, np.repeat(some_rows(1), 4, axis=0))

        hits = await vectors.nearest(
            SPACE, np.ones(24, np.float32), limit=3, allowed=[*hashes, hash_of(7)]
        )

        assert [hit.text_hash for hit in hits] == sorted(hashes)[:3]

    async def test_a_text_without_meaning_is_near_to_nothing(self, vectors: VectorStore) -> None:
        """Embedders give zeros where they can say nothing; so does a request of that kind."""
        hashes = [hash_of(1), hash_of(2)]
        rows = some_rows(2)
        rows[0] = 0
        await vectors.save(SPACE, hashes, rows)
        query = rows[1].astype(np.float32)

        hits = await vectors.nearest(SPACE, query, limit=2, allowed=hashes)
        silent = await vectors.nearest(SPACE, query * 0, limit=2)

        assert [hit.text_hash for hit in hits] == hashes[::-1]
        assert hits[1].cosine == 0
        assert {hit.cosine for hit in silent} <= {0}

    # Tools

    async def test_links_become_what_was_said_last(self, make_vectors: MakeVectors) -> None:
        """And what is said again costs nothing."""
        vectors = make_vectors()
        assert await vectors.link(DEFAULT_PROJECT, "s", links(1, 2, 3)) == 3
        assert await vectors.link(DEFAULT_PROJECT, "s", links(1, 2, 3)) == 0
        assert await vectors.link(DEFAULT_PROJECT, "s", links(2, 3, 4)) == 2
        await vectors.link(DEFAULT_PROJECT, "t", links(9))

        assert await make_vectors().links(DEFAULT_PROJECT) == {
            "s": {f"t{number}": hash_of(number) for number in (2, 3, 4)},
            "t": {"t9": hash_of(9)},
        }
        assert await vectors.texts(DEFAULT_PROJECT, "s", "t4") == "server t4: A tool"
        assert await vectors.texts(DEFAULT_PROJECT, "s", "t1") is None

    async def test_any_text_names_a_server_or_a_tool(self, vectors: VectorStore) -> None:
        """Names come from servers, which write what they like."""
        link = TextLink(
            tool=HOSTILE,
            text_hash=hash_of(1),
            description=HOSTILE,
            enriched=HOSTILE,
            definition_hash=HOSTILE,
        )
        await vectors.link(DEFAULT_PROJECT, HOSTILE, [link])

        assert await vectors.links(DEFAULT_PROJECT) == {HOSTILE: {HOSTILE: hash_of(1)}}
        assert await vectors.texts(DEFAULT_PROJECT, HOSTILE, HOSTILE) == HOSTILE
        assert await vectors.link(DEFAULT_PROJECT, HOSTILE, [link]) == 0
        assert await vectors.unlink(DEFAULT_PROJECT, HOSTILE) == 1

    async def test_a_removed_server_takes_its_vectors_along(self, vectors: VectorStore) -> None:
        """Except those of texts that another server has too."""
        hashes = [hash_of(number) for number in range(4)]
        await vectors.save(SPACE, hashes, some_rows(4))
        await vectors.save(OTHER, hashes, some_rows(4))
        await vectors.link(DEFAULT_PROJECT, "s", links(0, 1, 2))
        await vectors.link(DEFAULT_PROJECT, "t", links(2, 3))

        assert await vectors.unlink(DEFAULT_PROJECT, "s") == 3

        for space in (SPACE, OTHER):
            assert (await vectors.known(space, hashes)).tolist() == [False, False, True, True]
            near = await vectors.nearest(space, np.ones(24, np.float32), limit=9)
            assert {hit.text_hash for hit in near} == set(hashes[2:])
        assert await vectors.links(DEFAULT_PROJECT) == {"t": {"t2": hash_of(2), "t3": hash_of(3)}}

    async def test_a_clean_up_removes_what_no_tool_has(self, vectors: VectorStore) -> None:
        """But nothing young: the tools of a new vector may be linked in a moment."""
        hashes = [hash_of(number) for number in range(4)]
        await vectors.save(SPACE, hashes, some_rows(4))
        await vectors.link(DEFAULT_PROJECT, "s", links(0, 1))

        assert await vectors.prune(before=utc_now(plus_s=-60)) == 0
        await vectors.link(DEFAULT_PROJECT, "s", links(1))
        # The store knows no such server, so a late enough clean-up takes everything.
        assert await vectors.prune(before=utc_now(plus_s=60)) == 4

        assert await loaded(vectors, SPACE, hashes) == {}
        assert await vectors.links(DEFAULT_PROJECT) == {}

    async def test_counts_are_those_of_the_space_and_the_project(
        self, vectors: VectorStore
    ) -> None:
        """For people who look."""
        await vectors.save(SPACE, [hash_of(1), hash_of(2)], some_rows(2))
        await vectors.save(OTHER, [hash_of(1)], some_rows(1))
        await vectors.link(DEFAULT_PROJECT, "s", links(1, 2))
        await vectors.link(DEFAULT_PROJECT, "t", links(1))

        counts = await vectors.counts(SPACE, DEFAULT_PROJECT)

        assert (counts.vectors, counts.vectors_of_other_models) == (2, 1)
        assert (counts.tools, counts.servers) == (3, 2)
        assert (await vectors.counts(SPACE, "another")).tools == 0
