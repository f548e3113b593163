"""The SQLite store keeps the duties of its seam."""

from pathlib import Path

import pytest

from toolgate.testing.contracts.store import StoreContract


class TestSqlite(StoreContract):
    @pytest.fixture
    def store_url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path / 'data' / 'toolgate.db'}"
