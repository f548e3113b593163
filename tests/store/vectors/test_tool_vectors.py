"""Vectors of tools: shared by equal texts, removed with the last tool, kept apart by model."""

from collections.abc import AsyncGenerator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.store.stores import url_of
from tests.store.vectors.vector_stores import open_store, tool_vectors_in, vectors_in
from toolgate.base.ids import utc_now
from toolgate.search.semantic.tool_vector_store import ToolVectorStore, VectorSpace
from toolgate.store import TextLink
from toolgate.testing.contracts.vectors import DIM, key_of, loaded, new_collection, some_rows
from toolgate.types import DEFAULT_PROJECT

SPACE = VectorSpace(model="model a", dim=DIM)
OTHER = VectorSpace(model="model b", dim=DIM)
SHORTER = VectorSpace(model="model a", dim=12)
HASHES = [key_of(number) for number in range(4)]
QUERY = np.ones(DIM, np.float32)


@pytest.fixture(
    params=[
        "sqlite",
        *(pytest.param(kind, marks=pytest.mark.real) for kind in ("postgres", "qdrant")),
    ]
)
async def tools(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ToolVectorStore]:
    """In the store, or in another vector database while the store has the texts."""
    is_elsewhere = request.param == "qdrant"
    async with open_store(url_of("sqlite" if is_elsewhere else request.param, request)) as store:
        if is_elsewhere:
            vectors = vectors_in(None, "qdrant", folder=tmp_path)
            yield ToolVectorStore(vectors, store.catalog.texts)
            await vectors.aclose()
        else:
            yield tool_vectors_in(store)


def rows(count: int, dim: int = DIM, *, seed: int = 7) -> NDArray[np.float16]:
    return some_rows(count, dim, seed=seed).astype(np.float16)


def links(*numbers: int) -> list[TextLink]:
    return [TextLink(tool=f"t{number}", text_hash=key_of(number)) for number in numbers]


async def test_models_and_dimensions_never_meet(tools: ToolVectorStore) -> None:
    text = HASHES[:1]
    await tools.save(SPACE, text, rows(1))
    assert (await tools.known(OTHER, text)).tolist() == [False]
    await tools.save(OTHER, text, rows(1, seed=8))
    await tools.save(SHORTER, text, rows(1, 12))

    near = await tools.nearest(SHORTER, np.ones(12, np.float32), limit=9)
    counts = await tools.counts(OTHER, DEFAULT_PROJECT)
    read: list[NDArray[np.float16]] = []
    await tools.load(SPACE, text, lambda _, found: read.append(found.astype(np.float16)))

    assert read[0].tobytes() == rows(1).tobytes()
    assert [hit.key for hit in near] == text
    assert (counts.vectors, counts.vectors_of_other_models) == (1, 2)


async def test_a_removed_server_takes_its_vectors_along(tools: ToolVectorStore) -> None:
    """Except those of texts that another server has too."""
    for space in (SPACE, OTHER):
        await tools.save(space, HASHES, rows(4))
    await tools.link(DEFAULT_PROJECT, "s", links(0, 1, 2))
    await tools.link(DEFAULT_PROJECT, "t", links(2, 3))

    assert await tools.unlink(DEFAULT_PROJECT, "s") == 3

    for space in (SPACE, OTHER):
        assert (await tools.known(space, HASHES)).tolist() == [False, False, True, True]
        assert {hit.key for hit in await tools.nearest(space, QUERY, limit=9)} == set(HASHES[2:])
    counts = await tools.counts(SPACE, DEFAULT_PROJECT)
    assert (counts.vectors, counts.tools, counts.servers) == (2, 2, 1)


async def test_a_clean_up_removes_what_no_tool_had_at_the_last_one(tools: ToolVectorStore) -> None:
    """The tools of a new vector may be linked in a moment."""
    long_ago = utc_now(plus_s=-60)
    await tools.save(SPACE, HASHES, rows(4))
    await tools.link(DEFAULT_PROJECT, "s", links(0, 1))

    assert await tools.prune(SPACE, before=long_ago) == 0
    await tools.link(DEFAULT_PROJECT, "s", links(0, 2))
    assert await tools.prune(SPACE, before=long_ago) == 1

    assert (await tools.known(SPACE, HASHES)).tolist() == [True, True, True, False]
    assert await tools.prune(SPACE, before=long_ago) == 1
    assert (await tools.known(SPACE, HASHES)).tolist() == [True, False, True, False]


async def test_a_clean_up_removes_models_that_nobody_uses(tools: ToolVectorStore) -> None:
    """After 30 days; the one that is in use stays whatever its last use was."""
    await tools.save(SPACE, HASHES, rows(4))
    await tools.save(OTHER, HASHES, rows(4))
    in_40_days = utc_now(plus_s=40 * 86_400)

    assert await tools.prune(None, before=utc_now(plus_s=20 * 86_400)) == 0
    assert await tools.prune(None, before=in_40_days) == 8

    counts = await tools.counts(SPACE, DEFAULT_PROJECT)
    assert (counts.vectors, counts.vectors_of_other_models) == (0, 0)


async def test_equal_vectors_are_not_written_again(request: pytest.FixtureRequest) -> None:
    """Source document 003: an upsert that skips unchanged hashes."""
    async with open_store(url_of("sqlite", request)) as store:
        tools = tool_vectors_in(store)
        await tools.save(SPACE, HASHES, rows(4))
        changed = rows(4)
        changed[1] = rows(1, seed=8)[0]

        assert await tools.save(SPACE, HASHES, rows(4)) == 0
        assert await tools.save(SPACE, HASHES, changed) == 1


async def test_equal_scores_at_the_limit_are_those_of_the_first_keys(
    request: pytest.FixtureRequest,
) -> None:
    """Where every row is compared, the order of writing does not show."""
    async with open_store(url_of("sqlite", request)) as store:
        vectors, collection = vectors_in(store), new_collection()
        keys = [key_of(number) for number in (5, 3, 9, 1)]
        await vectors.put(collection, keys, np.repeat(some_rows(1), 4, axis=0))

        hits = await vectors.nearest(collection, QUERY, limit=3)

        assert [hit.key for hit in hits] == sorted(keys)[:3]


async def test_what_another_process_writes_is_seen_with_the_next_version(tmp_path: Path) -> None:
    """Vectors stay in memory for one version of their collection."""
    url = f"sqlite:///{tmp_path / 'toolgate.db'}"
    async with open_store(url) as first, open_store(url) as second:
        collection = new_collection()
        reader, writer = vectors_in(first), vectors_in(second)
        await writer.put(collection, HASHES[:1], some_rows(1))
        assert len(await reader.nearest(collection, QUERY, limit=9)) == 1

        await writer.put(collection, HASHES[1:], some_rows(3, seed=8))
        later = type(collection)(**{**vars(collection), "version": 2})

        assert len(await reader.nearest(later, QUERY, limit=9)) == 4
        assert (await loaded(reader, later, HASHES)).keys() == set(HASHES)
