"""The search `llm` keeps the contract with a model that agrees with the ranking."""

import json
from collections.abc import AsyncGenerator, Callable, Generator

import pytest
from anyio.from_thread import start_blocking_portal

from toolgate.search import SearchRequest, SearchStrategy
from toolgate.search.strategies.bm25 import Options as Bm25Options
from toolgate.search.strategies.bm25 import build as build_bm25
from toolgate.search.strategies.llm import ModelSearch, Options, build
from toolgate.testing import chat_reply, fake_service
from toolgate.testing.contracts.search import SearchContract
from toolgate.types import Json


def agree(body: Json) -> Json:
    """A model that picks every candidate in the order in which it sees them."""
    task: Json = json.loads(body["messages"][1]["content"])
    return chat_reply(
        [
            {"tool": tool["tool"], "relevance": 0.95 - tool["tool"] / 200, "why": "it fits"}
            for tool in task["tools"]
        ]
    )


def local(name: str) -> SearchStrategy:
    assert name == "bm25"
    return build_bm25(Bm25Options())


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(fake_service(agree)) as service,
    ):
        yield service.url


class TestLlm(SearchContract):
    """All duties of a search strategy."""

    @pytest.fixture
    async def make_strategy(self, url: str) -> AsyncGenerator[Callable[[], SearchStrategy]]:
        made: list[ModelSearch] = []
        options = Options(url=f"{url}/v1", model="double", local="bm25")

        def make() -> SearchStrategy:
            made.append(build(options, make_search=local))
            return made[-1]

        yield make
        for strategy in made:
            await strategy.aclose()

    async def test_the_model_picks_and_not_the_ranking(self, strategy: SearchStrategy) -> None:
        """Or the suite would try the wrong one."""
        answer = await strategy.search(SearchRequest(queries=("open an issue", "read a file")))

        assert answer.fallback == ""
        assert {hit.source for hit in answer.hits} == {"llm"}
        assert {hit.explanation for hit in answer.hits} == {"it fits"}
