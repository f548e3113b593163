"""The contract of passages finds faults: a broken place fails in the test that names its fault."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.store.passages.passage_indexes import open_index
from toolgate.store import SqlAccess
from toolgate.store.passages import PassageIndex, PassageKey, PassageMatch, VectorCollection
from toolgate.store.passages.sqlite import Options, SqlitePassages
from toolgate.testing.contracts.passages import PassageContract

pytestmark = pytest.mark.anyio


class MixesShelves(SqlitePassages):
    async def count(self, shelf: VectorCollection) -> int:
        found = await self.store.reading(
            lambda driver: self.rows(driver, "SELECT count(*) FROM passage_vectors", ())
        )
        return int(found[0][0])


class FiltersAfterRanking(SqlitePassages):
    async def nearest(
        self,
        shelf: VectorCollection,
        question: NDArray[np.float32],
        *,
        limit: int,
        documents: Collection[str] | None = None,
    ) -> list[PassageMatch]:
        found = await super().nearest(shelf, question, limit=limit)
        allowed = {2**61 + 100} if documents == ["rare"] else set[int]()
        return [each for each in found if documents is None or each.passage_id in allowed]


class KeepsRemoved(SqlitePassages):
    async def remove(self, shelf: VectorCollection, documents: Collection[str]) -> None:
        del shelf, documents


class TakesAnyDimension(SqlitePassages):
    async def put(
        self, shelf: VectorCollection, passages: Sequence[PassageKey], vectors: NDArray[np.float32]
    ) -> None:
        if vectors.shape == (len(passages), shelf.dim):
            await super().put(shelf, passages, vectors)


class OthersOrder(SqlitePassages):
    async def nearest(
        self,
        shelf: VectorCollection,
        question: NDArray[np.float32],
        *,
        limit: int,
        documents: Collection[str] | None = None,
    ) -> list[PassageMatch]:
        found = await super().nearest(shelf, question, limit=limit, documents=documents)
        return sorted(found, key=lambda each: (-each.similarity, -each.passage_id))


CONTRACT = PassageContract()


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (MixesShelves, CONTRACT.test_shelves_never_see_each_other),
        (FiltersAfterRanking, CONTRACT.test_a_filter_comes_before_the_ranking),
        (KeepsRemoved, CONTRACT.test_removing_a_document_removes_its_passages_alone),
        (TakesAnyDimension, CONTRACT.test_other_dimensions_are_refused),
        (OthersOrder, CONTRACT.test_equal_similarities_are_in_order_of_their_numbers),
    ],
)
async def test_the_contract_finds_it(
    broken: Callable[[SqlAccess, Options], PassageIndex], test: Callable[[PassageIndex], Any]
) -> None:
    async with open_index("sqlite://", "sqlite") as sound:
        assert isinstance(sound, SqlitePassages)
        await test(sound)
    async with open_index("sqlite://", "sqlite") as sound:
        assert isinstance(sound, SqlitePassages)
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            await test(broken(sound.store, Options()))
