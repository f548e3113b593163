"""`POST /catalog/search` as a server: who may ask, what is answered, what is kept for whom.

Source: source document 004, "Cloud REST" and "Auth", and the issue of the search.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.limits import HANG_S
from tests.search.services import OTHER, TOKEN, search_service, service_settings
from toolgate.app.app import App
from toolgate.errors import ArgumentError, UnknownPluginError
from toolgate.search import catalog_search_schema
from toolgate.search.strategies._catalog_search_json import read_answer
from toolgate.server.asgi.parsing.headers import HEADERS
from toolgate.server.rest.catalog_search import CatalogSearch, _read
from toolgate.settings import Settings
from toolgate.store import AuditFilter
from toolgate.testing import memory_app
from toolgate.testing.contracts.search import sample_tools
from toolgate.types import Caller, Json

RECORDED = Path(__file__).parents[1] / "search" / "data" / "catalog_search"
TOOLS = [
    {
        "toolKey": tool.key,
        "toolName": tool.name,
        "serverName": tool.server,
        "description": tool.description,
    }
    for tool in sample_tools()
]
KEYS = {tool["toolKey"] for tool in TOOLS}


def asking(*queries: str, **others: Any) -> Json:
    return {"query": list(queries or ("create an issue",)), "tools": TOOLS} | others


def recorded(name: str) -> Json:
    return json.loads((RECORDED / f"{name}.json").read_text("utf-8"))


def validator(schema: Json, name: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator({"$ref": f"#/$defs/{name}", **schema})


class Asker:
    """Sends requests to a catalog search within the process (ASGI)."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.search = CatalogSearch(app)

    async def __call__(
        self,
        body: object,
        token: str | None = TOKEN,
        *,
        method: str = "POST",
        kind: str = "application/json",
    ) -> tuple[int, Json, dict[str, str]]:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = [(b"content-type", kind.encode())]
        headers += [(b"authorization", f"Bearer {token}".encode())] if token is not None else []
        scope = {
            "type": "http",
            "method": method,
            "path": "/catalog/search",
            "headers": headers,
            HEADERS: dict(headers),
        }
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": raw, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        with anyio.fail_after(HANG_S):
            await self.search(scope, receive, send)
        answer = b"".join(message.get("body", b"") for message in sent[1:])
        shown = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return sent[0]["status"], json.loads(answer), shown


@asynccontextmanager
async def asker(settings: Settings | None = None) -> AsyncGenerator[Asker]:
    async with memory_app({}, settings or service_settings()) as app:
        made = Asker(app)
        try:
            yield made
        finally:
            await made.search.aclose()


# Who may ask


async def test_it_is_off_unless_tokens_are_configured() -> None:
    async with asker(Settings(optimization="off")) as ask:
        status, answer, _ = await ask(asking())

    assert (status, answer["error"]["code"]) == (404, "not_found")
    assert "[catalog_search]" in answer["error"]["hint"]


async def test_a_token_of_a_gateway_that_asks_for_tokens_is_as_good() -> None:
    """Also where the settings name none for others; without it, nothing is there."""
    async with asker(Settings(optimization="off", auth="required")) as ask:
        secret = (await ask.app.gateway.admin.create_token(Caller.local(), "other-gateway")).secret
        status, answer, _ = await ask(asking(maxResults=1), secret)
        refused, _, _ = await ask(asking(), f"{secret[:-4]}0000")
        await ask.app.recorder.flush()
        records = await ask.app.store.audit.select(AuditFilter(action="catalog_search"))

    assert status == 200
    assert answer["results"][0]["toolKey"].endswith(":create_issue")
    assert refused == 404
    assert [record.caller_id.partition(":")[0] for record in records] == ["token"]


async def test_guessing_a_token_is_slowed_down() -> None:
    async with asker(Settings(optimization="off", auth="required")) as ask:
        for _ in range(10):
            assert (await ask(asking(), "guess"))[0] == 404
        status, answer, headers = await ask(asking(), "guess")
        secret = (await ask.app.gateway.admin.create_token(Caller.local(), "other-gateway")).secret
        known, _, _ = await ask(asking(), secret)

    assert (status, answer["error"]["code"], known) == (429, "credential", 200)
    assert 0 < int(headers["retry-after"]) <= 60


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN[:-1], f"{TOKEN}x", "ümläut\u20ac"])
async def test_without_a_token_that_is_known_nothing_is_answered(token: str | None) -> None:
    async with asker() as ask:
        status, answer, headers = await ask(asking(), token)

    assert (status, answer["error"]["code"]) == (401, "access")
    assert headers["www-authenticate"] == 'Bearer realm="toolgate"'
    assert set(answer["error"]) == {"code", "message", "hint", "retryable", "request_id"}
    assert TOKEN not in json.dumps(answer)


async def test_a_token_may_stand_in_the_settings_as_its_hash() -> None:
    hashed = f"sha256:{hashlib.sha256(TOKEN.encode()).hexdigest()}"
    async with asker(service_settings(tokens={"a": (OTHER, hashed)})) as ask:
        assert (await ask(asking(), TOKEN))[0] == 200
        assert (await ask(asking(), OTHER))[0] == 200
        assert (await ask(asking(), hashed))[0] == 401


