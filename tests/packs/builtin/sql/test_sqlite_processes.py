"""Statements for SQLite that nothing inside SQLite can stop, through a gateway and as a program."""

import json
import signal
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from tests.cli.conftest import Serve
from tests.databases.connections.databases import run, sqlite_url
from tests.limits import HANG_S
from tests.packs.builtin.sql.test_sql_tools import ROWS, SHOP, call, connection, gateway

LONG_FORMAT = "select printf('%.*c', 2000000000, 'x')"
"""Takes seconds inside one step of SQLite, whatever the limit of a value is."""

ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
LIKE = "select printf('%.*c', 1000000, 'a') like '%' || printf('%.*c', 25000, 'a') || 'b'"
GLOB = LIKE.replace("like '%'", "glob '*'")
"""25 billion comparisons inside one step."""

WIDE = "select " + ", ".join(["zeroblob(1000000)"] * 1000)
"""1 GB in one row, each value below its limit."""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return run(tmp_path / "shop.db", SHOP + ROWS)


def workers(process: psutil.Process | None = None) -> list[psutil.Process]:
    """The worker processes that a process has."""
    found: list[psutil.Process] = []
    for child in (process or psutil.Process()).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if any("worker_program" in word for word in child.cmdline()):
                found.append(child)
    return found


def busy_worker(process: psutil.Process | None = None) -> psutil.Process | None:
    """A worker process that has computed for longer than its start takes."""
    for child in workers(process):
        with suppress(psutil.NoSuchProcess):
            if child.cpu_times().user > 0.3:
                return child
    return None


async def until(look: Callable[[], bool]) -> None:
    with anyio.fail_after(HANG_S):
        while not look():
            await anyio.sleep(0.01)


@pytest.mark.parametrize(
    "sql", [LONG_FORMAT, ENDLESS, LIKE, GLOB], ids=["printf", "recursion", "like", "glob"]
)
async def test_a_statement_that_takes_too_long_stops_computing(
    tmp_path: Path, shop: Path, sql: str
) -> None:
    """Its process is gone with the answer, or waits for the next statement."""
    settings = connection("shop", sqlite_url(shop), "timeout_s = 0.3\n")
    async with gateway(tmp_path, settings) as app:
        text, answer = await call(app, "query", sql=sql)
        before = {child.pid: child.cpu_times().user for child in workers()}
        again, _ = await call(app, "query", sql="select count(*) as n from orders")
        after = {child.pid: child.cpu_times().user for child in workers()}

    assert "The statement took longer than 0.3 s" in text
    assert "raise timeout_s of [connections.shop]" in text
    assert answer["error"] == "database"
    assert again.startswith("1 row of shop.")
    assert all(after[pid] - before[pid] < 0.2 for pid in before.keys() & after.keys())
    assert workers() == []


@pytest.mark.parametrize(
    "sql",
    ["select replace(hex(zeroblob(500000000)), '0', 'ab')", "select length(randomblob(999999999))"],
)
async def test_a_value_that_is_too_long_is_not_made(tmp_path: Path, shop: Path, sql: str) -> None:
    async with gateway(tmp_path, connection("shop", sqlite_url(shop))) as app:
        text, _ = await call(app, "query", sql=sql)
        sizes = [worker.memory_info().rss for worker in workers()]

    assert "string or blob too big" in text
    assert max(sizes) < 100 * 2**20


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory")
async def test_memory_of_a_statement_ends_at_a_limit(tmp_path: Path, shop: Path) -> None:
    async with gateway(tmp_path, connection("shop", sqlite_url(shop))) as app:
        text, _ = await call(app, "query", sql=WIDE)
        again, _ = await call(app, "query", sql="select 1 as x")
        sizes = [worker.memory_info().rss for worker in workers()]

    assert "does not run this statement: it needs more than 512 MB of memory." in text
    assert again.startswith("1 row of shop.")
    assert max(sizes) < 100 * 2**20


async def test_a_cancelled_statement_stops_computing(tmp_path: Path, shop: Path) -> None:
    settings = connection("shop", sqlite_url(shop), "timeout_s = 3600\n")
    async with gateway(tmp_path, settings) as app:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: call(app, "query", sql=ENDLESS))
            await until(lambda: busy_worker() is not None)
            tasks.cancel_scope.cancel()
        left = busy_worker()
        again, _ = await call(app, "query", sql="select count(*) as n from orders")

    assert left is None
    assert again.startswith("1 row of shop.")


