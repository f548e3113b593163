"""A hybrid search and the vectors that outlive it: restarts, failures, two gateways, bad rows."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.limits import HANG_S
from tests.search.hashing import HashingEmbedder
from tests.search.patient import PATIENT
from tests.store.stores import BOTH, run_sql, url_of
from tests.store.vectors.vector_stores import open_store, tool_vectors_in
from toolgate.errors import EmbedderError, StoreError
from toolgate.models.embedders import TextKind, Vectors, VerifiedEmbedder
from toolgate.models.embedders.bundled import BundledEmbedder
from toolgate.search import SearchableTool, SearchRequest
from toolgate.search.semantic.tool_vector_store import ToolVectorStore, VectorSpace
from toolgate.search.strategies.hybrid import HybridSearch, Options, build
from toolgate.testing.contracts.search import sample_tools
from toolgate.types import DEFAULT_PROJECT

WEATHER = SearchRequest(queries=("weather forecast for a place",))
SPACE = VectorSpace(model=HashingEmbedder.identity, dim=HashingEmbedder.dim)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.real)])
def url(request: pytest.FixtureRequest) -> str:
    return url_of(request.param, request)


@asynccontextmanager
async def searching(
    url: str,
    *,
    tools: Sequence[SearchableTool] | None = None,
    embedder: HashingEmbedder | None = None,
) -> AsyncGenerator[tuple[HybridSearch, HashingEmbedder]]:
    """A gateway's search over a store, settled; ended with the block."""
    embedder = embedder or HashingEmbedder()
    async with open_store(url) as store:
        strategy = build(PATIENT, embedder=embedder, vectors=tool_vectors_in(store))
        await strategy.update(sample_tools() if tools is None else tools)
        await strategy.wait_until_saved()
        try:
            yield strategy, embedder
        finally:
            await strategy.aclose()


async def test_a_restart_embeds_no_tool_and_changes_no_answer(url: str) -> None:
    """The issue: vectors are stored, and a restart reads them."""
    async with searching(url) as (strategy, embedder):
        before = (await strategy.search(WEATHER)).hits
        assert len(embedder.documents) > 0

    async with searching(url) as (strategy, embedder):
        after = (await strategy.search(WEATHER)).hits

        assert embedder.documents == []
        assert strategy.backlog == 0
        assert after == before
        status = await strategy.index_status()
        assert status["kept"]["vectors"] == len(set(sample_texts()))
        assert status["counted"]["vectors_loaded"] == status["kept"]["vectors"]


async def test_a_restart_tests_the_embedder_before_the_first_search(url: str) -> None:
    """That search waited 1.16 s for a service, a third of it for the test."""
    async with searching(url):
        pass
    embedder = HashingEmbedder()
    async with open_store(url) as store:
        vectors = tool_vectors_in(store)
        strategy = build(PATIENT, embedder=VerifiedEmbedder(embedder), vectors=vectors)
        await strategy.update(sample_tools())
        await strategy.wait_until_saved()
        assert len(embedder.documents) == 3
        await strategy.search(WEATHER)
        await strategy.aclose()

    assert len(embedder.documents) == 3


def sample_texts() -> list[tuple[str, ...]]:
    from toolgate.search.semantic.tool_vectors import texts_of

    return [texts_of(tool) for tool in sample_tools()]


async def test_one_changed_tool_costs_one_vector_after_a_restart_too(url: str) -> None:
    """The issue: incremental."""
    async with searching(url):
        pass
    tools = sample_tools()
    tools[6] = replace(tools[6], description="Play the xylophone.", digest="another")

    async with searching(url, tools=tools) as (strategy, embedder):
        assert sorted(embedder.documents) == [
            "Play the xylophone.",
            "files read file: Play the xylophone.",
            "files read file: Play the xylophone. Parameters: path",
            "read file",
        ]
        assert (await strategy.index_status())["counted"]["vectors_stored"] == 1
    async with searching(url, tools=tools) as (_, embedder):
        assert embedder.documents == []


