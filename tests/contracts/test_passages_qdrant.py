"""Vectors of passages in Qdrant keep the duties of their seam; in a folder of this machine."""

import pytest

from tests.passages.places import index_in
from toolgate.passages import PassageIndex
from toolgate.testing.contracts.passages import PassageContract


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> PassageIndex:
    """One for all tests: opening it takes longer than they do."""
    return index_in("qdrant", folder=tmp_path_factory.mktemp("qdrant"))


@pytest.mark.real
class TestQdrant(PassageContract):
    @pytest.fixture
    def index(self, place: PassageIndex) -> PassageIndex:
        return place
