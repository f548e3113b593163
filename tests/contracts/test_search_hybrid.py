"""The search `hybrid` keeps the contract with an embedder, and with one that never answers."""

from collections.abc import Callable

import pytest

from tests.search.hashing import HashingEmbedder
from tests.search.patient import PATIENT
from toolgate.search import SearchStrategy
from toolgate.search.strategies.hybrid import build
from toolgate.testing.contracts.search import SearchContract


class TestHybrid(SearchContract):
    """All duties of a search strategy."""

    @pytest.fixture
    def make_strategy(self) -> Callable[[], SearchStrategy]:
        return lambda: build(PATIENT, embedder=HashingEmbedder())
