"""Vectors of passages in Milvus keep the duties of their seam; Milvus Lite, the client's own."""

import pytest

from tests.passages.places import index_in
from toolgate.passages import PassageIndex
from toolgate.testing.contracts.passages import PassageContract


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> PassageIndex:
    """One for all tests: opening it takes longer than they do."""
    return index_in("milvus", folder=tmp_path_factory.mktemp("milvus"))


@pytest.mark.real
class TestMilvusLite(PassageContract):
    @pytest.fixture
    def index(self, place: PassageIndex) -> PassageIndex:
        return place
