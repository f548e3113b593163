"""What a deleted project leaves behind in the database of its vectors."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.documents.libraries import doc
from toolgate.settings import DocumentSettings, Settings
from toolgate.testing import memory_app
from toolgate.types import Caller

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("qdrant")]

ME = Caller.local()
WEB = replace(ME, project_id="web")


async def test_vectors_go_with_the_project_of_their_documents(tmp_path: Path) -> None:
    from qdrant_client import QdrantClient  # takes more than a second

    options = {"qdrant": {"path": str(tmp_path)}}
    documents = DocumentSettings(place="qdrant", place_options=options)
    async with memory_app({}, Settings(documents=documents)) as app:
        await app.gateway.admin.save_project(ME, "web", new=True)
        for caller in (ME, WEB):
            await app.gateway.documents.make(caller, "manuals")
            await app.gateway.documents.add(caller, "manuals", doc("a.md", "Press the red button."))
        await app.gateway.admin.delete_project(ME, "web")
        kept = await app.store.documents.collections("default")
        gone = await app.store.documents.collections("web")
    client = QdrantClient(path=str(tmp_path))
    left = [collection.name for collection in client.get_collections().collections]
    client.close()

    assert gone == []
    assert len(left) == len(kept) == 1
