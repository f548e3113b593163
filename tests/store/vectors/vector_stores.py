"""Open stores of tools' vectors in SQLite and PostgreSQL."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests.store.stores import make_sql_store
from toolgate.base.plugins import make
from toolgate.store import SqlAccess
from toolgate.store.postgres import PostgresStore
from toolgate.store.sqlite import SqliteStore
from toolgate.store.vectors import VectorStore
from toolgate.types import PluginSpec

__all__ = ["open_store", "vectors_in"]


def vectors_in(store: SqlAccess, kind: str, **options: object) -> VectorStore:
    """The way into a store that settings would make."""
    spec = PluginSpec(name=kind, setting="search.vectors", options=options)
    return make("vectors", VectorStore, spec, {"store": store})


@asynccontextmanager
async def open_store(url: str) -> AsyncGenerator[SqliteStore | PostgresStore]:
    """A store that is open for a block."""
    store = make_sql_store(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()
