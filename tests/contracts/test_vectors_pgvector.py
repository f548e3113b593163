"""Vectors in PostgreSQL keep the duties of their seam, with and without pgvector."""

from collections.abc import AsyncGenerator

import pytest

from tests.postgres import PostgresServer
from tests.store.vectors.vector_stores import open_store, vectors_in
from toolgate.store.vectors import VectorStore
from toolgate.testing.contracts.vectors import VectorContract


class Postgres(VectorContract):
    extension = True

    @pytest.fixture
    async def vectors(self, postgres: PostgresServer) -> AsyncGenerator[VectorStore]:
        async with open_store(postgres.new_schema()) as store:
            yield vectors_in(store, extension=self.extension)


@pytest.mark.real
class TestWithPgvector(Postgres):
    """On a real server with the extension."""


@pytest.mark.real
class TestWithoutPgvector(Postgres):
    """On a server where the extension cannot be had."""

    extension = False
