"""Vectors of passages in Milvus keep the duties of their seam; Milvus Lite, the client's own."""

import pytest

from tests.store.passages.passage_indexes import make_index
from toolgate.store.passages import METRICS, Metric, PassageIndex, VectorCollection
from toolgate.testing.contracts.passages import DOCUMENTS, PassageContract, new_shelf

SHELVES = {metric: new_shelf(metric) for metric in METRICS}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> PassageIndex:
    """One for all tests: opening it takes longer than they do."""
    return make_index("milvus", folder=tmp_path_factory.mktemp("milvus"))


@pytest.mark.real
class TestMilvusLite(PassageContract):
    @pytest.fixture
    def index(self, place: PassageIndex) -> PassageIndex:
        return place

    async def shelf(self, index: PassageIndex, metric: Metric = "cosine") -> VectorCollection:
        """One for each metric: the client sleeps half a second when it makes one."""
        shelf = SHELVES[metric]
        await index.remove(shelf, DOCUMENTS)
        return shelf
