"""A disk that takes nothing more, as the kernel tells a process over its limit of file size."""

import marshal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import psutil
import pytest

from tests.outages.load import Load, site, until_metric
from tests.real.processes import RunningGateway

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits another process"),
]


@asynccontextmanager
async def full_disk(running: RunningGateway) -> AsyncIterator[None]:
    """No file of the gateway grows beyond a page."""
    process = psutil.Process(running.run.pid)
    before = process.rlimit(psutil.RLIMIT_FSIZE)
    process.rlimit(psutil.RLIMIT_FSIZE, (4_096, before[1]))
    try:
        yield
    finally:
        process.rlimit(psutil.RLIMIT_FSIZE, before)


async def test_calls_go_on_while_the_disk_is_full_and_are_recorded_afterwards(
    tmp_path: Path,
) -> None:
    place, bytecode = site(tmp_path, "open"), tmp_path / "bytecode"
    env = {"PYTHONPYCACHEPREFIX": str(bytecode), "PYTHONDONTWRITEBYTECODE": ""}
    with place.gateway(env, prelude=None) as running:
        load = Load(address=running.run.address, key=running.run.key)
        async with load.running():
            await load.until_answered(20)
            async with full_disk(running):
                await until_metric(running, "toolgate_audit_failing", 1)
                await load.until_answered(40)
        await until_metric(running, "toolgate_audit_pending", 0)
        dropped = running.metric("toolgate_audit_dropped_total")
        place.verify(running)
    records = await place.records()

    outcomes = {str(one.detail["trace_id"]): one for one in records if one.phase == "outcome"}
    files = list(bytecode.rglob("*.pyc"))
    assert files
    for path in files:
        marshal.loads(path.read_bytes()[16:])  # what was imported meanwhile can be imported again
    assert load.refused == []
    assert dropped == 0
    assert set(load.answered) <= outcomes.keys()


async def test_nothing_is_done_unrecorded_while_the_disk_is_full(tmp_path: Path) -> None:
    place = site(tmp_path, "closed")
    with place.gateway() as running:
        load = Load(address=running.run.address, key=running.run.key)
        async with load.running():
            await load.until_answered(20)
            async with full_disk(running):
                await load.until_refused(20)
                ready, _ = await anyio.to_thread.run_sync(running.page, "/readyz")
                alive, _ = await anyio.to_thread.run_sync(running.page, "/healthz")
            await load.until_answered(20)
        await until_metric(running, "toolgate_audit_pending", 0)
        place.verify(running)
    records = await place.records()

    outcomes = {str(one.detail["trace_id"]): one for one in records if one.phase == "outcome"}
    assert (ready, alive) == (503, 200)
    assert set(place.entries()) <= outcomes.keys(), "something was done that is not on record"
    assert {outcomes[trace].status for trace in load.answered} == {"ok"}
    assert not [text for text in load.refused if str(tmp_path) in text]
