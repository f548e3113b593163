"""Documents in the REST door."""

import base64
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.documents.libraries import pdf
from toolgate.app.app import open_app
from toolgate.cli.client._local_gateway import in_process
from toolgate.settings import DocumentSettings, Settings, StoreSettings


class Rest:
    """The interface within the process."""

    def __init__(self, exchange: Any) -> None:
        self._exchange = exchange

    async def __call__(self, method: str, path: str, **body: object) -> tuple[int, Any]:
        status, raw = await self._exchange(method, f"/api/v1/{path}", body or None)
        return status, json.loads(raw)


@pytest.fixture
async def rest() -> AsyncGenerator[Rest]:
    settings = Settings(
        store=StoreSettings(url="sqlite://"), documents=DocumentSettings(max_file_mb=1)
    )
    async with open_app(settings) as app:
        yield Rest(in_process(app))


async def test_a_collection_is_made_filled_asked_and_removed(rest: Rest) -> None:
    status, made = await rest("POST", "collections", name="guides", description="How to")
    assert (status, made["place"], made["problem"]) == (201, "sqlite", None)
    status, added = await rest(
        "POST", "collections/guides/documents", source="a.md", text="# VPN\n\nAsk IT for a token."
    )
    assert (status, added) == (201, {"source": "a.md", "status": "added", "passages": 1})
    content = base64.b64encode(pdf("Budget", "5 million")).decode()
    status, added = await rest(
        "POST", "collections/guides/documents", source="b.pdf", content=content
    )
    assert (status, added["passages"]) == (201, 2)
    status, _ = await rest("POST", "collections/guides/documents", source="b.pdf", content=content)
    assert status == 200

    _, found = await rest("POST", "retrieve", question="vpn token", top_k=1)
    assert found["documents"][0]["metadata"]["heading"] == "VPN"
    assert found["text"].startswith("Quotations from files: data")
    assert set(found["took_ms"]) >= {"search"}

    _, listed = await rest("GET", "collections/guides/documents")
    assert [(row["source"], row["is_current"]) for row in listed["documents"]] == [
        ("a.md", True),
        ("b.pdf", True),
    ]
    _, again = await rest("POST", "collections/guides/reindex", metric="dot")
    assert (again["metric"], again["passages"]) == ("dot", 3)
    assert (await rest("POST", "collections/guides/settle"))[0] == 200
    _, gone = await rest("POST", "collections/guides/remove", sources=["a.md"])
    assert gone == {"removed": ["a.md"]}
    status, gone = await rest("DELETE", "collections/guides")
    assert (status, gone["documents"]) == (200, 1)
    assert await rest("GET", "collections") == (200, {"collections": []})


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("retrieve", {}, 400, "Member 'question' is missing"),
        ("retrieve", {"question": 1}, 400, "must be a string"),
        ("retrieve", {"question": "x", "top_k": "1"}, 400, "must be a whole number"),
        ("retrieve", {"question": "x", "grade": 1}, 400, "must be true or false"),
        ("retrieve", {"question": "x", "history": ["a"]}, 400, "'history[0]' must be an object"),
        ("retrieve", {"question": "x", "collections": [1]}, 400, "must be a list of strings"),
        ("retrieve", {"question": "x", "k": 1}, 400, "Unknown member 'k'"),
        ("retrieve", {"question": "x", "collections": ["no"]}, 400, "no collection 'no'"),
        ("collections", {"alias": "x"}, 400, "Member 'name' is missing"),
        ("collections/one/documents", {"source": "a"}, 400, "needs a source, and a text"),
        ("collections/one/documents", {"source": "a.md", "content": "§"}, 400, "not base64"),
        (
            "collections/one/documents",
            {"source": "a.x", "content": "YQ=="},
            422,
            "not a supported kind",
        ),
        ("collections/one/documents", {"source": "a.md", "text": " "}, 422, "has no text"),
        (
            "collections/one/documents",
            {"source": "a.md", "content": base64.b64encode(bytes(2**21)).decode()},
            422,
            "a.md has 2 MB",
        ),
    ],
)
async def test_wrong_bodies_say_what_is_wrong(
    rest: Rest, path: str, body: dict[str, Any], status: int, words: str
) -> None:
    await rest("POST", "collections", name="one")
    found, answer = await rest("POST", path, **body)
    assert found == status
    assert words in json.dumps(answer)
