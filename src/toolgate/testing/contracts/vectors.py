"""The contract suite for vector stores.

Example:
    ```python
    from collections.abc import AsyncGenerator

    class TestMine(VectorContract):
        @pytest.fixture
        async def vectors(self) -> AsyncGenerator[VectorStore]:
            vectors = build(Options())
            yield vectors
            await vectors.aclose()
    ```
"""

from collections.abc import Sequence

import numpy as np
import pytest
from anyio import create_task_group
from numpy.typing import NDArray

from toolgate.base.ids import new_id
from toolgate.store.vectors import (
    KEY_BYTES,
    METRICS,
    Metric,
    Precision,
    Rows,
    VectorCollection,
    VectorStore,
)

# Dimension of the vectors (chosen: enough for random directions to differ).
DIM = 24

GROUPS = ("g0", "g1", "g2", "g3", "rare")
"""All groups of the suite."""

_CLOSE = 1e-4
"""Tolerance for scores."""

_CLOSE_HALF = 2e-3
"""Tolerance for `half` vectors, which float16 rounds."""


def key_of(number: int) -> bytes:
    """A key like the hash of a text, starting and ending with zeros."""
    return number.to_bytes(KEY_BYTES // 2) + bytes(KEY_BYTES // 2)


def keys_of(count: int, *, first: int = 2**61) -> list[bytes]:
    """Numeric keys, like those of passages."""
    return [(first + at).to_bytes(KEY_BYTES) for at in range(count)]


def some_rows(count: int, dim: int = DIM, *, seed: int = 7) -> NDArray[np.float32]:
    """Vectors of length 1 in random directions."""
    rows = np.random.default_rng(seed).normal(size=(count, dim))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def new_collection(
    metric: Metric = "cosine", precision: Precision = "single", *, dim: int = DIM
) -> VectorCollection:
    """An empty collection."""
    return VectorCollection(
        collection_id=new_id(), dim=dim, metric=metric, precision=precision, version=1
    )


async def loaded(
    vectors: VectorStore, collection: VectorCollection, keys: Sequence[bytes]
) -> dict[bytes, Rows]:
    """The existing vectors of these keys."""
    rows_by_key: dict[bytes, Rows] = {}

    def receive(positions: NDArray[np.int64], rows: Rows) -> None:
        for position, row in zip(positions.tolist(), rows, strict=True):
            assert keys[position] not in rows_by_key
            rows_by_key[keys[position]] = row

    await vectors.load(collection, keys, receive)
    return rows_by_key


def _expected(
    metric: Metric, rows: NDArray[np.float32], query: NDArray[np.float32]
) -> NDArray[np.float32]:
    match metric:
        case "cosine":
            return rows @ query / np.linalg.norm(rows, axis=1) / np.linalg.norm(query)
        case "euclidean":
            return np.linalg.norm(rows - query, axis=1)
        case "dot":
            return rows @ query


class VectorContract:
    """The requirements of `toolgate.store.vectors.VectorStore`, for the fixture `vectors`."""

    pytestmark = pytest.mark.anyio

    async def collection(
        self,
        vectors: VectorStore,
        metric: Metric = "cosine",
        precision: Precision = "single",
    ) -> VectorCollection:
        """An empty collection; if creating one is slow, one that was emptied."""
        del vectors
        return new_collection(metric, precision)

    async def test_is_a_vector_store(self, vectors: VectorStore) -> None:
        """`plugins.make` rejects others."""
        assert isinstance(vectors, VectorStore)

    async def test_an_empty_collection_has_nothing(self, vectors: VectorStore) -> None:
        """An unused collection is not an error."""
        collection = new_collection()
        assert await loaded(vectors, collection, [key_of(1)]) == {}
        assert (await vectors.contains(collection, [key_of(1)])).tolist() == [False]
        assert await vectors.nearest(collection, some_rows(1)[0], limit=3) == []
        assert [page async for page in vectors.keys(collection) if page] == []
        assert await vectors.count(collection) == 0
        assert await vectors.put(collection, [], some_rows(0)) == 0
        await vectors.remove(collection, keys=[key_of(1)], groups=["g1"])
        await vectors.optimize(collection)
        await vectors.drop(collection)

    # Reading

    async def test_half_vectors_are_read_as_they_were_put(self, vectors: VectorStore) -> None:
        """Any number of them, in any order, to the bit; 4,500 are more than stores send at once."""
        collection = await self.collection(vectors, precision="half")
        rows = some_rows(4_500).astype(np.float16)
        keys = [key_of(number) for number in range(4_500)]
        stored = dict(zip(keys, rows, strict=True))

        assert await vectors.put(collection, keys, rows) == 4_500

        for selection in (keys, keys[::-1], keys[4_000:4_003], [key_of(9_999), keys[3]]):
            rows_by_key = await loaded(vectors, collection, selection)
            assert rows_by_key.keys() == stored.keys() & set(selection)
            for key, row in rows_by_key.items():
                assert row.tobytes() == stored[key].tobytes()
            existing = await vectors.contains(collection, selection)
            assert existing.tolist() == [key in rows_by_key for key in selection]
        assert await vectors.count(collection) == 4_500
        listed = [key async for page in vectors.keys(collection) for key in page]
        assert sorted(listed) == keys

    @pytest.mark.parametrize("metric", METRICS)
    async def test_single_vectors_come_back_in_their_direction(
        self, vectors: VectorStore, metric: Metric
    ) -> None:
        """With keys of both kinds."""
        collection = await self.collection(vectors, metric)
        rows, keys = some_rows(3), [*keys_of(2), key_of(3)]
        await vectors.put(collection, keys, rows)

        rows_by_key = await loaded(vectors, collection, [keys[2], keys[0], key_of(17)])

        assert rows_by_key.keys() == {keys[2], keys[0]}
        assert rows_by_key[keys[2]] == pytest.approx(rows[2], abs=1e-5)

    async def test_putting_again_replaces(self, vectors: VectorStore) -> None:
        """A key has one vector and one group."""
        collection = await self.collection(vectors)
        keys, rows = keys_of(4), some_rows(4)
        await vectors.put(collection, keys, rows, groups=["g1"] * 4)
        await vectors.put(collection, keys[:1], rows[3:], groups=["g2"])

        hits = await vectors.nearest(collection, rows[3], limit=2)
        of_group = await vectors.nearest(collection, rows[3], limit=9, groups=["g2"])

        assert {hit.key for hit in hits} == {keys[0], keys[3]}
        assert [hit.key for hit in of_group] == keys[:1]
        assert await vectors.count(collection) == 4

    async def test_collections_never_see_each_other(self, vectors: VectorStore) -> None:
        """Even with the same keys."""
        first, second = new_collection(), new_collection("cosine", "half")
        await vectors.put(first, keys_of(3), some_rows(3))
        await vectors.put(second, keys_of(2), some_rows(2, seed=6).astype(np.float16))
        await vectors.drop(first)

        assert await vectors.count(first) == 0
        assert await loaded(vectors, first, keys_of(3)) == {}
        assert await vectors.count(second) == 2
        assert len(await vectors.nearest(second, some_rows(1)[0], limit=9)) == 2

    async def test_vectors_that_do_not_fit_are_refused(self, vectors: VectorStore) -> None:
        """Wrong dimension or count, not finite, wrong length of a key."""
        collection = await self.collection(vectors)
        with pytest.raises(ValueError, match="shape"):
            await vectors.put(collection, keys_of(1), some_rows(1, DIM + 1))
        with pytest.raises(ValueError, match="shape"):
            await vectors.put(collection, keys_of(2), some_rows(1))
        with pytest.raises(ValueError, match="finite"):
            await vectors.put(collection, keys_of(1), np.full((1, DIM), np.nan, np.float32))
        with pytest.raises(ValueError, match="bytes long"):
            await vectors.put(collection, [b"short"], some_rows(1))
        assert await vectors.count(collection) == 0

        await vectors.put(collection, keys_of(1), some_rows(1))
        with pytest.raises(ValueError, match="shape"):
            await vectors.nearest(collection, np.ones(DIM - 1, np.float32), limit=1)

    # Nearness

    @pytest.mark.parametrize("metric", METRICS)
    async def test_the_nearest_come_first_with_their_scores(
        self, vectors: VectorStore, metric: Metric
    ) -> None:
        """With every metric, regardless of the query's length."""
        collection = await self.collection(vectors, metric)
        rows, keys, query = some_rows(60), keys_of(60), some_rows(1, seed=9)[0] * 2
        await vectors.put(collection, keys, rows)

        hits = await vectors.nearest(collection, query, limit=7)

        scores = _expected(metric, rows, query)
        best = np.argsort(scores if metric == "euclidean" else -scores)[:7]
        assert [hit.key for hit in hits] == [keys[at] for at in best]
        assert [hit.score for hit in hits] == pytest.approx(scores[best].tolist(), abs=_CLOSE)

    async def test_half_vectors_are_searched_like_others(self, vectors: VectorStore) -> None:
        """Their scores are those of the rounded vectors."""
        collection = await self.collection(vectors, precision="half")
        rows, keys = some_rows(500), [key_of(number) for number in range(500)]
        query = some_rows(1, seed=9)[0]
        await vectors.put(collection, keys, rows.astype(np.float16))
        await vectors.optimize(collection)

        hits = await vectors.nearest(collection, query * 3, limit=5)

        cosines = rows @ query
        best = np.argsort(-cosines)[:5]
        assert [hit.key for hit in hits] == [keys[at] for at in best]
        assert [hit.score for hit in hits] == pytest.approx(cosines[best].tolist(), abs=_CLOSE_HALF)

    async def test_only_allowed_keys_are_ranked(self, vectors: VectorStore) -> None:
        """Even the farthest vectors are found if only they are allowed."""
        collection = await self.collection(vectors, precision="half")
        rows, keys = some_rows(2_000), [key_of(number) for number in range(2_000)]
        await vectors.put(collection, keys, rows.astype(np.float16))
        await vectors.optimize(collection)
        query = some_rows(1, seed=9)[0]
        order: list[int] = np.argsort(
            -(rows.astype(np.float16).astype(np.float32) @ query)
        ).tolist()
        far = [keys[at] for at in order[-50:]]

        hits = await vectors.nearest(collection, query, limit=10, keys=far)

        assert [hit.key for hit in hits] == far[:10]
        assert await vectors.nearest(collection, query, limit=10, keys=[]) == []
        assert await vectors.nearest(collection, query, limit=10, keys=[key_of(9_999)]) == []

    async def test_only_allowed_groups_are_ranked(self, vectors: VectorStore) -> None:
        """Allowed vectors are found, however far they are."""
        collection = await self.collection(vectors)
        rows, keys = some_rows(50), keys_of(50)
        query = -rows[49]  # the last place of all
        await vectors.put(collection, keys, rows, groups=["g1"] * 49 + ["rare"])

        hits = await vectors.nearest(collection, query, limit=3, groups=["rare"])

        assert [hit.key for hit in hits] == keys[49:]
        assert await vectors.nearest(collection, query, limit=3, groups=[]) == []

    async def test_equal_scores_are_in_the_order_of_their_keys(self, vectors: VectorStore) -> None:
        """Answers are reproducible."""
        collection = await self.collection(vectors)
        rows, keys = np.repeat(some_rows(1), 5, axis=0), keys_of(5)
        await vectors.put(collection, keys[::-1], rows)

        hits = await vectors.nearest(collection, rows[0], limit=5)
        allowed = await vectors.nearest(collection, rows[0], limit=4, keys=[*keys[1:], key_of(7)])

        assert [hit.key for hit in hits] == keys
        assert [hit.key for hit in allowed] == keys[1:]

    async def test_a_vector_of_zeros_is_far_from_all(self, vectors: VectorStore) -> None:
        """Embedders return zeros for unknown texts, and so may the query."""
        collection = await self.collection(vectors)
        rows, keys = some_rows(3), keys_of(3)
        rows[1] = 0
        await vectors.put(collection, keys, rows)

        hits = await vectors.nearest(collection, rows[0], limit=3)
        silent = await vectors.nearest(collection, np.zeros(DIM, np.float32), limit=3)

        assert {hit.key: hit.score for hit in hits}[keys[1]] == 0
        assert {hit.score for hit in silent} <= {0}

    # Removing

    async def test_removing_removes_what_is_named_alone(self, vectors: VectorStore) -> None:
        """By key and by group, ignoring missing ones."""
        collection = await self.collection(vectors)
        keys, rows = keys_of(6), some_rows(6)
        await vectors.put(collection, keys, rows, groups=["g1", "g1", "g1", "g2", "g2", "g2"])
        await vectors.nearest(collection, rows[0], limit=9)

        await vectors.remove(collection, groups=["g1", "unknown"])
        await vectors.remove(collection, keys=[keys[3], key_of(9)])

        hits = await vectors.nearest(collection, rows[0], limit=10)
        assert {hit.key for hit in hits} == set(keys[4:])
        assert await vectors.count(collection) == 2

    # Concurrency

    async def test_several_may_search_and_write_at_once(self, vectors: VectorStore) -> None:
        """Tasks of one process; some write the same vectors in another order."""
        collection = await self.collection(vectors)
        rows, keys = some_rows(40), keys_of(40)

        async def write(at: int, order: int) -> None:
            part = slice(10 * at, 10 * at + 10)
            await vectors.put(
                collection, keys[part][::order], rows[part][::order], groups=[f"g{at}"] * 10
            )
            await vectors.nearest(collection, rows[at], limit=3)

        async with create_task_group() as group:
            for at in range(4):
                group.start_soon(write, at, 1)
                group.start_soon(write, at, -1)

        assert await vectors.count(collection) == 40
        stored = await loaded(vectors, collection, keys)
        assert np.stack([stored[key] for key in keys]) == pytest.approx(rows, abs=1e-5)

    async def test_it_can_be_used_after_it_was_closed(self, vectors: VectorStore) -> None:
        """Closing only releases resources."""
        collection = await self.collection(vectors)
        rows = some_rows(2)
        await vectors.put(collection, keys_of(2), rows)
        await vectors.aclose()

        hits = await vectors.nearest(collection, rows[0], limit=1)

        assert [hit.key for hit in hits] == keys_of(1)