async def test_a_file_whose_schema_takes_too_long_stops_computing(
    tmp_path: Path, shop: Path
) -> None:
    """Each view takes 0.3 s in steps that are too few for SQLite to look at the clock."""
    views = ["CREATE VIEW v0 AS SELECT id FROM orders"]
    for number in range(1, 60):
        before = f"SELECT id FROM v{number - 1}"
        views.append(f"CREATE VIEW v{number} AS {before} UNION ALL {before}")
    run(shop, ";".join(views))
    settings = connection("shop", sqlite_url(shop), "timeout_s = 0.5\n")
    async with gateway(tmp_path, settings) as app:
        text, _ = await call(app, "table_info", table="orders")
        left = busy_worker()
        again, _ = await call(app, "query", sql="select count(*) as n from orders")

    assert "it did not answer in time" in text
    assert left is None
    assert again.startswith("1 row of shop.")


async def test_other_statements_run_beside_one_that_does_not_end(
    tmp_path: Path, shop: Path
) -> None:
    settings = connection("shop", sqlite_url(shop), "timeout_s = 3600\n")
    texts: list[str] = []
    async with gateway(tmp_path, settings) as app, anyio.create_task_group() as tasks:

        async def count(number: int) -> None:
            texts.append((await call(app, "query", sql=f"select {number} as x from orders"))[0])

        tasks.start_soon(lambda: call(app, "query", sql=ENDLESS))
        await until(lambda: busy_worker() is not None)
        async with anyio.create_task_group() as others:
            for number in range(6):
                others.start_soon(count, number)
        tasks.cancel_scope.cancel()

    assert len(texts) == 6
    assert all(text.startswith("2 rows of shop.") for text in texts)


async def test_a_statement_that_waits_long_for_slow_ones_is_refused_as_such(
    tmp_path: Path, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolgate.databases.connections.connection._WAIT_S", 0.1)
    settings = connection("shop", sqlite_url(shop), "timeout_s = 3600\n")
    said: list[tuple[str, dict[str, Any]]] = []
    async with gateway(tmp_path, settings) as app, anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(lambda: call(app, "query", sql=ENDLESS))
        await until(lambda: len(workers()) == 4)
        said.append(await call(app, "query", sql="select count(*) as n from orders"))
        said.append(await call(app, "table_info", table="orders"))
        tasks.cancel_scope.cancel()

    assert len(said) == 2
    for text, answer in said:
        assert "The connection 'shop' is busy: its database already runs 4 requests" in text
        assert "waited 0.1 s for its turn. Try again in a few seconds." in text
        assert answer["error"] == "database"


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_gateway_ends_at_once_with_a_statement_that_does_not(
    serve: Serve, folder: Path, number: signal.Signals
) -> None:
    """And the statement ends with it, also where the gateway cannot end it any more."""
    shop = run(folder / "shop.db", SHOP)
    (folder / "toolgate.toml").write_text(
        '[serve]\nport = 0\ndrain_s = 0.05\n[packs]\nenable = ["sql"]\n'
        + connection("shop", sqlite_url(shop), "timeout_s = 3600\n")
    )
    serving = serve()
    assert "ready" in serving.line(" sql ")
    gateway_process = psutil.Process(serving.process.pid)

    def ask() -> None:
        body = {"toolKey": "sql:query", "arguments": {"sql": LONG_FORMAT}}
        request = urllib.request.Request(
            f"{serving.address}/api/v1/execute",
            json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        with suppress(OSError, urllib.error.URLError):
            urllib.request.urlopen(request, timeout=HANG_S).close()

    client = threading.Thread(target=ask)
    client.start()
    anyio.run(until, lambda: busy_worker(gateway_process) is not None)
    worker = busy_worker(gateway_process)
    assert worker is not None

    status = serving.end(number)
    client.join(HANG_S)
    gone, _ = psutil.wait_procs([worker], timeout=HANG_S)

    assert status == (0 if number == signal.SIGTERM else -signal.SIGKILL)
    assert gone == [worker]
