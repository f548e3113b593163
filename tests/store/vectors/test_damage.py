"""What must not happen to vectors: half a batch, a full disk that takes others along."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pytest

from tests.limits import HANG_S
from tests.store.stores import make_sql_store, run_sql, url_of
from tests.store.vectors.test_persistence import searching
from tests.store.vectors.vector_stores import open_store, vectors_in
from toolgate.errors import StoreError
from toolgate.store import SqlAccess
from toolgate.store.vectors import VectorSpace, VectorStore
from toolgate.testing.contracts.store import sample_record
from toolgate.testing.contracts.vectors import SPACE, hash_of, loaded, some_rows

pytestmark = pytest.mark.anyio

SAVES = """
import sys, anyio, numpy as np
from toolgate.base.plugins import make
from toolgate.store import make_store
from toolgate.types import PluginSpec
from toolgate.store.vectors import VectorSpace, VectorStore

async def main(url, kind):
    store = make_store(url)
    await store.open()
    spec = PluginSpec(name=kind, setting="x", options={})
    vectors = make("vectors", VectorStore, spec, {"store": store})
    space = VectorSpace(model="model a", dim=24)
    number = 0
    while True:
        hashes = [(number + at).to_bytes(8, "big") + bytes(8) for at in range(512)]
        rows = np.full((512, 24), 0.2, np.float16)
        await vectors.save(space, hashes, rows)
        number += 512
        print(number, flush=True)

