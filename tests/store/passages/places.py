"""Places for vectors of passages in tests."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.store.vectors.places import opened
from toolgate.base.plugins import make
from toolgate.store import SqlAccess, StoredCollection
from toolgate.store.passages import PassageIndex
from toolgate.testing.contracts.passages import COLLECTION
from toolgate.types import PluginSpec

__all__ = ["in_store", "index_in"]


def index_in(
    name: str, store: SqlAccess | None = None, *, folder: Path | None = None, **options: Any
) -> PassageIndex:
    """The place that settings would make."""
    spec = PluginSpec(name=name, setting="documents.place", options=options)
    return make("passages", PassageIndex, spec, {"store": store, "data_dir": folder})


@asynccontextmanager
async def in_store(url: str, name: str, **options: Any) -> AsyncGenerator[PassageIndex]:
    """A place in a store that has the collection of the contract."""
    async with opened(url) as store:
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
        yield index_in(name, store, **options)
