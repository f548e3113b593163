"""Vectors in SQLite keep the duties of their seam."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.store.vectors.vector_stores import open_store, vectors_in
from toolgate.testing.contracts.vectors import MakeVectors, VectorContract


class TestSqlite(VectorContract):
    @pytest.fixture
    async def make_vectors(self, tmp_path: Path) -> AsyncGenerator[MakeVectors]:
        url = f"sqlite:///{tmp_path / 'toolgate.db'}"
        async with AsyncExitStack() as stack:
            stores = iter([await stack.enter_async_context(open_store(url)) for _ in range(5)])
            yield lambda: vectors_in(next(stores), "sqlite")


class TestSqliteInMemory(VectorContract):
    @pytest.fixture
    async def make_vectors(self) -> AsyncGenerator[MakeVectors]:
        async with open_store("sqlite://") as store:
            yield lambda: vectors_in(store, "sqlite")