anyio.run(main, *sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("kind", "place"),
    [("sqlite", "sqlite"), pytest.param("postgres", "pgvector", marks=pytest.mark.real)],
)
async def test_a_killed_process_leaves_whole_batches(
    kind: str, place: str, request: pytest.FixtureRequest
) -> None:
    url = url_of(kind, request)
    with subprocess.Popen(
        [sys.executable, "-c", SAVES, url, place], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = 0
        while said < 2_048:
            said = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        process.wait(HANG_S)

    async with open_store(url) as store:
        vectors = vectors_in(store, place)
        hashes = [hash_of(number) for number in range(100 * 512)]
        found = await loaded(vectors, SPACE, hashes)
        assert len(found) >= said
        assert len(found) % 512 == 0
        assert {row.tobytes() for row in found.values()} == {np.full(24, 0.2, np.float16).tobytes()}


def loop_s() -> float:
    """Processor seconds of 100,000 steps of Python, to compare with on a machine of any speed."""
    began_s = process_time()
    for _ in range(100_000):
        pass
    return process_time() - began_s


async def test_a_full_disk_keeps_what_was_there_and_raises(tmp_path: Path) -> None:
    async with open_store("sqlite://") as store:  # one connection, so that the limit holds for all
        vectors = vectors_in(store, "sqlite")
        await vectors.save(SPACE, [hash_of(1)], some_rows(1))

        def limit(driver: Any) -> None:
            pages = driver.execute("PRAGMA page_count").fetchone()[0]
            driver.execute(f"PRAGMA max_page_count = {pages + 3}")

        await store.reading(limit)
        hashes = [hash_of(number) for number in range(2, 5_000)]
        with pytest.raises(StoreError, match="full") as caught:
            await vectors.save(SPACE, hashes, some_rows(len(hashes)))

        assert caught.value.hint == "Make room on its disk."
        assert (await vectors.known(SPACE, [hash_of(1), *hashes])).sum() == 1
        assert await vectors.save(SPACE, hashes[:2], some_rows(2)) == 2


@pytest.mark.real
async def test_a_backup_of_postgres_brings_its_vectors_along(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """And what the extension searches is made anew from them."""
    url = request.getfixturevalue("postgres").new_schema()
    hashes, rows = [hash_of(number) for number in range(50)], some_rows(50)
    async with open_store(url) as store:
        await vectors_in(store, "pgvector").save(SPACE, hashes, rows)
        source = make_sql_store(url)
        await source.backup(tmp_path / "backup.db")
        await source.audit.append([sample_record(1)])
        await source.restore(tmp_path / "backup.db")
        await source.close()
        vectors = vectors_in(store, "pgvector")

        await vectors.settle(SPACE)

        query = rows[7].astype(np.float32)
        assert (await vectors.nearest(SPACE, query, limit=1))[0].text_hash == hashes[7]
        assert len(await loaded(vectors, SPACE, hashes)) == 50
    async with open_store(f"sqlite:///{tmp_path / 'backup.db'}") as store:
        found = await loaded(vectors_in(store, "sqlite"), SPACE, hashes)
        assert found[hashes[3]].tobytes() == rows[3].tobytes()


@pytest.mark.real
async def test_the_index_of_a_model_is_the_one_that_source_document_003_asks_for(
    request: pytest.FixtureRequest,
) -> None:
    """HNSW, m = 16, ef_construction = 64, cosine; and the planner can use it."""
    url = request.getfixturevalue("postgres").new_schema()
    async with open_store(url) as store:
        vectors = vectors_in(store, "pgvector")
        hashes, rows = [hash_of(number) for number in range(3_000)], some_rows(3_000)
        await vectors.save(SPACE, hashes, rows)
        await vectors.settle(SPACE)
        await vectors.settle(SPACE)

        definitions = await sql(
            store,
            "SELECT indexdef FROM pg_indexes WHERE tablename = 'vector_nearest'"
            " AND schemaname = current_schema()",
        )
        [hnsw] = [row[0] for row in definitions if "hnsw" in row[0]]
        assert "halfvec_cosine_ops" in hnsw
        assert "m='16', ef_construction='64'" in hnsw
        assert "WHERE (model_id = 1)" in hnsw
        query = some_rows(1, seed=9)[0].astype(np.float32)
        found = [one.text_hash for one in await vectors.nearest(SPACE, query, limit=20)]
        order = np.argsort(-(rows.astype(np.float32) @ query))[:20]
        best = {hashes[at] for at in order.tolist()}
        assert len(best & set(found)) >= 19  # approximate; exact when texts are named


async def sql(store: SqlAccess, statement: str) -> Sequence[Any]:
    return await store.reading(lambda driver: driver.execute(statement).fetchall())


@pytest.mark.real
@pytest.mark.parametrize("extension", [True, False])
async def test_without_the_extension_a_notice_says_what_to_do(
    *, extension: bool, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("postgres").new_schema()
    async with open_store(url) as store:
        vectors: VectorStore = vectors_in(store, "pgvector", extension=extension)
        await vectors.save(SPACE, [hash_of(1)], some_rows(1))

        assert (vectors.notice == "") is extension
        [(there,)] = await sql(store, "SELECT to_regclass('vector_nearest') IS NOT NULL")
        assert there is extension


async def test_rows_of_another_dimension_are_not_of_this_model(tmp_path: Path) -> None:
    """Somebody changed the number in the table: nothing of it is believed."""
    url = f"sqlite:///{tmp_path / 'toolgate.db'}"
    async with searching(url):
        pass
    run_sql(url, "UPDATE vector_models SET dim = 12")
    async with searching(url) as (strategy, embedder):
        assert embedder.documents != []
        assert strategy.backlog == 0
    run_sql(url, "UPDATE vector_models SET dim = 4096 + model_id")
    async with searching(url) as (strategy, embedder):
        assert embedder.documents != []


async def test_reading_5000_vectors_costs_less_than_a_tenth_of_a_second(tmp_path: Path) -> None:
    """Processor time, so that a busy machine does not count."""
    async with open_store(f"sqlite:///{tmp_path / 'toolgate.db'}") as store:
        vectors = vectors_in(store, "sqlite")
        hashes, rows = [hash_of(number) for number in range(5_000)], some_rows(5_000, 256)
        space = VectorSpace(model="m", dim=256)
        await vectors.save(space, hashes, rows)
        found = np.zeros_like(rows)

        def put(places: Any, read: Any) -> None:
            found[places] = read

        began_s = process_time()
        await vectors.load(space, hashes, put)
        spent_s = process_time() - began_s

    assert (found == rows).all()
    assert spent_s < 40 * loop_s(), "rows are read one by one"
