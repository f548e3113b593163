"""Open stores and their vectors, in SQLite and PostgreSQL."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.store.stores import make_sql_store
from toolgate.base.plugins import make
from toolgate.search.semantic.tool_vector_store import ToolVectorStore
from toolgate.store import Store
from toolgate.store.postgres import PostgresStore
from toolgate.store.sqlite import SqliteStore
from toolgate.store.vectors import VectorStore
from toolgate.types import PluginSpec


def vectors_in(
    store: Store | None, kind: str = "", *, folder: Path | None = None, **options: Any
) -> VectorStore:
    """The vector store that settings would make; without a kind that of the store."""
    name = kind or (store.vector_backend if store else "")
    spec = PluginSpec(name=name, setting="search.vectors", options=options)
    return make("vectors", VectorStore, spec, {"store": store, "data_dir": folder})


def tool_vectors_in(store: Store, **options: Any) -> ToolVectorStore:
    """Where a gateway keeps the vectors of its tools."""
    return ToolVectorStore(vectors_in(store, **options), store.catalog.texts)


@asynccontextmanager
async def open_store(url: str) -> AsyncGenerator[SqliteStore | PostgresStore]:
    """A store that is open for a block."""
    store = make_sql_store(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()
