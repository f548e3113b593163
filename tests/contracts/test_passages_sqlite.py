"""Vectors of passages in SQLite keep the duties of their seam."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.store.passages.passage_indexes import open_index
from toolgate.store.passages import PassageIndex
from toolgate.testing.contracts.passages import PassageContract


class TestSqlite(PassageContract):
    @pytest.fixture
    async def index(self, tmp_path: Path) -> AsyncGenerator[PassageIndex]:
        async with open_index(f"sqlite:///{tmp_path / 'toolgate.db'}", "sqlite") as index:
            yield index


class TestSqliteWithoutMemory(PassageContract):
    @pytest.fixture
    async def index(self) -> AsyncGenerator[PassageIndex]:
        async with open_index("sqlite://", "sqlite", cache_mb=0) as index:
            yield index
