"""A PostgreSQL that stands still: it takes connections and never answers."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import anyio
import psutil
import pytest

from tests.limits import HANG_S
from tests.outages.load import Load, site, until_metric
from tests.outages.stalling_proxy import stalling_proxy
from tests.postgres import PostgresServer, running_server

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("paused-database")]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """One of its own: other tests go on."""
    with running_server() as running:
        yield running


@contextmanager
def paused(server: PostgresServer) -> Iterator[None]:
    """All processes of the database stand still."""
    main = psutil.Process(int((Path(server.folder) / "postmaster.pid").read_text().splitlines()[0]))
    processes = [main, *main.children(recursive=True)]
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)


async def test_calls_go_on_while_the_database_hangs_and_are_recorded_afterwards(
    server: PostgresServer, tmp_path: Path
) -> None:
    place = site(tmp_path, "open", server)
    with place.gateway() as running:
        load = Load(address=running.run.address, key=running.run.key)
        async with load.running():
            await load.until_answered(20)
            with paused(server):
                await load.until_answered(60)
                await until_metric(running, "toolgate_store_up", 0)
        await until_metric(running, "toolgate_audit_pending", 0)
        place.verify(running)
    records = await place.records()

    outcomes = {str(one.detail["trace_id"]): one for one in records if one.phase == "outcome"}
    assert load.refused == []
    assert set(load.answered) <= outcomes.keys()


async def test_nothing_is_done_unrecorded_while_the_database_hangs(
    server: PostgresServer, tmp_path: Path
) -> None:
    place = site(tmp_path, "closed", server)
    with place.gateway() as running:
        load = Load(address=running.run.address, key=running.run.key)
        async with load.running():
            await load.until_answered(20)
            with paused(server):
                await load.until_refused(6)
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


async def test_a_gateway_ends_while_the_database_hangs(
    server: PostgresServer, tmp_path: Path
) -> None:
    place = site(tmp_path, "open", server)
    with place.gateway() as running:
        load = Load(address=running.run.address, key=running.run.key)
        async with load.running():
            await load.until_answered(20)
        process = psutil.Process(running.run.pid)
        with paused(server):
            async with load.running():
                await load.until_answered(20)
            process.terminate()
            await anyio.to_thread.run_sync(process.wait, HANG_S)
        log = running.log.read_text("utf-8")

    assert "audit records lost" in log
    assert "Traceback" not in log


async def test_a_gateway_ends_while_the_first_statement_of_its_connections_hangs(
    server: PostgresServer, tmp_path: Path
) -> None:
    """As when a network breaks just after a login."""
    direct = site(tmp_path, "closed", server)
    with stalling_proxy(f"{server.folder}/.s.PGSQL.5432") as proxy:
        address = f"@127.0.0.1:{proxy.port}/"
        place = replace(direct, store_url=direct.store_url.replace("@/", address).partition("?")[0])
        with place.gateway() as running:
            load = Load(address=running.run.address, key=running.run.key)
            async with load.running():
                await load.until_answered(20)
                proxy.stall()
                await until_metric(running, "toolgate_store_up", 0)
            process = psutil.Process(running.run.pid)
            process.terminate()
            await anyio.to_thread.run_sync(process.wait, HANG_S)
            log = running.log.read_text("utf-8")

    assert "audit records lost" in log
    assert "Traceback" not in log
