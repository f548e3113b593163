"""What breaks under a store: it says why, keeps everything or nothing, and works on."""

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import anyio
import anyio.from_thread
import pytest
from anyio import create_task_group
from sqlalchemy import event, text

from tests.limits import HANG_S
from tests.store.released import AUDIT, SERVER, SNAPSHOT
from tests.store.stores import make_sql_store, run_sql, transaction, url_of
from toolgate.errors import StoreError
from toolgate.store import AuditFilter, Retention, StoredResult
from toolgate.store.sqlite import Options, build
from toolgate.testing.contracts.store import sample_record


@contextmanager
def file_size_limit(limit_bytes: int) -> Generator[None]:
    """The system refuses to let any file grow, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    writes_none = sys.dont_write_bytecode
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    sys.dont_write_bytecode = True  # half of it would be kept
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = writes_none
        signal.signal(signal.SIGXFSZ, handler)


async def test_a_disk_that_takes_no_more_is_reported_and_works_again(tmp_path: Path) -> None:
    store = make_sql_store(f"sqlite:///{tmp_path / 'toolgate.db'}")
    await store.open()
    await store.audit.append([sample_record(0)])
    many = [sample_record(minute, query="x" * 1000) for minute in range(1, 1000)]

    with file_size_limit(300_000), pytest.raises(StoreError) as caught:
        await store.audit.append(many)

    assert "Look whether its disk is full or failing." in str(caught.value)
    assert await store.audit.select(AuditFilter()) == [sample_record(0)]
    await store.audit.append(many)
    assert (await store.sizes())["audit"] == 1000
    assert (await store.check()).problems == ()
    await store.close()


async def test_a_full_database_is_reported_and_works_again(tmp_path: Path) -> None:
    store = make_sql_store(f"sqlite:///{tmp_path / 'toolgate.db'}")
    await store.open()
    limit = {"pages": 30}

    def restrict(connection: sqlite3.Connection, *_: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {limit['pages']}")

    event.listen(store._engine, "checkout", restrict)
    many = [sample_record(minute, query="x" * 1000) for minute in range(1000)]

    with pytest.raises(StoreError) as caught:
        await store.audit.append(many)

    assert "disk is full. Make room on its disk." in str(caught.value)
    limit["pages"] = 2**30
    await store.audit.append(many)
    assert (await store.sizes())["audit"] == 1000
    await store.close()


async def test_a_clean_up_gives_space_back_to_the_disk(tmp_path: Path) -> None:
    store = make_sql_store(f"sqlite:///{tmp_path / 'toolgate.db'}")
    await store.open()
    await store.audit.append([sample_record(minute, query="x" * 1000) for minute in range(1000)])
    before = (await store.sizes())["total"]

    await store.prune(Retention(audit_max_bytes=0), now="2026-07-28T12:00:00.000Z")

    assert (await store.sizes())["total"] < before / 4
    await store.close()


async def test_a_locked_file_fails_the_request_and_not_the_loop(tmp_path: Path) -> None:
    """Reading goes on; the lock is waited for in a thread."""
    file = tmp_path / "toolgate.db"
    store = build(Options(url=f"sqlite:///{file}", busy_timeout_s=0.2))
    await store.open()
    await store.audit.append([sample_record(1)])

    with closing(sqlite3.connect(file, isolation_level=None)) as another:
        another.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError) as caught:
            await store.audit.append([sample_record(2)])
        assert "locked. Another program holds it for long: end that, or wait." in str(caught.value)
        assert await store.audit.select(AuditFilter()) == [sample_record(1)]
        another.execute("ROLLBACK")

    await store.audit.append([sample_record(2)])
    assert (await store.sizes())["audit"] == 2
    await store.close()


async def test_the_loop_runs_on_while_a_write_waits_for_a_lock(tmp_path: Path) -> None:
    file = tmp_path / "toolgate.db"
    store = make_sql_store(f"sqlite:///{file}")
    await store.open()
    order: list[str] = []

    async def write() -> None:
        await store.audit.append([sample_record()])
        order.append("written")

    with closing(sqlite3.connect(file, isolation_level=None)) as another:
        another.execute("BEGIN IMMEDIATE")
        with anyio.fail_after(HANG_S):
            async with create_task_group() as group:
                group.start_soon(write)
                await store.audit.select(AuditFilter())
                order.append("loop ran")
                another.execute("ROLLBACK")

    assert order == ["loop ran", "written"]
    await store.close()


READ_ONLY = """
import os, sys, anyio
from toolgate.errors import StoreError
from toolgate.store import AuditFilter, make_store
from toolgate.testing.contracts.store import sample_record

