"""The search `cloud` keeps the contract over a real service, and never depends on it."""

from collections.abc import AsyncGenerator, Callable, Generator

import pytest

from tests.search.services import TOKEN, search_service_in_thread
from toolgate.search import SearchRequest, SearchStrategy
from toolgate.search.strategies.bm25 import Options as Bm25Options
from toolgate.search.strategies.bm25 import build as build_bm25
from toolgate.search.strategies.cloud import CloudSearch, Options, build
from toolgate.testing.contracts.search import SearchContract


def local(name: str) -> SearchStrategy:
    assert name == "bm25"
    return build_bm25(Bm25Options())


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    with search_service_in_thread() as url:
        yield url


class TestCloud(SearchContract):
    """All duties of a search strategy, with a Toolgate as the service."""

    @pytest.fixture
    async def make_strategy(self, url: str) -> AsyncGenerator[Callable[[], SearchStrategy]]:
        made: list[CloudSearch] = []

        def make() -> SearchStrategy:
            made.append(build(Options(url=url, token=TOKEN, local="bm25"), make_search=local))
            return made[-1]

        yield make
        for strategy in made:
            await strategy.aclose()

    async def test_the_service_answers_and_not_the_local_search(
        self, strategy: SearchStrategy
    ) -> None:
        """Or the suite would try the wrong one."""
        answer = await strategy.search(SearchRequest(queries=("open an issue", "read a file")))

        assert answer.fallback == ""
        assert {hit.source for hit in answer.hits} == {"cloud"}
