"""The contract suite for embedders.

Example:
    ```python
    class TestMine(EmbedderContract):
        @pytest.fixture
        def make_embedder(self) -> Callable[[], Embedder]:
            return lambda: build(Options())
    ```
"""

from collections.abc import AsyncIterator, Callable
from time import perf_counter

import anyio
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolgate.models.embedders import Embedder
from toolgate.testing.contracts.search import HOSTILE_TEXTS

_TEXTS = (
    "Open a new issue in a repository.",
    "What will the weather be in Tokyo tomorrow?",
    "create_issue",
    "Send an e-mail to somebody.",
)

_CLOSE_ENOUGH = 1e-5
"""Tolerance for single precision."""


async def close(embedder: Embedder) -> None:
    """Close an embedder that has `aclose`."""
    end = getattr(embedder, "aclose", None)
    if end is not None:
        await end()


_any_text = st.text(st.characters(exclude_categories=()), max_size=80)


@pytest.mark.anyio
class EmbedderContract:
    """The requirements of `toolgate.models.embedders.Embedder`, one test each."""

    @pytest.fixture
    def make_embedder(self) -> Callable[[], Embedder]:
        """Builds an embedder with the same options each time; subclasses override it."""
        raise NotImplementedError

    @pytest.fixture
    async def embedder(self, make_embedder: Callable[[], Embedder]) -> AsyncIterator[Embedder]:
        """The embedder under test."""
        embedder = make_embedder()
        yield embedder
        await close(embedder)

    def test_it_satisfies_the_protocol(self, make_embedder: Callable[[], Embedder]) -> None:
        """`plugins.make` rejects others."""
        assert isinstance(make_embedder(), Embedder)

    def test_it_says_what_it_reads(self, make_embedder: Callable[[], Embedder]) -> None:
        """Search falls back to words for other scripts; known before anything is embedded."""
        assert make_embedder().reads in {"english", "many"}

    async def test_each_text_has_a_row_of_float32(self, embedder: Embedder) -> None:
        """Vector stores reserve `dim` numbers per row."""
        for texts in ((), _TEXTS[:1], _TEXTS):
            vectors = await embedder.embed(texts, "document")

            assert vectors.shape == (len(texts), embedder.dim)
            assert vectors.dtype == np.float32

    async def test_rows_are_in_the_order_of_the_texts(self, embedder: Embedder) -> None:
        """Sorting a batch by length must not be visible."""
        vectors = await embedder.embed(_TEXTS, "document")
        turned = await embedder.embed(_TEXTS[::-1], "document")

        assert np.abs(vectors - turned[::-1]).max() < _CLOSE_ENOUGH
        assert len({row.tobytes() for row in vectors.round(3)}) == len(_TEXTS)

    async def test_a_row_does_not_depend_on_its_neighbours(self, embedder: Embedder) -> None:
        """Vectors are cached by text, so the rest of the batch must not matter."""
        texts = (*_TEXTS, "a", "Read a file. " * 30)
        together = await embedder.embed(texts, "document")
        for text, row in zip(texts, together, strict=True):
            alone = await embedder.embed([text], "document")

            assert np.abs(alone[0] - row).max() < _CLOSE_ENOUGH

    async def test_equal_texts_have_equal_rows(self, embedder: Embedder) -> None:
        """Even after other texts in between."""
        before = await embedder.embed(_TEXTS[:1], "query")
        await embedder.embed(HOSTILE_TEXTS, "query")
        after = await embedder.embed(_TEXTS[:1], "query")

        assert np.array_equal(before, after)

    async def test_rows_have_length_one_or_zero(self, embedder: Embedder) -> None:
        """A dot product is then a cosine; zero if nothing is known of the text."""
        lengths = np.linalg.norm(await embedder.embed(_TEXTS, "query"), axis=1)

        assert np.abs(lengths - 1).max() < _CLOSE_ENOUGH

    async def test_any_text_has_a_row(self, embedder: Embedder) -> None:
        """Texts that clients may send as requests, or servers as descriptions."""
        vectors = await embedder.embed(HOSTILE_TEXTS, "document")
        lengths = np.linalg.norm(vectors, axis=1)

        assert np.isfinite(vectors).all()
        assert (np.minimum(np.abs(lengths - 1), lengths) < _CLOSE_ENOUGH).all()

    @settings(
        max_examples=40,
        deadline=None,
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.differing_executors,
        ],
    )
    @given(texts=st.lists(_any_text, max_size=4), kind=st.sampled_from(["query", "document"]))
    def test_any_texts_have_finite_rows_of_length_one_or_zero(
        self, make_embedder: Callable[[], Embedder], texts: list[str], kind: str
    ) -> None:
        """Including lone surrogates, control characters and unknown scripts."""

        async def embed() -> None:
            embedder = make_embedder()
            vectors = await embedder.embed(texts, "query" if kind == "query" else "document")
            lengths = np.linalg.norm(vectors, axis=1)

            assert vectors.shape == (len(texts), embedder.dim)
            assert np.isfinite(vectors).all()
            assert (np.minimum(np.abs(lengths - 1), lengths) < _CLOSE_ENOUGH).all()
            await close(embedder)

        anyio.run(embed)

    async def test_equal_identity_means_equal_vectors(
        self, make_embedder: Callable[[], Embedder]
    ) -> None:
        """Vectors outlive the process that computed them."""
        first, second = make_embedder(), make_embedder()
        theirs = [await embedder.embed(_TEXTS, "document") for embedder in (first, second)]
        await close(first)
        await close(second)

        assert first.identity == second.identity
        assert first.identity
        assert first.dim == second.dim >= 1
        assert np.array_equal(theirs[0], theirs[1])

    async def test_what_means_the_same_is_nearer_than_what_does_not(
        self, embedder: Embedder
    ) -> None:
        """The minimum that an embedder must do."""
        asked = await embedder.embed(["weather forecast in Tokyo"], "query")
        cosines = await embedder.embed(_TEXTS, "document") @ asked[0]

        assert int(cosines.argmax()) == 1

    async def test_many_texts_do_not_hold_up_the_event_loop(self, embedder: Embedder) -> None:
        """Thousands of tools are embedded while calls continue."""
        texts = [f"{text} {number}" for number in range(500) for text in _TEXTS]
        await embedder.embed(_TEXTS, "document")
        longest = 0.0
        done = anyio.Event()

        async def tick() -> None:
            nonlocal longest
            while not done.is_set():
                before = perf_counter()
                await anyio.lowlevel.checkpoint()
                longest = max(longest, perf_counter() - before)

        began = perf_counter()
        async with anyio.create_task_group() as group:
            group.start_soon(tick)
            await embedder.embed(texts, "document")
            done.set()
        whole = perf_counter() - began

        assert longest < max(0.5 * whole, 0.05)
