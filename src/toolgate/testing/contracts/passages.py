"""The contract suite for vector stores of passages.

Example:
    ```python
    from collections.abc import AsyncGenerator

    class TestMine(PassageContract):
        @pytest.fixture
        async def index(self) -> AsyncGenerator[PassageIndex]:
            index = build(Options())
            yield index
            await index.aclose()
    ```
"""

from collections.abc import Sequence

import numpy as np
import pytest
from anyio import create_task_group
from numpy.typing import NDArray

from toolgate.base.ids import new_id
from toolgate.store.passages import METRICS, Metric, PassageIndex, PassageKey, VectorCollection

__all__ = [
    "COLLECTION",
    "DIM",
    "DOCUMENTS",
    "PassageContract",
    "new_shelf",
    "placed",
    "some_vectors",
]

# Numbers of a vector. Chosen: enough for directions of chance to differ.
DIM = 8
DOCUMENTS = ("d0", "d1", "d2", "d3", "rare")
"""All that are put on a shelf."""

COLLECTION = "c1"
"""The collection of all shelves; places that want a row of it make one."""


def some_vectors(count: int, *, seed: int = 5) -> NDArray[np.float32]:
    """Vectors of length 1 in directions of chance."""
    rows = np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def placed(count: int, *, first: int = 2**61, document: str = "d1") -> list[PassageKey]:
    """Passages of a document."""
    return [PassageKey(passage_id=first + at, document_id=document) for at in range(count)]


def new_shelf(metric: Metric = "cosine") -> VectorCollection:
    """A shelf that nobody has filled."""
    return VectorCollection(collection_id=COLLECTION, shelf_id=new_id(), dim=DIM, metric=metric)


def _expected(
    metric: Metric, rows: NDArray[np.float32], question: NDArray[np.float32]
) -> NDArray[np.float32]:
    if metric == "cosine":
        lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(question)
        return (1 + rows @ question / lengths) / 2
    if metric == "euclidean":
        return 1 / (1 + np.linalg.norm(rows - question, axis=1))
    return rows @ question