async def use(url):
    store = make_store(url)
    try:
        await store.open()
        await store.audit.append([sample_record(2)])
    except StoreError as error:
        print(error)
    print(len(await store.audit.select(AuditFilter())))
    await store.close()

folder = sys.argv[1]
if os.geteuid() == 0:
    anyio.run(use, "sqlite://")  # imports everything: libraries may be root's alone
    os.setgid(65534)
    os.setuid(65534)

anyio.run(use, f"sqlite:///{folder}/toolgate.db")
"""


async def test_a_file_that_may_only_be_read_is_reported() -> None:
    """As another user: nothing is forbidden to root, who alone may enter pytest's folders."""
    with tempfile.TemporaryDirectory() as folder:
        store = make_sql_store(f"sqlite:///{folder}/toolgate.db")
        await store.open()
        await store.audit.append([sample_record(1)])
        await store.close()
        Path(folder, "toolgate.db").chmod(0o444)
        Path(folder).chmod(0o777)

        shown = subprocess.run(
            [sys.executable, "-c", READ_ONLY, folder], capture_output=True, text=True, check=True
        ).stdout

    assert "readonly database. Make the file and its folder writable for this user." in shown
    assert shown.endswith("\n1\n")


async def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")

    with pytest.raises(StoreError, match=r"[Nn]ot a directory"):
        await make_sql_store(f"sqlite:///{tmp_path / 'file' / 'toolgate.db'}").open()


async def test_a_file_that_is_no_database_is_reported_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "toolgate.db"
    file.write_text("my diary " * 1000, encoding="utf-8")

    with pytest.raises(StoreError, match="not a database"):
        await make_sql_store(f"sqlite:///{file}").open()

    assert file.read_text(encoding="utf-8") == "my diary " * 1000


async def test_damage_is_found_and_a_backup_repairs_it(tmp_path: Path) -> None:
    """The damaged file is put aside, not thrown away."""
    file = tmp_path / "data" / "toolgate.db"
    store = make_sql_store(f"sqlite:///{file}")
    await store.open()
    await store.audit.append([sample_record(minute, query="x" * 500) for minute in range(500)])
    await store.backup(tmp_path / "backup.db")
    await store.close()
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2 : len(damaged) // 2 + 20_000] = b"\x55" * 20_000
    file.write_bytes(damaged)
    store = make_sql_store(f"sqlite:///{file}")

    assert (await store.check()).problems
    rows = await store.restore(tmp_path / "backup.db")

    assert rows["audit"] == 500
    assert (await store.check()).problems == ()
    assert [path.name for path in file.parent.glob("*.damaged")]
    await store.close()


async def test_a_backup_never_replaces_the_store_itself(tmp_path: Path) -> None:
    store = make_sql_store(f"sqlite:///{tmp_path / 'toolgate.db'}")
    await store.open()

    with pytest.raises(StoreError, match="would replace the store itself"):
        await store.backup(tmp_path / "toolgate.db")

    assert (await store.check()).problems == ()
    await store.close()


async def test_a_backup_that_fails_leaves_no_file_and_the_old_one(tmp_path: Path) -> None:
    store = make_sql_store(f"sqlite:///{tmp_path / 'toolgate.db'}")
    await store.open()
    await store.audit.append([sample_record(minute, query="x" * 1000) for minute in range(1000)])
    (tmp_path / "backup").write_bytes(b"the one before")

    with file_size_limit(300_000), pytest.raises(StoreError):
        await store.backup(tmp_path / "backup")

    assert (tmp_path / "backup").read_bytes() == b"the one before"
    assert not list(tmp_path.glob("*.partial*"))
    await store.close()


