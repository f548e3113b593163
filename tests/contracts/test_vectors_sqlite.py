"""Vectors in SQLite keep the duties of their seam."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.store.vectors.vector_stores import open_store, vectors_in
from toolgate.store.vectors import VectorStore
from toolgate.testing.contracts.vectors import VectorContract


class TestSqlite(VectorContract):
    @pytest.fixture
    async def vectors(self, tmp_path: Path) -> AsyncGenerator[VectorStore]:
        async with open_store(f"sqlite:///{tmp_path / 'toolgate.db'}") as store:
            yield vectors_in(store)


class TestSqliteInMemoryWithoutCache(VectorContract):
    @pytest.fixture
    async def vectors(self) -> AsyncGenerator[VectorStore]:
        async with open_store("sqlite://") as store:
            yield vectors_in(store, cache_mb=0)