async def test_another_model_computes_its_own_vectors(url: str) -> None:
    """Vectors of two models are never mixed; the first one's are there when it comes back."""

    class Another(HashingEmbedder):
        identity = "another model"

    async with searching(url):
        pass
    async with searching(url, embedder=Another()) as (strategy, embedder):
        assert embedder.documents != []
        assert (await strategy.index_status())["kept"]["vectors_of_other_models"] > 0
    async with searching(url) as (_, embedder):
        assert embedder.documents == []


async def test_two_gateways_on_one_database_share_their_vectors(url: str) -> None:
    """The second one reads what the first one computed, while both run."""
    async with searching(url), searching(url) as (strategy, embedder):
        assert embedder.documents == []
        assert strategy.backlog == 0


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE vectors SET vector = substr(vector, 1, 100)",
        "UPDATE vectors SET vector = :nothing",
        "UPDATE vectors SET vector = :infinite",
    ],
    ids=["cut off", "empty", "not finite"],
)
async def test_damaged_vectors_are_computed_again_and_repaired(url: str, damage: str) -> None:
    async with searching(url) as (strategy, _):
        before = (await strategy.search(WEATHER)).hits
    values: dict[str, Any] = {
        "nothing": b"",
        "infinite": np.full(SPACE.dim, np.inf, np.float16).tobytes(),
    }
    run_sql(url, damage, **{name: values[name] for name in values if f":{name}" in damage})

    async with searching(url) as (strategy, embedder):
        assert embedder.documents != []
        assert (await strategy.search(WEATHER)).hits == before
    async with searching(url) as (strategy, embedder):
        assert embedder.documents == []
        assert (await strategy.search(WEATHER)).hits == before


async def test_links_follow_the_tools(url: str) -> None:
    async with searching(url) as (strategy, _), open_store(url) as store:
        vectors = tool_vectors_in(store)
        linked = await vectors.links(DEFAULT_PROJECT)
        assert {f"{server}:{tool}" for server in linked for tool in linked[server]} == set(
            strategy.keys
        )

        tools = [tool for tool in sample_tools() if tool.key != "files:read_file"]
        await strategy.update(tools)
        await strategy.wait_until_saved()

        assert "read_file" not in (await vectors.links(DEFAULT_PROJECT))["files"]


async def test_a_forgotten_server_is_computed_again_by_the_next_start_or_a_refresh(
    url: str,
) -> None:
    """`toolgate index remove`; what is in memory serves until then."""
    async with searching(url) as (strategy, embedder):
        before = (await strategy.search(WEATHER)).hits
        embedder.documents.clear()
        assert await strategy.forget("weather") > 0
        assert await strategy.forget("weather") == 0
        assert (await strategy.search(WEATHER)).hits == before
        # Nothing of it is written along with others.
        await strategy.update([*sample_tools(), replace(sample_tools()[0], key="n:n", server="n")])
        await strategy.wait_until_saved()
        async with open_store(url) as store:
            assert "weather" not in await tool_vectors_in(store).links(DEFAULT_PROJECT)

        embedder.documents.clear()
        assert await strategy.refresh(["weather"]) > 0
        await strategy.wait_until_saved()
        async with open_store(url) as store:
            assert "weather" in await tool_vectors_in(store).links(DEFAULT_PROJECT)
        assert any(text.startswith("weather get forecast: ") for text in embedder.documents)
        assert not any(text.startswith("files ") for text in embedder.documents)
        assert (await strategy.search(WEATHER)).hits[0].key == before[0].key


async def test_a_refresh_of_all_computes_every_vector_anew(url: str) -> None:
    """Source document 003: `refreshUserToolEmbeddings`."""
    async with searching(url) as (strategy, embedder):
        first = sorted(embedder.documents)
        embedder.documents.clear()

        assert await strategy.refresh(None) == len(sample_tools())
        await strategy.wait_until_saved()

        assert sorted(embedder.documents) == first
        assert strategy.backlog == 0


