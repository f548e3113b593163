"""Vectors in Qdrant keep the duties of their seam; in a folder of this machine."""

from pathlib import Path

import pytest

from tests.store.vectors.vector_stores import vectors_in
from toolgate.errors import StoreError
from toolgate.store.vectors import VectorStore
from toolgate.testing.contracts.vectors import (
    VectorContract,
    keys_of,
    loaded,
    new_collection,
    some_rows,
)

pytestmark = pytest.mark.xdist_group("qdrant")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> VectorStore:
    """One for all tests: opening it takes longer than they do."""
    return vectors_in(None, "qdrant", folder=tmp_path_factory.mktemp("qdrant"))


@pytest.mark.real
class TestQdrant(VectorContract):
    @pytest.fixture
    def vectors(self, shared: VectorStore) -> VectorStore:
        return shared


@pytest.mark.real
async def test_passages_have_the_ids_that_they_always_had(tmp_path: Path) -> None:
    """Numbers, so that what was written before other keys came is still read."""
    from qdrant_client import QdrantClient, models

    collection, rows, keys = new_collection(), some_rows(2), keys_of(2)
    client = QdrantClient(path=str(tmp_path / "documents-qdrant"))
    name = f"toolgate_{collection.collection_id}"
    size = models.VectorParams(size=collection.dim, distance=models.Distance.DOT)
    client.create_collection(name, vectors_config=size)
    client.upsert(
        name,
        [
            models.PointStruct(
                id=int.from_bytes(key), vector=row.tolist(), payload={"document": "d1"}
            )
            for key, row in zip(keys, rows, strict=True)
        ],
    )
    client.close()
    vectors = vectors_in(None, "qdrant", folder=tmp_path)

    hits = await vectors.nearest(collection, rows[1], limit=1, groups=["d1"])

    assert [hit.key for hit in hits] == keys[1:]
    assert (await loaded(vectors, collection, keys)).keys() == set(keys)
    await vectors.aclose()


@pytest.mark.real
async def test_a_server_that_is_not_there_is_said_and_asked_again(tmp_path: Path) -> None:
    vectors = vectors_in(None, "qdrant", folder=tmp_path, url="http://127.0.0.1:9")
    for _ in range(2):
        with pytest.raises(StoreError, match="The vectors in qdrant cannot be reached"):
            await vectors.nearest(new_collection(), some_rows(1)[0], limit=1)
    await vectors.aclose()