@pytest.mark.parametrize(
    ("project", "expected"),
    [("a", 200), ("", 200), (None, 200), ("UNASSIGNED", 200), ("__unassigned__", 200), ("b", 403)],
)
async def test_a_token_is_for_its_project_alone(project: str | None, expected: int) -> None:
    """Source document 004: access control at the `projectId` boundary; empty is null."""
    async with asker() as ask:
        status, answer, _ = await ask(asking(projectId=project))

    assert status == expected
    if status == 403:
        assert answer["error"]["code"] == "forbidden"


async def test_tokens_change_while_running() -> None:
    async with asker() as ask:
        assert (await ask(asking()))[0] == 200
        await ask.app.reload(replace(service_settings(tokens={"b": (OTHER,)}), servers=()))

        assert (await ask(asking()))[0] == 401
        assert (await ask(asking(), OTHER))[0] == 200


async def test_a_search_that_is_not_there_is_refused_at_the_start() -> None:
    with pytest.raises(UnknownPluginError, match=r"Set catalog_search\.strategy to one of these"):
        async with asker(service_settings("bm52")):
            pass


# What is answered


async def test_the_answer_has_the_shape_of_the_document() -> None:
    async with asker() as ask:
        status, answer, _ = await ask(asking(maxResults=2))

    assert status == 200
    assert validator(catalog_search_schema(), "SearchResponse").is_valid(answer)
    assert [one["toolKey"] for one in answer["results"]] == [
        "github:create_issue",
        "gitlab:create_issue",
    ]
    first = answer["results"][0]
    assert set(first) == {
        "toolKey",
        "toolName",
        "serverName",
        "description",
        "relevance",
        "explanation",
    }
    assert (first["toolName"], first["serverName"]) == ("create_issue", "github")
    assert first["description"] == "Open a new issue in a repository."


async def test_nothing_that_fits_is_said() -> None:
    async with asker() as ask:
        _, answer, _ = await ask(asking("zeppelin"))

    assert answer["results"] == []
    assert answer["notices"][0].startswith("Nothing fits")


@pytest.mark.parametrize("name", ["document", "least", "1", "later"])
async def test_recorded_requests_are_understood(name: str) -> None:
    """The issue: unknown fields ignored, optional `version`, additions only."""
    body = recorded(f"request-{name}")
    sent = {tool["toolKey"] for tool in body["tools"]}
    async with asker() as ask:
        status, answer, _ = await ask(body)

    assert status == 200
    assert validator(catalog_search_schema(), "SearchRequest").is_valid(body)
    assert validator(catalog_search_schema(), "SearchResponse").is_valid(answer)
    assert {one["toolKey"] for one in answer["results"]} <= sent
    assert bool(answer["results"]) == bool(sent)


@pytest.mark.parametrize("name", ["document", "least", "1", "later"])
def test_recorded_answers_are_understood(name: str) -> None:
    body = recorded(f"answer-{name}")
    hits, _ = read_answer(body, KEYS, query="x")

    assert validator(catalog_search_schema(), "SearchResponse").is_valid(body)
    assert [hit.key for hit in hits] == [one["toolKey"] for one in body["results"]]


def test_the_schema_only_grows() -> None:
    """The issue: pinned. What version 1 allowed and promised is allowed and promised for ever."""
    before, now = recorded("schema-1")["$defs"], catalog_search_schema()["$defs"]
    for name, old in before.items():
        new = now[name]
        assert new["required"] == old["required"]
        for member, shape in old["properties"].items():
            plain = {key: value for key, value in shape.items() if key != "description"}
            there = new["properties"][member]
            assert {key: value for key, value in there.items() if key != "description"} == plain


_values = st.none() | st.booleans() | st.integers(-2, 200) | st.floats(0, 200) | st.text(max_size=3)
_tools = st.fixed_dictionaries(
    {"toolKey": st.text(max_size=3)},
    optional={
        "toolName": st.text(max_size=3) | _values,
        "serverName": st.text(max_size=3),
        "description": _values,
        "extra": _values,
    },
)
_bodies = st.fixed_dictionaries(
    {},
    optional={
        "query": st.lists(st.text(max_size=3) | _values, max_size=3) | _values,
        "tools": st.lists(_tools | _values, max_size=3) | _values,
        "context": _values,
        "maxResults": _values,
        "version": _values,
        "other": _values,
    },
)


