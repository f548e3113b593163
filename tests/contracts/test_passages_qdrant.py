"""Vectors of passages in Qdrant keep the duties of their seam; in a folder of this machine."""

from pathlib import Path

import pytest

from tests.store.passages.passage_indexes import make_index
from toolgate.errors import StoreError
from toolgate.store.passages import PassageIndex
from toolgate.testing.contracts.passages import PassageContract, new_shelf, some_vectors


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> PassageIndex:
    """One for all tests: opening it takes longer than they do."""
    return make_index("qdrant", folder=tmp_path_factory.mktemp("qdrant"))


@pytest.mark.real
class TestQdrant(PassageContract):
    @pytest.fixture
    def index(self, place: PassageIndex) -> PassageIndex:
        return place


@pytest.mark.real
@pytest.mark.anyio
async def test_a_server_that_is_not_there_is_said_and_asked_again(tmp_path: Path) -> None:
    index = make_index("qdrant", folder=tmp_path, url="http://127.0.0.1:9")
    for _ in range(2):
        with pytest.raises(StoreError, match="The vectors in qdrant cannot be reached"):
            await index.nearest(new_shelf(), some_vectors(1)[0], limit=1)
    await index.aclose()