class PassageContract:
    """Subclass it with a fixture `index`."""

    pytestmark = pytest.mark.anyio

    async def shelf(self, index: PassageIndex, metric: Metric = "cosine") -> VectorCollection:
        """An empty shelf; a place where making one is slow may give one that it has emptied."""
        del index
        return new_shelf(metric)

    @pytest.mark.parametrize("metric", METRICS)
    async def test_nearest_passages_come_first_with_their_similarity(
        self, index: PassageIndex, metric: Metric
    ) -> None:
        """Every metric: order and scale."""
        shelf = await self.shelf(index, metric)
        rows, passages = some_vectors(60), placed(60)
        question = some_vectors(1, seed=9)[0] * 2
        await index.put(shelf, passages, rows)
        hits = await index.nearest(shelf, question, limit=7)
        values = _expected(metric, rows, question)
        best = sorted(range(60), key=lambda at: -values[at])[:7]
        assert [hit.passage_id for hit in hits] == [passages[at].passage_id for at in best]
        assert [hit.similarity for hit in hits] == pytest.approx(
            [float(values[at]) for at in best], abs=1e-4
        )

    async def test_an_empty_shelf_has_nothing(self, index: PassageIndex) -> None:
        """A shelf that nobody has filled is no error."""
        shelf = new_shelf()
        assert await index.nearest(shelf, some_vectors(1)[0], limit=3) == []
        assert await index.count(shelf) == 0
        assert await index.vectors(shelf, [1, 2]) == {}
        await index.remove(shelf, ["d1"])
        await index.settle(shelf)
        await index.drop(shelf)

    async def test_shelves_never_see_each_other(self, index: PassageIndex) -> None:
        """The same numbers on two shelves."""
        first, second = new_shelf(), new_shelf()
        await index.put(first, placed(3), some_vectors(3))
        await index.put(second, placed(2), some_vectors(2, seed=6))
        await index.drop(first)
        assert await index.count(first) == 0
        assert await index.count(second) == 2
        assert len(await index.nearest(second, some_vectors(1)[0], limit=9)) == 2

    async def test_putting_again_replaces(self, index: PassageIndex) -> None:
        """A number has one vector."""
        shelf = await self.shelf(index)
        passages, rows = placed(4), some_vectors(4)
        await index.put(shelf, passages, rows)
        await index.put(shelf, passages[:1], rows[3:])
        hits = await index.nearest(shelf, rows[3], limit=2)
        assert {hit.passage_id for hit in hits} == {
            passages[0].passage_id,
            passages[3].passage_id,
        }
        assert await index.count(shelf) == 4

    async def test_removing_a_document_removes_its_passages_alone(
        self, index: PassageIndex
    ) -> None:
        """Also of documents that are not there."""
        shelf = await self.shelf(index)
        rows = some_vectors(6)
        first, other = placed(3), placed(3, first=2**61 + 10, document="d2")
        await index.put(shelf, [*first, *other], rows)
        await index.remove(shelf, ["d1", "unknown"])
        hits = await index.nearest(shelf, rows[0], limit=10)
        assert {hit.passage_id for hit in hits} == {hit.passage_id for hit in other}
        assert await index.count(shelf) == 3

    async def test_a_filter_comes_before_the_ranking(self, index: PassageIndex) -> None:
        """What is allowed is found however far it is."""
        shelf = await self.shelf(index)
        rows = some_vectors(50)
        passages = [*placed(49), *placed(1, first=2**61 + 100, document="rare")]
        question = -rows[49]  # the last place of all
        await index.put(shelf, passages, rows)
        hits = await index.nearest(shelf, question, limit=3, documents=["rare"])
        assert [hit.passage_id for hit in hits] == [2**61 + 100]
        assert await index.nearest(shelf, question, limit=3, documents=[]) == []

    async def test_equal_similarities_are_in_order_of_their_numbers(
        self, index: PassageIndex
    ) -> None:
        """The order is the same each time."""
        shelf = await self.shelf(index)
        rows = np.repeat(some_vectors(1), 5, axis=0)
        passages = placed(5)
        await index.put(shelf, passages[::-1], rows)
        hits = await index.nearest(shelf, rows[0], limit=5)
        assert [hit.passage_id for hit in hits] == [hit.passage_id for hit in passages]

    async def test_a_vector_of_zeros_is_far_from_all(self, index: PassageIndex) -> None:
        """A model may say nothing about a text."""
        shelf = await self.shelf(index)
        rows, passages = some_vectors(3), placed(3)
        rows[1] = 0
        await index.put(shelf, passages, rows)
        hits = await index.nearest(shelf, rows[0], limit=3)
        similarities = {hit.passage_id: hit.similarity for hit in hits}
        assert similarities[passages[1].passage_id] == pytest.approx(0.5)
        question = np.zeros(DIM, np.float32)
        hits = await index.nearest(shelf, question, limit=3)
        assert [hit.similarity for hit in hits] == pytest.approx([0.5] * len(hits))

    async def test_other_dimensions_are_refused(self, index: PassageIndex) -> None:
        """And what is not finite."""
        shelf = await self.shelf(index)
        with pytest.raises(ValueError, match="shape"):
            await index.put(shelf, placed(1), np.ones((1, DIM + 1), np.float32))
        with pytest.raises(ValueError, match="shape"):
            await index.put(shelf, placed(2), some_vectors(1))
        with pytest.raises(ValueError, match="finite"):
            await index.put(shelf, placed(1), np.full((1, DIM), np.nan, np.float32))
        await index.put(shelf, placed(1), some_vectors(1))
        with pytest.raises(ValueError, match="shape"):
            await index.nearest(shelf, np.ones(DIM - 1, np.float32), limit=1)

    @pytest.mark.parametrize("metric", METRICS)
    async def test_vectors_come_back_in_their_direction(
        self, index: PassageIndex, metric: Metric
    ) -> None:
        """`mmr` compares passages with each other."""
        shelf = await self.shelf(index, metric)
        rows, passages = some_vectors(3), placed(3)
        await index.put(shelf, passages, rows)
        ids = [passages[2].passage_id, passages[0].passage_id, 17]
        vectors = await index.vectors(shelf, ids)
        assert sorted(vectors) == sorted(ids[:2])
        assert vectors[ids[0]] == pytest.approx(rows[2], abs=1e-5)

    async def test_several_may_ask_and_write_at_once(self, index: PassageIndex) -> None:
        """Tasks of one process."""
        shelf = await self.shelf(index)
        rows = some_vectors(40)

        async def write(at: int) -> None:
            document = placed(10, first=2**61 + 10 * at, document=f"d{at}")
            await index.put(shelf, document, rows[10 * at : 10 * at + 10])
            await index.nearest(shelf, rows[at], limit=3)

        async with create_task_group() as group:
            for at in range(4):
                group.start_soon(write, at)
        assert await index.count(shelf) == 40

    async def test_it_can_be_used_after_it_was_closed(self, index: PassageIndex) -> None:
        """Closing lets go of what is open, no more."""
        shelf = await self.shelf(index)
        rows = some_vectors(2)
        await index.put(shelf, placed(2), rows)
        await index.aclose()
        hits = await index.nearest(shelf, rows[0], limit=1)
        assert [hit.passage_id for hit in hits] == _numbers(placed(1))


def _numbers(passages: Sequence[PassageKey]) -> list[int]:
    return [passage.passage_id for passage in passages]
