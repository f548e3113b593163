"""The search `hybrid` keeps the contract with an embedder, and with one that never answers."""

from collections.abc import Callable

import pytest

from tests.limits import EMBEDDING_S
from tests.search.hashing import HashingEmbedder
from toolgate.search import SearchStrategy
from toolgate.search.strategies.hybrid import Options, build
from toolgate.testing.contracts.search import SearchContract

PATIENT = Options(embedding_wait_s=EMBEDDING_S, embed_timeout_s=EMBEDDING_S)


class TestHybrid(SearchContract):
    """All duties of a search strategy."""

    @pytest.fixture
    def make_strategy(self) -> Callable[[], SearchStrategy]:
        return lambda: build(PATIENT, embedder=HashingEmbedder())
