"""Open indexes of passages for tests."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.store.vectors.vector_stores import open_store
from toolgate.base.plugins import make
from toolgate.store import SqlAccess, StoredCollection
from toolgate.store.passages import PassageIndex
from toolgate.testing.contracts.passages import COLLECTION
from toolgate.types import PluginSpec

__all__ = ["make_index", "open_index"]


def make_index(
    name: str, store: SqlAccess | None = None, *, folder: Path | None = None, **options: Any
) -> PassageIndex:
    """The place that settings would make."""
    spec = PluginSpec(name=name, setting="documents.place", options=options)
    return make("passages", PassageIndex, spec, {"store": store, "data_dir": folder})


@asynccontextmanager
async def open_index(url: str, name: str, **options: Any) -> AsyncGenerator[PassageIndex]:
    """A place in a store that has the collection of the contract."""
    async with open_store(url) as store:
        await store.documents.save_collection(
            StoredCollection(
                collection_id=COLLECTION,
                project_id="default",
                name="docs",
                model="bundled",
                model_identity="m",
                dim=8,
                metric="cosine",
                place=name,
                shelf_id="s1",
            )
        )
        yield make_index(name, store, **options)
