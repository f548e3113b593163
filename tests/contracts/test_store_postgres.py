"""The PostgreSQL store keeps the duties of its seam, on a real server."""

import pytest

from tests.postgres import PostgresServer
from toolgate.testing.contracts.store import StoreContract


@pytest.mark.real
class TestPostgres(StoreContract):
    @pytest.fixture
    def store_url(self, postgres: PostgresServer) -> str:
        return postgres.new_schema()