class Failing:
    """A place for vectors of which methods fail."""

    def __init__(self, vectors: ToolVectorStore, *names: str) -> None:
        self.vectors, self.names = vectors, set(names)
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        if name not in self.names:
            return getattr(self.vectors, name)

        async def fail(*_: object, **__: object) -> None:
            self.calls += 1
            raise StoreError("The store failed: database or disk is full.")

        return fail


@pytest.mark.parametrize("names", [("load",), ("save",), ("link",), ("links",), ("settle",)])
async def test_a_place_that_fails_is_told_once_and_stops_nothing(
    names: tuple[str, ...], request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk, a lock, a database that went away."""
    url = url_of("sqlite", request)
    async with open_store(url) as store:
        place = Failing(tool_vectors_in(store), *names)
        strategy = build(PATIENT, embedder=HashingEmbedder(), vectors=place)  # pyright: ignore[reportArgumentType]
        await strategy.update(sample_tools())
        await strategy.ready()
        with anyio.fail_after(HANG_S):
            while not place.calls:
                await anyio.lowlevel.checkpoint()
        await anyio.wait_all_tasks_blocked()

        for at in range(3):
            await strategy.update(sample_tools()[at:])
            answer = await strategy.search(WEATHER)
            assert answer.hits[0].key == "weather:get-forecast"
            assert answer.notices == ()

        status = await strategy.index_status()
        await strategy.aclose()

    assert status["kept"]["is_failing"]
    assert "disk is full" in status["last_error"]
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert [record.getMessage() for record in warnings] == ["vectors are not stored"]


async def test_what_could_not_be_written_is_written_when_that_works_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolgate.search.semantic.vector_cache._REST_S", 0.0)
    monkeypatch.setattr("toolgate.search.semantic.embedding_queue._SETTLE_AGAIN_S", 0.01)
    async with open_store(url) as store:
        place = Failing(tool_vectors_in(store), "save")
        strategy = build(PATIENT, embedder=HashingEmbedder(), vectors=place)  # pyright: ignore[reportArgumentType]
        await strategy.update(sample_tools())
        await strategy.ready()
        with anyio.fail_after(HANG_S):
            while place.calls < 3:
                await anyio.lowlevel.checkpoint()
            place.names.clear()
            await strategy.wait_until_saved()
        await strategy.aclose()

    async with searching(url) as (_, embedder):
        assert embedder.documents == []


async def test_what_was_computed_when_the_gateway_stops_is_kept(url: str) -> None:
    """A stop in the middle loses nothing that is there."""

    class Stops(HashingEmbedder):
        def __init__(self) -> None:
            super().__init__()
            self.hangs = anyio.Event()

        async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
            if self.documents:
                self.hangs.set()
                await anyio.sleep_forever()
            return await super().embed(texts, kind)

    tools = [
        SearchableTool(key=f"s:t{n}", server="s", name=f"t{n}", description=f"Does {n}.")
        for n in range(100)
    ]
    embedder = Stops()
    async with open_store(url) as store:
        strategy = build(
            Options(embedding_wait_s=0), embedder=embedder, vectors=tool_vectors_in(store)
        )
        await strategy.update(tools)
        with anyio.fail_after(HANG_S):
            await embedder.hangs.wait()
        assert strategy.backlog == 36
        await strategy.aclose()

    async with searching(url, tools=tools) as (strategy, second):
        assert len(second.documents) == 3 * 36
        assert strategy.backlog == 0


async def test_an_embedder_that_fails_is_seen_in_the_status(url: str) -> None:
    class Broken(HashingEmbedder):
        async def embed(self, texts: Sequence[str], kind: TextKind) -> NDArray[np.float32]:
            raise EmbedderError("The model is not there.", hint="Install it.")

    async with open_store(url) as store:
        strategy = build(
            Options(embedding_wait_s=0.05), embedder=Broken(), vectors=tool_vectors_in(store)
        )
        await strategy.update(sample_tools())
        answer = await strategy.search(WEATHER)
        status = await strategy.index_status()
        await strategy.aclose()

    assert answer.hits[0].key == "weather:get-forecast"
    assert status["backlog"] == len(sample_tools())
    assert status["last_error"].startswith("The model is not there.")
    assert status["counted"]["fallback_rate"] == 1
    assert status["counted"]["embedding"]["document"]["failures"] == 1


@BOTH
async def test_other_programs_find_the_table_they_expect(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """Source document 003: one row for each tool, with its text, its hash and its model."""
    url = url_of(kind, request)
    async with searching(url) as (strategy, _), open_store(url) as store:

        def read(driver: Any) -> list[Any]:
            return driver.execute(
                "SELECT server, tool_name, enriched_description, input_schema_hash,"
                " embedding_model, embedding FROM mcp_tool_embeddings"
            ).fetchall()

        rows = await store.reading(read)

        assert {f"{row[0]}:{row[1]}" for row in rows} == set(strategy.keys)
        assert {row[4] for row in rows} == {HashingEmbedder.identity}
        assert all(row[5] is not None for row in rows)


@pytest.mark.real
async def test_other_programs_search_tools_by_a_function(request: pytest.FixtureRequest) -> None:
    """Source document 003: the nearest tools above a threshold, found in the index of the model."""
    embedder = BundledEmbedder()
    async with open_store(url_of("postgres", request)) as store:
        vectors = tool_vectors_in(store, hnsw_from=1)
        strategy = build(PATIENT, embedder=embedder, vectors=vectors)
        await strategy.update(sample_tools())
        await strategy.wait_until_saved()
        [vector] = await embedder.embed(["weather forecast for a place"], "query")
        literal = str(vector.tolist())
        scans: list[int] = []

        def search(driver: Any, arguments: str) -> list[Any]:
            # A table this small is read as a whole where that is allowed.
            driver.execute("SET LOCAL enable_seqscan = off")
            driver.execute("SET LOCAL enable_sort = off")
            statement = f"SELECT * FROM nearest_mcp_tools({arguments})"
            rows = driver.execute(statement, (literal,)).fetchall()
            [[scanned]] = driver.execute(
                "SELECT pg_stat_get_xact_numscans(indexrelid) FROM pg_stat_user_indexes"
                " WHERE indexrelname LIKE 'vector_hnsw_%' AND schemaname = current_schema()"
            ).fetchall()
            scans.append(scanned)
            return rows

        rows = await store.writing(lambda driver: search(driver, "%s, most => 3"))
        far = await store.writing(lambda driver: search(driver, "%s, threshold => 0.999"))
        other = await store.writing(lambda driver: search(driver, "%s, project => 'other'"))
        nearest = await strategy.search(WEATHER)
        await strategy.aclose()

    assert scans == [1, 2, 3]  # one for each statement
    assert f"{rows[0][0]}:{rows[0][1]}" == nearest.hits[0].key
    assert [row[3] for row in rows] == sorted((row[3] for row in rows), reverse=True)
    assert (len(rows), far, other) == (3, [], [])


async def test_a_clean_up_removes_old_vectors_that_no_tool_has(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs by itself; what is young or in use stays."""
    monkeypatch.setattr("toolgate.search.semantic.embedding_queue._FIRST_CLEAN_UP_S", 0.01)
    monkeypatch.setattr("toolgate.search.semantic.embedding_queue._SECOND_CLEAN_UP_S", 0.01)
    monkeypatch.setattr("toolgate.search.semantic.embedding_queue._CLEAN_UP_S", 0.01)
    async with searching(url):
        pass
    run_sql(url, "UPDATE tool_texts SET updated_at = '9999'")  # the store has no listing of them
    tools = [tool for tool in sample_tools() if tool.key != "files:read_file"]

    async with searching(url, tools=tools) as (strategy, _):
        with anyio.fail_after(HANG_S):
            while (await strategy.index_status())["kept"]["vectors"] == len(set(sample_texts())):
                await anyio.lowlevel.checkpoint()

    async with searching(url, tools=tools) as (_, embedder):
        assert embedder.documents == []
