"""Vectors of requests are remembered for a while, and nobody waits for an embedder that fails."""

import asyncio
from collections.abc import Callable, Sequence

import anyio
import anyio.lowlevel
import numpy as np
import pytest

from tests.limits import HANG_S
from tests.search.hashing import HashingEmbedder
from toolgate.errors import EmbedderError
from toolgate.models.embedders import TextKind, Vectors, VerifiedEmbedder
from toolgate.search import SearchableTool, SearchRequest
from toolgate.search.semantic.query_vectors import QueryVectors
from toolgate.search.strategies.hybrid import Options, build


class Clock:
    """Goes on when told."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Hindered(HashingEmbedder):
    """Does something else as long as there is something."""

    hindrance: Callable[[], object] | None = None

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        rows = await super().embed(texts, kind)
        if self.hindrance is not None:
            found = self.hindrance()
            if found == "hang":
                await anyio.sleep_forever()
        return rows


def made(embedder: HashingEmbedder, clock: Clock, *, kept: int = 1_000) -> QueryVectors:
    return QueryVectors(
        embedder, timeout_s=0.05, cooldown_s=10, max_entries=kept, ttl_s=300, clock=clock
    )


class AtOnce(Hindered):
    """Says of texts with a blank that they are computed on the spot."""

    def computes_at_once(self, texts: Sequence[str]) -> bool:
        return all(" " in text for text in texts)


async def test_texts_that_are_computed_at_once_have_no_deadline() -> None:
    embedder = AtOnce()
    asked = QueryVectors(embedder, timeout_s=0.0, cooldown_s=10, max_entries=10)

    found = await asked.vectors_of(["the weather", "the news"])
    assert found is not None
    assert list(found) == ["the weather", "the news"]
    embedder.hindrance = lambda: "hang"
    assert await asked.vectors_of(["weather"]) is None
    assert "did not answer" in asked.trouble


async def test_what_is_computed_at_once_may_fail_all_the_same() -> None:
    embedder = AtOnce()

    def fail() -> None:
        raise EmbedderError("broken")

    embedder.hindrance = fail
    asked = made(embedder, Clock())
    assert await asked.vectors_of(["the weather"]) is None
    assert "failed" in asked.trouble


async def test_a_vector_is_kept_for_its_time_and_no_longer() -> None:
    embedder, clock = HashingEmbedder(), Clock()
    asked = made(embedder, clock)

    for _ in range(6):  # asking again does not make it younger
        clock.now += 60
        found = await asked.vectors_of(["weather"])
        assert found is not None
    clock.now += 1
    await asked.vectors_of(["weather"])

    assert embedder.queries == ["weather"] * 2


async def test_the_vectors_that_were_asked_for_last_are_kept() -> None:
    embedder = HashingEmbedder()
    asked = made(embedder, Clock(), kept=2)

    for text in ("a b", "c d", "a b", "e f", "a b", "c d"):
        await asked.vectors_of([text])

    assert embedder.queries == ["a b", "c d", "e f", "c d"]


async def test_only_new_texts_are_asked_for_and_each_once() -> None:
    embedder = HashingEmbedder()
    asked = made(embedder, Clock())
    await asked.vectors_of(["one"])

    found = await asked.vectors_of(["two", "one", "two", "three"])

    assert found is not None
    assert set(found) == {"one", "two", "three"}
    assert embedder.queries == ["one", "two", "three"]
    assert np.linalg.norm(found["two"]) == pytest.approx(1)


class Waiting(HashingEmbedder):
    """Answers once it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.told = anyio.Event()

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        await self.told.wait()
        return await super().embed(texts, kind)


async def test_vectors_that_come_late_are_kept_and_are_no_failure() -> None:
    embedder = Waiting()
    asked = made(embedder, Clock())

    for _ in range(5):  # the same words are sent once
        assert await asked.vectors_of(["weather"]) is None
        assert asked.trouble == "did not answer within 0.05 s"
    embedder.told.set()
    with anyio.fail_after(HANG_S):
        while await asked.vectors_of(["weather"]) is None:
            await anyio.lowlevel.checkpoint()

    assert embedder.queries == ["weather"]


async def test_an_embedder_that_never_answers_gets_a_few_requests() -> None:
    embedder = Hindered()
    embedder.hindrance = lambda: "hang"
    asked = QueryVectors(embedder, timeout_s=0.001, cooldown_s=10, max_entries=10)

    for number in range(30):
        assert await asked.vectors_of([f"text {number}"]) is None

    assert len(embedder.queries) == 16
    assert asked.trouble == "still works on earlier requests"
    await asked.aclose()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "toolgate query vectors"]


class Hosted(HashingEmbedder):
    """A service that takes its time."""

    is_remote = True

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        await anyio.sleep(0.35)
        return await super().embed(texts, kind)


async def test_a_service_gets_more_time_than_a_model_on_this_machine() -> None:
    """Also behind what checks and counts an embedder."""
    search = build(Options(), embedder=VerifiedEmbedder(Hosted()))
    tool = SearchableTool(key="a:x", server="a", name="forecast", description="Weather of a city.")
    await search.update([tool])
    await search.ready()

    answer = await search.search(SearchRequest(queries=("the weather in a city",)))
    await search.aclose()

    assert answer.fallback == ""
    assert not answer.notices


def fails() -> object:
    raise EmbedderError("The service is not there.", hint="Start it.")


@pytest.mark.parametrize(
    ("hindrance", "trouble"),
    [
        (lambda: "hang", "did not answer within 0.05 s"),
        (fails, "failed; the log of the gateway says why"),
    ],
    ids=["late", "failed"],
)
async def test_it_says_in_which_way_the_embedder_failed(
    hindrance: Callable[[], object], trouble: str
) -> None:
    """For the notice; what a service answered stays in the log."""
    embedder, clock = Hindered(), Clock()
    asked = made(embedder, clock)
    embedder.hindrance = hindrance

    assert await asked.vectors_of(["weather"]) is None
    assert asked.trouble == trouble


async def test_after_three_failures_it_rests_but_knows_what_it_knew() -> None:
    embedder, clock = Hindered(), Clock()
    asked = made(embedder, clock)
    await asked.vectors_of(["known"])
    embedder.hindrance = fails
    for number in range(5):
        assert await asked.vectors_of([f"new {number}"]) is None
    assert embedder.queries[1:] == ["new 0", "new 1", "new 2"]
    assert asked.trouble == "failed several times, and is left alone for a while"

    assert await asked.vectors_of(["known"]) is not None
    assert asked.trouble == ""

    embedder.hindrance = None
    clock.now += 11
    assert await asked.vectors_of(["new 3"]) is not None
