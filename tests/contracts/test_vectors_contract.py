"""The contract of vectors finds faults: a broken store fails in the test that names its fault."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.store.vectors.vector_stores import open_store
from toolgate.store.vectors import Rows, VectorCollection, VectorMatch, VectorStore
from toolgate.store.vectors.sqlite import Options, SqliteVectors
from toolgate.testing.contracts.vectors import VectorContract


class MixesCollections(SqliteVectors):
    async def count(self, collection: VectorCollection) -> int:
        [[count]] = await self.store.reading(
            lambda driver: self.rows(driver, "SELECT count(*) FROM vectors")
        )
        return int(count)


class LosesRows(SqliteVectors):
    async def put(
        self,
        collection: VectorCollection,
        keys: Sequence[bytes],
        rows: Rows,
        *,
        groups: Sequence[str] | None = None,
    ) -> int:
        await super().put(collection, keys[:-1], rows[:-1])
        return len(keys)


class TakesAnyDimension(SqliteVectors):
    async def put(
        self,
        collection: VectorCollection,
        keys: Sequence[bytes],
        rows: Rows,
        *,
        groups: Sequence[str] | None = None,
    ) -> int:
        if rows.shape != (len(keys), collection.dim):
            return 0
        return await super().put(collection, keys, rows, groups=groups)


class FiltersAfterRanking(SqliteVectors):
    async def nearest(
        self,
        collection: VectorCollection,
        query: NDArray[np.float32],
        *,
        limit: int,
        keys: Sequence[bytes] | None = None,
        groups: Collection[str] | None = None,
    ) -> list[VectorMatch]:
        hits = await super().nearest(collection, query, limit=limit)
        allowed = await super().nearest(collection, query, limit=10_000, keys=keys, groups=groups)
        return [hit for hit in hits if hit in allowed]


class OrdersOtherwise(SqliteVectors):
    async def nearest(
        self,
        collection: VectorCollection,
        query: NDArray[np.float32],
        *,
        limit: int,
        keys: Sequence[bytes] | None = None,
        groups: Collection[str] | None = None,
    ) -> list[VectorMatch]:
        hits = await super().nearest(collection, query, limit=limit, keys=keys, groups=groups)
        return hits[::-1]


class KeepsRemoved(SqliteVectors):
    async def remove(
        self,
        collection: VectorCollection,
        *,
        keys: Collection[bytes] = (),
        groups: Collection[str] = (),
    ) -> None:
        del collection, keys, groups


class RemembersTooLong(SqliteVectors):
    def _forget(self, collection: VectorCollection) -> None:
        del collection


class RoundsHalfVectors(SqliteVectors):
    async def put(
        self,
        collection: VectorCollection,
        keys: Sequence[bytes],
        rows: Rows,
        *,
        groups: Sequence[str] | None = None,
    ) -> int:
        return await super().put(collection, keys, rows.round(3), groups=groups)


CONTRACT = VectorContract


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (MixesCollections, CONTRACT.test_collections_never_see_each_other),
        (LosesRows, CONTRACT.test_half_vectors_are_read_as_they_were_put),
        (RoundsHalfVectors, CONTRACT.test_half_vectors_are_read_as_they_were_put),
        (TakesAnyDimension, CONTRACT.test_vectors_that_do_not_fit_are_refused),
        (FiltersAfterRanking, CONTRACT.test_only_allowed_keys_are_ranked),
        (FiltersAfterRanking, CONTRACT.test_only_allowed_groups_are_ranked),
        (OrdersOtherwise, CONTRACT.test_equal_scores_are_in_the_order_of_their_keys),
        (KeepsRemoved, CONTRACT.test_removing_removes_what_is_named_alone),
        (RemembersTooLong, CONTRACT.test_removing_removes_what_is_named_alone),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_broken_store_fails_in_the_test_that_names_its_fault(
    broken: type[SqliteVectors], test: Callable[[VectorContract, VectorStore], Any]
) -> None:
    async with open_store("sqlite://") as store:
        await test(VectorContract(), SqliteVectors(store, Options()))
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            await test(VectorContract(), broken(store, Options()))
