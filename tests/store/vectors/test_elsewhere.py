"""A catalog whose vectors stay in the database: searched there, with the same answers."""

from dataclasses import replace

import anyio
import numpy as np
import pytest

from tests.limits import EMBEDDING_S, HANG_S
from tests.search.hashing import HashingEmbedder
from tests.store.stores import url_of
from tests.store.vectors.test_persistence import PATIENT, WEATHER, Failing
from tests.store.vectors.vector_stores import open_store, tool_vectors_in
from toolgate.search import SearchableTool, SearchRequest
from toolgate.search.strategies.hybrid import Options, build
from toolgate.testing.contracts.search import sample_tools

ELSEWHERE = Options(
    embedding_wait_s=EMBEDDING_S, embed_timeout_s=EMBEDDING_S, database_above=3, server_weight=0
)
IN_MEMORY = replace(PATIENT, server_weight=0)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.real)])
def url(request: pytest.FixtureRequest) -> str:
    return url_of(request.param, request)


REQUESTS = [
    WEATHER,
    SearchRequest(queries=("open an issue", "send an e-mail")),
    SearchRequest(queries=("Read the file notes. Then send it by mail.",), context="files"),
    SearchRequest(queries=("read a file",), servers=("files",)),
    SearchRequest(queries=("weather",), mask=np.arange(len(sample_tools())) % 2 == 1),
]


async def test_answers_are_those_of_an_index_in_memory(url: str) -> None:
    """Up to what is beyond the nearest few hundred, of which there are none here."""
    async with open_store(url) as store:
        memory = build(IN_MEMORY, embedder=HashingEmbedder())
        there = build(ELSEWHERE, embedder=HashingEmbedder(), vectors=tool_vectors_in(store))
        for strategy in (memory, there):
            await strategy.update(sample_tools())
            await strategy.wait_until_saved()

        for request in REQUESTS:
            expected = [hit.key for hit in (await memory.search(request)).hits]
            answer = await there.search(request)
            assert [hit.key for hit in answer.hits][:2] == expected[:2]
            assert {hit.key for hit in answer.hits} == set(expected)
            assert not any("words alone" in notice for notice in answer.notices)
        assert there._state.is_elsewhere
        assert there.vectors() is None
        await there.aclose()


async def test_a_restart_embeds_nothing_and_loads_nothing(url: str) -> None:
    async with open_store(url) as store:
        first = build(ELSEWHERE, embedder=HashingEmbedder(), vectors=tool_vectors_in(store))
        await first.update(sample_tools())
        await first.wait_until_saved()
        await first.aclose()

        embedder = HashingEmbedder()
        second = build(ELSEWHERE, embedder=embedder, vectors=tool_vectors_in(store))
        await second.update(sample_tools())
        await second.wait_until_saved()

        assert embedder.documents == []
        assert second.backlog == 0
        assert (await second.search(WEATHER)).hits[0].key == "weather:get-forecast"
        await second.aclose()


async def test_a_catalog_that_shrinks_comes_back_into_memory(url: str) -> None:
    embedder = HashingEmbedder()
    async with open_store(url) as store:
        strategy = build(ELSEWHERE, embedder=embedder, vectors=tool_vectors_in(store))
        await strategy.update(sample_tools())
        await strategy.wait_until_saved()
        embedder.documents.clear()

        await strategy.update(sample_tools()[:3])
        await strategy.wait_until_saved()

        assert not strategy._state.is_elsewhere
        assert strategy.backlog == 0
        assert embedder.documents == []
        await strategy.aclose()


async def test_words_answer_when_the_database_does_not(url: str) -> None:
    async with open_store(url) as store:
        place = Failing(tool_vectors_in(store))
        strategy = build(ELSEWHERE, embedder=HashingEmbedder(), vectors=place)  # pyright: ignore[reportArgumentType]
        await strategy.update(sample_tools())
        await strategy.wait_until_saved()
        place.names.add("nearest")

        answer = await strategy.search(WEATHER)

        assert answer.hits[0].key == "weather:get-forecast"
        assert any("did not answer" in notice for notice in answer.notices)
        assert (await strategy.index_status())["counted"]["fallbacks"] == 1

        place.names.clear()
        assert (await strategy.search(WEATHER)).notices == ()
        await strategy.aclose()


async def test_only_allowed_tools_are_found_however_far_they_are(url: str) -> None:
    """Filters are applied before ranking: the mask leaves the one that is farthest."""
    tools = [
        SearchableTool(key=f"s:t{n}", server="s", name=f"t{n}", description=f"Weather of {n}.")
        for n in range(900)
    ]
    odd = SearchableTool(key="s:x", server="s", name="x", description="Zebra crossing.")
    async with open_store(url) as store:
        strategy = build(ELSEWHERE, embedder=HashingEmbedder(), vectors=tool_vectors_in(store))
        await strategy.update([*tools, odd])
        await strategy.wait_until_saved()
        mask = np.zeros(901, np.bool_)
        mask[900] = True

        answer = await strategy.search(SearchRequest(queries=("weather zebras",), mask=mask))

        assert [hit.key for hit in answer.hits] == ["s:x"]
        assert answer.hits[0].fields["cosine"] is not None
        await strategy.aclose()


async def test_what_cannot_be_kept_is_searched_by_words_until_it_can(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vector that is not in the database is nowhere."""
    monkeypatch.setattr("toolgate.search.semantic.vector_cache._REST_S", 0.0)
    monkeypatch.setattr("toolgate.search.semantic.embedding_queue._SETTLE_AGAIN_S", 0.01)
    async with open_store(url) as store:
        place = Failing(tool_vectors_in(store), "save")
        strategy = build(ELSEWHERE, embedder=HashingEmbedder(), vectors=place)  # pyright: ignore[reportArgumentType]
        await strategy.update(sample_tools())
        assert strategy.backlog == len(sample_tools())
        assert (await strategy.search(WEATHER)).hits[0].key == "weather:get-forecast"

        place.names.clear()
        with anyio.fail_after(HANG_S):
            await strategy.wait_until_saved()

        assert strategy.backlog == 0
        await strategy.aclose()