@pytest.mark.real
async def test_a_connection_that_postgres_ends_costs_no_later_request(
    request: pytest.FixtureRequest,
) -> None:
    """A restart of the database server, as far as we can see."""
    url = url_of("postgres", request)
    store = make_sql_store(url)
    await store.open()
    await store.servers.save(SERVER)
    async with create_task_group() as group:
        for _ in range(4):
            group.start_soon(store.servers.select, "default")

    run_sql(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )

    assert await store.servers.select("default") == [SERVER]
    await store.catalog.save_snapshot(SNAPSHOT)
    await store.audit.append([AUDIT])
    await store.close()


async def test_a_postgres_that_is_not_there_is_reported() -> None:
    store = make_sql_store("postgresql://ann:secret@127.0.0.1:9/nothing")

    with pytest.raises(StoreError) as caught:
        await store.open()

    assert "connection refused" in str(caught.value)
    assert "correct store.url" in str(caught.value)
    assert "secret" not in str(caught.value)
    await store.close()


WRITER = """
import os, sys, anyio
from itertools import count
from toolgate.base.ids import new_id, utc_now
from toolgate.store import StoredResult, StoredSnapshot, make_store
from toolgate.testing.contracts.store import sample_record

async def main(url, turn):
    store = make_store(url)
    await store.open()
    for number in count():
        name = f"{turn}-{number}"
        await store.audit.append(
            [sample_record(0, record_id=new_id(), request_id=name) for _ in range(20)]
        )
        await store.catalog.save_snapshot(StoredSnapshot(
            project_id="default", server="git", listing=name.encode() * 10_000, digest=name,
            listed_at=utc_now(),
        ))
        print(name, flush=True)

make_store(sys.argv[1])
for turn in range(int(sys.argv[2])):
    child = os.fork()
    if not child:
        anyio.run(main, sys.argv[1], turn)
    print(child, flush=True)
    os.waitpid(child, 0)
"""


async def test_a_kill_at_any_moment_leaves_nothing_half_written(tmp_path: Path) -> None:
    """What was acknowledged is there, what was not is whole or absent."""
    url = f"sqlite:///{tmp_path / 'toolgate.db'}"
    acknowledged: set[str] = set()
    turns = 6
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, url, str(turns)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        lines = (line.strip() for line in writer.stdout)
        for turn in range(turns):
            child = int(next(line for line in lines if "-" not in line))
            acknowledged |= {next(lines) for _ in range(1 + 2 * turn)}
            os.kill(child, signal.SIGKILL)
        acknowledged |= set(lines)

    store = make_sql_store(url)
    await store.open()
    with transaction(url) as connection:
        counts = text("SELECT request_id, count(*) FROM audit GROUP BY request_id")
        rows = connection.execute(counts).all()
        written = {row[0]: row[1] for row in rows}
    [snapshot] = await store.catalog.snapshots("default")

    assert set(written.values()) == {20}
    assert acknowledged <= set(written)
    assert snapshot.listing == snapshot.digest.encode() * 10_000
    assert (await store.check()).problems == ()
    await store.results.save(
        StoredResult(handle="h", project_id="default", caller_id="c", body=b"", expires_at="2026")
    )
    await store.close()


async def test_closing_waits_for_a_read_whose_task_was_cancelled() -> None:
    """In memory there is one connection; closed under another thread, it ends the process."""
    store = build(Options(url="sqlite://"))
    await store.open()
    started, closed = anyio.Event(), threading.Event()
    order: list[str] = []

    def slow(connection: sqlite3.Connection) -> None:
        anyio.from_thread.run_sync(started.set)
        closed.wait(0.5)  # ends at once where closing does not wait
        order.append(f"read {connection.execute('SELECT 1').fetchone()}")

    with anyio.fail_after(HANG_S):
        async with create_task_group() as tasks:
            tasks.start_soon(store.reading, slow)
            await started.wait()
            tasks.cancel_scope.cancel()
        await store.close()
    order.append("closed")
    closed.set()
    assert order == ["read (1,)", "closed"]
