"""Vectors in PostgreSQL keep the duties of their seam, with and without pgvector."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack

import pytest

from tests.postgres import PostgresServer
from tests.store.vectors.vector_stores import open_store, vectors_in
from toolgate.testing.contracts.vectors import MakeVectors, VectorContract


class Postgres(VectorContract):
    extension = True

    @pytest.fixture
    async def make_vectors(self, postgres: PostgresServer) -> AsyncGenerator[MakeVectors]:
        url = postgres.new_schema()
        async with AsyncExitStack() as stack:
            stores = iter([await stack.enter_async_context(open_store(url)) for _ in range(5)])
            yield lambda: vectors_in(next(stores), "pgvector", extension=self.extension)


@pytest.mark.real
class TestWithPgvector(Postgres):
    """On a real server with the extension."""


@pytest.mark.real
class TestWithoutPgvector(Postgres):
    """On a server where the extension cannot be had."""

    extension = False
