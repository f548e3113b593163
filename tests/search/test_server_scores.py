"""The vectors of servers: the mean of their tools'."""

import numpy as np
import pytest

from tests.search.patient import PATIENT
from toolgate.models.embedders.bundled import BundledEmbedder
from toolgate.search import SearchableTool, SearchRequest
from toolgate.search.semantic.server_scores import _sums  # pyright: ignore[reportPrivateUsage]
from toolgate.search.strategies.hybrid import HybridSearch


@pytest.mark.parametrize("tools", [1, 2, 5, 8, 9, 40, 700])
def test_sums_by_server_are_those_of_numpy_to_the_last_bit(tools: int) -> None:
    """Scores must not depend on which way a sum was made: `reduceat` is only slower."""
    chance = np.random.default_rng(tools)
    rows = chance.standard_normal((700, 16)).astype(np.float32)
    owners = np.sort(chance.integers(0, max(1, 700 // tools), len(rows)))
    starts = np.flatnonzero(np.diff(owners, prepend=-1))

    assert (_sums(rows, starts) == np.add.reduceat(rows, starts, axis=0)).all()


async def test_tools_without_a_server_have_nothing_in_common() -> None:
    """Among others that have one, they are not held for a server that does everything."""
    described = {
        "recipes": "Find recipes for what is in the fridge",
        "crosswords": "Solve crossword puzzles",
        "mortgages": "Compute the monthly rate of a mortgage",
        "horoscope": "Tell the horoscope of a star sign",
        "palindromes": "Check whether a word is a palindrome",
    }
    nameless = [
        SearchableTool(key=key, server="", name=key, description=text)
        for key, text in described.items()
    ]
    kitchen = [
        SearchableTool(
            key=f"kitchen:{name}", server="kitchen", name=name, description=f"{text} of the kitchen"
        )
        for name, text in {"oven": "Heat the oven", "timer": "Set the timer"}.items()
    ]

    async def score_of(tools: list[SearchableTool], key: str, query: str) -> float:
        search = HybridSearch(PATIENT, BundledEmbedder())
        await search.update(tools)
        await search.ready()
        answer = await search.search(SearchRequest(queries=(query,), limit=10))
        await search.aclose()
        return next(hit.fields["score"] for hit in answer.hits if hit.key == key)

    queries = {"recipes": "recipe with leeks", "palindromes": "is level a palindrome"}
    for key, query in queries.items():
        assert await score_of([*nameless, *kitchen], key, query) == pytest.approx(1.0)
