"""Vectors of passages in PostgreSQL keep the duties of their seam, with and without pgvector."""

from collections.abc import AsyncGenerator

import numpy as np
import pytest

from tests.postgres import PostgresServer
from tests.store.passages.passage_indexes import open_index
from toolgate.store.passages import PassageIndex, VectorCollection
from toolgate.testing.contracts.passages import (
    COLLECTION,
    DIM,
    PassageContract,
    placed,
    some_vectors,
)


@pytest.mark.real
class TestWithPgvector(PassageContract):
    @pytest.fixture
    async def index(self, postgres: PostgresServer) -> AsyncGenerator[PassageIndex]:
        async with open_index(postgres.new_schema(), "pgvector", hnsw_from=20) as index:
            yield index

    async def test_a_large_shelf_is_searched_by_its_index(self, index: PassageIndex) -> None:
        shelf = VectorCollection(
            collection_id=COLLECTION, shelf_id="large", dim=DIM, metric="cosine"
        )
        rows = some_vectors(300)
        await index.put(shelf, placed(300), rows)
        await index.settle(shelf)
        await index.settle(shelf)  # nothing more to do
        found = await index.nearest(shelf, rows[17], limit=5)
        values = rows @ rows[17]
        assert [each.passage_id - 2**61 for each in found] == np.argsort(-values)[:5].tolist()
        await index.drop(shelf)
        assert await index.count(shelf) == 0


@pytest.mark.real
class TestWithoutPgvector(PassageContract):
    @pytest.fixture
    async def index(self, postgres: PostgresServer) -> AsyncGenerator[PassageIndex]:
        async with open_index(postgres.new_schema(), "pgvector", extension=False) as index:
            yield index
            assert "switched off" in index.notice