@given(body=_bodies)
@settings(max_examples=200, deadline=None)
def test_what_the_schema_allows_is_what_is_accepted(body: Json) -> None:
    """The written schema and the code that reads cannot differ."""
    try:
        _read(body, "a", 100, 5)
        accepted = True
    except ArgumentError:
        accepted = False

    assert accepted == validator(catalog_search_schema(), "SearchRequest").is_valid(body)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 400, "JSON"),
        ([], 400, "The body must be a JSON object."),
        ({"query": "one", "tools": []}, 400, "'query' must be a list of strings, one or more"),
        ({"query": [], "tools": []}, 400, "'query'"),
        ({"query": ["x"]}, 400, "'tools' is missing. It is a list of objects"),
        ({"query": ["x"], "tools": [7]}, 400, "'tools[0]' must be an object"),
        ({"query": ["x"], "tools": [{"toolKey": "a:b"}]}, 400, "'tools[0].toolName'"),
        (asking(maxResults=0), 400, "'maxResults' must be a whole number from 1 to 100, not 0"),
        (asking(maxResults=101), 400, "'maxResults'"),
        (asking(version="2"), 400, "'version'"),
        (asking(tools=TOOLS * 12), 413, "has 108 tools; at most 100 are searched here"),
        (b" " * 20_001, 413, "larger than 20000 bytes (setting catalog_search.max_body_bytes)"),
        (b"[" * 15_000, 400, "nested"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_what_does_not_fit_is_refused_with_the_reason(
    body: object, status: int, said: str
) -> None:
    async with asker(service_settings(max_tools=100, max_body_bytes=20_000)) as ask:
        got, answer, _ = await ask(body)

    assert (got, said in answer["error"]["message"]) == (status, True), answer


@pytest.mark.parametrize(
    ("method", "kind", "status"),
    [("GET", "application/json", 405), ("POST", "text/plain", 415), ("POST", "", 415)],
)
async def test_other_methods_and_media_types_are_refused(
    method: str, kind: str, status: int
) -> None:
    async with asker() as ask:
        got, answer, headers = await ask(asking(), method=method, kind=kind)

    assert got == status
    assert answer["error"]["hint"]
    assert (headers.get("allow") == "POST") == (status == 405)


# What is kept


def kept(ask: Asker) -> list[str]:
    """The project of each list that is kept, oldest first."""
    return [project for project, _ in ask.search._lists._entries]


async def test_a_list_is_indexed_once_and_never_for_another_project() -> None:
    async with asker() as ask:
        for token in (TOKEN, OTHER, TOKEN, OTHER):
            status, _, _ = await ask(asking(), token)
            assert status == 200
        indexes = list(ask.search._lists._entries.values())

        assert kept(ask) == ["a", "b"]
        assert indexes[0].strategy is not indexes[1].strategy
        await ask(asking(tools=[*TOOLS[:-1], {**TOOLS[-1], "description": "changed"}]))
        assert kept(ask) == ["a", "b", "a"]


async def test_two_requests_with_a_new_list_build_it_once() -> None:
    async with asker() as ask:
        answers = await asyncio.gather(*(ask(asking("mail")) for _ in range(5)))

        assert kept(ask) == ["a"]
    assert {json.dumps(answer) for _, answer, _ in answers} == {json.dumps(answers[0][1])}


async def test_few_lists_are_kept_those_used_last() -> None:
    async with asker(service_settings(kept_lists=2)) as ask:
        for number in (1, 2, 1, 3):
            await ask(asking(tools=TOOLS[:number]))
        sizes = [len(found.tools) for found in ask.search._lists._entries.values()]

    assert sizes == [1, 3]


async def test_lists_are_kept_within_their_bytes() -> None:
    large = [{**tool, "description": "x" * 20_000} for tool in TOOLS]
    async with asker(service_settings(kept_mb=2, max_body_bytes=10**7)) as ask:
        assert (await ask(asking(tools=large * 3)))[0] == 200
        assert kept(ask) == []  # too large by itself: searched and forgotten
        for number in range(4):
            await ask(asking(tools=[*TOOLS, {**large[0], "toolKey": f"more:{number}"}] * 4))
        assert 1 <= len(kept(ask)) < 4
        assert ask.search._lists._size_bytes() <= 2 * 2**20


async def test_a_key_that_is_there_twice_counts_once() -> None:
    async with asker() as ask:
        _, answer, _ = await ask(asking("create_issue", tools=[*TOOLS, *TOOLS]))

    found = [one["toolKey"] for one in answer["results"]]
    assert len(found) == len(set(found))


async def test_searches_are_recorded_without_the_tools() -> None:
    async with asker() as ask:
        await ask(asking("open a ticket"))
        await ask.app.recorder.flush()
        (record,) = await ask.app.store.audit.select(AuditFilter(action="catalog_search"))

    assert (record.query, record.caller_id) == ("open a ticket", "catalog:a")
    assert record.detail == {"project": "a", "tools": 9, "hits": 4}


async def test_it_answers_over_http_beside_the_other_doors() -> None:
    """Through the socket: `Host` is checked, an unknown token gets its answer at once."""
    async with search_service() as url, aiohttp.ClientSession() as http:
        place = f"{url}/catalog/search"
        good = {"authorization": f"Bearer {TOKEN}"}
        async with http.post(place, json=asking(), headers=good) as response:
            assert response.status == 200
            assert (await response.json())["results"]
            assert response.headers["x-request-id"]
        large = asking(tools=TOOLS * 200)
        async with http.post(place, json=large, headers={"authorization": "Bearer x"}) as response:
            assert response.status == 401
        async with http.post(place, json=asking(), headers=good | {"host": "evil.example"}) as no:
            assert no.status == 421
