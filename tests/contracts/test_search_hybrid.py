"""The search `hybrid` keeps the contract with an embedder, and with one that never answers."""

from collections.abc import Callable

import pytest

from tests.search.hashing import HashingEmbedder
from toolgate.search import SearchStrategy
from toolgate.search.strategies.hybrid import Options, build
from toolgate.testing.contracts.search import SearchContract

PATIENT = Options(embedding_wait_s=5, embed_timeout_s=5)


class TestHybrid(SearchContract):
    """All duties of a search strategy."""

    @pytest.fixture
    def make_strategy(self) -> Callable[[], SearchStrategy]:
        return lambda: build(PATIENT, embedder=HashingEmbedder())
