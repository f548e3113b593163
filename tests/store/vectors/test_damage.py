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
from numpy.typing import NDArray

from tests.limits import HANG_S
from tests.store.stores import BOTH, make_sql_store, url_of
from tests.store.vectors.vector_stores import open_store, vectors_in
from toolgate.errors import StoreError
from toolgate.store import SqlAccess
from toolgate.store.vectors import VectorCollection
from toolgate.testing.contracts.store import sample_record
from toolgate.testing.contracts.vectors import DIM, key_of, loaded, some_rows

COLLECTION = VectorCollection(collection_id="a1", dim=DIM, precision="half")

SAVES = """
import sys, anyio, numpy as np
from toolgate.base.plugins import make
from toolgate.store import make_store
from toolgate.types import PluginSpec
from toolgate.store.vectors import VectorCollection, VectorStore

async def main(url):
    store = make_store(url)
    await store.open()
    spec = PluginSpec(name=store.vector_backend, setting="x", options={})
    vectors = make("vectors", VectorStore, spec, {"store": store})
    collection = VectorCollection(collection_id="a1", dim=24, precision="half")
    number = 0
    while True:
        keys = [(number + at).to_bytes(8) + bytes(8) for at in range(512)]
        rows = np.full((512, 24), 0.2, np.float16)
        await vectors.put(collection, keys, rows)
        number += 512
        print(number, flush=True)

anyio.run(main, *sys.argv[1:])
"""


@BOTH
async def test_a_killed_process_leaves_whole_batches(
    kind: str, request: pytest.FixtureRequest
) -> None:
    url = url_of(kind, request)
    with subprocess.Popen(
        [sys.executable, "-c", SAVES, url], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = 0
        while said < 2_048:
            said = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        process.wait(HANG_S)

    async with open_store(url) as store:
        vectors = vectors_in(store)
        keys = [key_of(number) for number in range(100 * 512)]
        found = await loaded(vectors, COLLECTION, keys)
        assert len(found) >= said
        assert len(found) % 512 == 0
        assert {row.tobytes() for row in found.values()} == {np.full(24, 0.2, np.float16).tobytes()}


def half_rows(count: int, dim: int = DIM) -> NDArray[np.float16]:
    return some_rows(count, dim).astype(np.float16)


def loop_s() -> float:
    """Processor seconds of 100,000 steps of Python, to compare with on a machine of any speed."""
    began_s = process_time()
    for _ in range(100_000):
        pass
    return process_time() - began_s


async def test_a_full_disk_keeps_what_was_there_and_raises(tmp_path: Path) -> None:
    async with open_store("sqlite://") as store:  # one connection, so that the limit holds for all
        vectors = vectors_in(store)
        await vectors.put(COLLECTION, [key_of(1)], half_rows(1))

        def limit(driver: Any) -> None:
            pages = driver.execute("PRAGMA page_count").fetchone()[0]
            driver.execute(f"PRAGMA max_page_count = {pages + 3}")

        await store.reading(limit)
        keys = [key_of(number) for number in range(2, 5_000)]
        with pytest.raises(StoreError, match="full") as caught:
            await vectors.put(COLLECTION, keys, half_rows(len(keys)))

        assert caught.value.hint == "Make room on its disk."
        assert (await vectors.contains(COLLECTION, [key_of(1), *keys])).sum() == 1
        assert await vectors.put(COLLECTION, keys[:2], half_rows(2)) == 2


@pytest.mark.real
async def test_a_backup_of_postgres_brings_its_vectors_along(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """And what the extension searches is made anew from them."""
    url = request.getfixturevalue("postgres").new_schema()
    keys, rows = [key_of(number) for number in range(50)], half_rows(50)
    async with open_store(url) as store:
        await vectors_in(store).put(COLLECTION, keys, rows)
        source = make_sql_store(url)
        await source.backup(tmp_path / "backup.db")
        await source.audit.append([sample_record(1)])
        await source.restore(tmp_path / "backup.db")
        await source.close()
        vectors = vectors_in(store)

        await vectors.optimize(COLLECTION)

        query = rows[7].astype(np.float32)
        assert (await vectors.nearest(COLLECTION, query, limit=1))[0].key == keys[7]
        assert len(await loaded(vectors, COLLECTION, keys)) == 50
    async with open_store(f"sqlite:///{tmp_path / 'backup.db'}") as store:
        found = await loaded(vectors_in(store), COLLECTION, keys)
        assert found[keys[3]].tobytes() == rows[3].tobytes()


@pytest.mark.real
async def test_the_index_of_a_model_is_the_one_that_source_document_003_asks_for(
    request: pytest.FixtureRequest,
) -> None:
    """HNSW, m = 16, ef_construction = 64, cosine; and the planner can use it."""
    url = request.getfixturevalue("postgres").new_schema()
    async with open_store(url) as store:
        vectors = vectors_in(store, hnsw_from=1_000)
        keys, rows = [key_of(number) for number in range(3_000)], half_rows(3_000)
        await vectors.put(COLLECTION, keys, rows)
        await vectors.optimize(COLLECTION)
        await vectors.optimize(COLLECTION)

        definitions = await sql(
            store,
            "SELECT indexdef FROM pg_indexes WHERE tablename = 'vector_nearest'"
            " AND schemaname = current_schema()",
        )
        [hnsw] = [row[0] for row in definitions if "hnsw" in row[0]]
        assert "halfvec_cosine_ops" in hnsw
        assert "m='16', ef_construction='64'" in hnsw
        assert "WHERE (collection_id = 'a1'::text)" in hnsw
        query = some_rows(1, seed=9)[0].astype(np.float32)
        found = [one.key for one in await vectors.nearest(COLLECTION, query, limit=20)]
        order = np.argsort(-(rows.astype(np.float32) @ query))[:20]
        best = {keys[at] for at in order.tolist()}
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
        vectors = vectors_in(store, extension=extension)
        await vectors.put(COLLECTION, [key_of(1)], half_rows(1))

        assert (vectors.notice == "") is extension
        [(there,)] = await sql(store, "SELECT to_regclass('vector_nearest') IS NOT NULL")
        assert there is extension


async def test_reading_5000_vectors_costs_less_than_a_tenth_of_a_second(tmp_path: Path) -> None:
    """Processor time, so that a busy machine does not count."""
    async with open_store(f"sqlite:///{tmp_path / 'toolgate.db'}") as store:
        vectors = vectors_in(store)
        keys, rows = [key_of(number) for number in range(5_000)], half_rows(5_000, 256)
        collection = VectorCollection(collection_id="a1", dim=256, precision="half")
        await vectors.put(collection, keys, rows)
        found = np.zeros_like(rows)

        def put(places: Any, read: Any) -> None:
            found[places] = read

        ratios: list[float] = []
        for _ in range(3):  # the least, since other processes slow a processor down
            began_s = process_time()
            await vectors.load(collection, keys, put)
            spent_s = process_time() - began_s
            ratios.append(spent_s / loop_s())

    assert (found == rows).all()
    assert min(ratios) < 40, "rows are read one by one"
