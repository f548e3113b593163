"""Vectors in Milvus keep the duties of their seam; in Milvus Lite, a file of the client's own."""

from pathlib import Path
from typing import Any

import pytest

from tests.store.vectors.vector_stores import vectors_in
from toolgate.store.vectors import METRICS, Metric, Precision, VectorCollection, VectorStore
from toolgate.testing.contracts.vectors import (
    GROUPS,
    VectorContract,
    keys_of,
    loaded,
    new_collection,
    some_rows,
)

COLLECTIONS: dict[tuple[Metric, Precision], VectorCollection] = {
    (metric, precision): new_collection(metric, precision)
    for metric in METRICS
    for precision in ("half", "single")
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> VectorStore:
    """One for all tests: opening it takes longer than they do."""
    return vectors_in(None, "milvus", folder=tmp_path_factory.mktemp("milvus"))


@pytest.mark.real
class TestMilvusLite(VectorContract):
    @pytest.fixture
    def vectors(self, shared: VectorStore) -> VectorStore:
        return shared

    async def collection(
        self, vectors: VectorStore, metric: Metric = "cosine", precision: Precision = "single"
    ) -> VectorCollection:
        """One for each metric: the client sleeps half a second when it makes one."""
        collection = COLLECTIONS[metric, precision]
        keys = [key async for page in vectors.keys(collection) for key in page]
        await vectors.remove(collection, keys=keys, groups=GROUPS)
        return collection


@pytest.mark.real
async def test_collections_of_the_first_layout_are_still_read(tmp_path: Path) -> None:
    """Made when the keys of Milvus were the numbers of passages."""
    from pymilvus import DataType, MilvusClient  # pyright: ignore[reportMissingTypeStubs]

    collection, rows, keys = new_collection(), some_rows(4), keys_of(4)
    client: Any = MilvusClient(str(tmp_path / "documents-milvus.db"))
    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("passage", DataType.INT64, is_primary=True)
    schema.add_field("document", DataType.VARCHAR, max_length=64)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=collection.dim)
    indexes = client.prepare_index_params()
    indexes.add_index("vector", index_type="FLAT", metric_type="IP", params={})
    name = f"toolgate_{collection.collection_id}"
    client.create_collection(name, schema=schema, index_params=indexes)
    documents = ["d1", "d1", "d1", "d2"]
    client.upsert(
        name,
        [
            {"passage": int.from_bytes(key), "document": document, "vector": row.tolist()}
            for key, document, row in zip(keys, documents, rows, strict=True)
        ],
    )
    client.close()
    vectors = vectors_in(None, "milvus", folder=tmp_path)

    hits = await vectors.nearest(collection, rows[2], limit=1, groups=["d1"])
    await vectors.remove(collection, groups=["d2"])

    assert [hit.key for hit in hits] == keys[2:3]
    assert (await loaded(vectors, collection, keys)).keys() == set(keys[:3])
    await vectors.aclose()
