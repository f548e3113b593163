"""Worker processes: what they answer, and that none outlives its purpose."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import psutil
import pytest

from tests.limits import HANG_S
from toolgate.base.processes.worker import WorkerError, WorkerPool

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals and limits of POSIX")
ACT = "tests.base.processes.answers:act"
MEMORY_MB = 200


@pytest.fixture
async def pool() -> AsyncGenerator[WorkerPool]:
    pool = WorkerPool(ACT, memory_mb=MEMORY_MB, size=2)
    yield pool
    await pool.aclose()
    assert pool.pids == ()


async def until_there(path: Path) -> None:
    with anyio.fail_after(HANG_S):
        while not path.exists():
            await anyio.sleep(0.01)


async def until_gone(pid: int) -> None:
    with anyio.fail_after(HANG_S):
        while psutil.pid_exists(pid):
            await anyio.sleep(0.01)


async def test_a_worker_answers_again_and_again_and_is_another_process(pool: WorkerPool) -> None:
    first = await pool.call({"act": "echo"}, b"x" * 2**20, timeout_s=HANG_S)
    second = await pool.call({"act": "echo"}, b"data", timeout_s=HANG_S)

    assert first["data"] == "x" * 2**20
    assert second == {"request": {"act": "echo"}, "data": "data", "pid": first["pid"]}
    assert second["pid"] != os.getpid()


@pytest.mark.parametrize("act", ["wait", "hold"])
async def test_a_worker_is_killed_at_the_deadline(
    pool: WorkerPool, act: str, tmp_path: Path
) -> None:
    await pool.call({"act": "echo"}, timeout_s=HANG_S)
    (pid,) = pool.pids

    with pytest.raises(TimeoutError):
        await pool.call({"act": act, "path": str(tmp_path / "there")}, timeout_s=0.2)

    assert not psutil.pid_exists(pid)
    assert await pool.call({"act": "echo"}, timeout_s=HANG_S)


async def test_a_worker_is_killed_when_its_caller_is_cancelled(
    pool: WorkerPool, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    await pool.call({"act": "echo"}, timeout_s=HANG_S)
    (pid,) = pool.pids
    async with anyio.create_task_group() as tasks:
        request = {"act": "hold", "path": str(there)}
        tasks.start_soon(lambda: pool.call(request, timeout_s=3600))
        await until_there(there)
        tasks.cancel_scope.cancel()

    assert not psutil.pid_exists(pid)


async def test_workers_run_at_the_same_time_and_further_calls_wait(
    pool: WorkerPool, tmp_path: Path
) -> None:
    async with anyio.create_task_group() as tasks:
        for name in ("a", "b"):
            request = {"act": "wait", "path": str(tmp_path / name)}
            tasks.start_soon(lambda request=request: pool.call(request, timeout_s=3600))
            await until_there(tmp_path / name)
        assert len(set(pool.pids)) == 2
        with pytest.raises(TimeoutError):
            await pool.call({"act": "echo"}, timeout_s=0.05)
        tasks.cancel_scope.cancel()

    assert await pool.call({"act": "echo"}, timeout_s=HANG_S)


@POSIX
async def test_memory_ends_at_the_limit(pool: WorkerPool) -> None:
    assert await pool.call({"act": "fill", "megabytes": 10}, timeout_s=HANG_S)

    with pytest.raises(WorkerError) as raised:
        await pool.call({"act": "fill", "megabytes": MEMORY_MB}, timeout_s=HANG_S)

    assert raised.value.is_out_of_memory
    assert await pool.call({"act": "echo"}, timeout_s=HANG_S)


@POSIX
async def test_a_worker_that_crashes_is_an_error_and_another_takes_over(pool: WorkerPool) -> None:
    with pytest.raises(WorkerError, match="exit status -9") as raised:
        await pool.call({"act": "crash"}, timeout_s=HANG_S)

    assert not raised.value.is_out_of_memory
    assert await pool.call({"act": "echo"}, timeout_s=HANG_S)


@POSIX
async def test_a_worker_that_was_killed_while_idle_is_replaced(pool: WorkerPool) -> None:
    await pool.call({"act": "echo"}, timeout_s=HANG_S)
    (pid,) = pool.pids
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

    assert (await pool.call({"act": "echo"}, timeout_s=HANG_S))["pid"] != pid


async def test_an_exception_in_a_worker_is_an_error(pool: WorkerPool) -> None:
    with pytest.raises(WorkerError, match="ValueError: no such act"):
        await pool.call({"act": "dance"}, timeout_s=HANG_S)


async def test_a_function_that_cannot_be_imported_is_an_error() -> None:
    pool = WorkerPool("tests.base.processes.nowhere:act", memory_mb=MEMORY_MB, size=1)

    with pytest.raises(WorkerError, match="ModuleNotFoundError"):
        await pool.call({}, timeout_s=HANG_S)

    assert pool.pids == ()


@POSIX
async def test_signals_of_the_group_do_not_end_a_worker_in_its_work(pool: WorkerPool) -> None:
    assert await pool.call({"act": "signals"}, timeout_s=HANG_S) == "alive"


@pytest.mark.parametrize(("act", "seconds"), [("echo", 3600), ("wait", 3600), ("hold", 0.5)])
@POSIX
async def test_a_worker_goes_with_a_process_that_is_killed(
    act: str, seconds: float, tmp_path: Path
) -> None:
    """Whether it is idle or works; where no thread of Python can run, at its deadline."""
    program = f"""
import sys
import anyio
from toolgate.base.processes.worker import WorkerPool

sys.path[:] = {sys.path!r}

async def main():
    pool = WorkerPool({ACT!r}, memory_mb={MEMORY_MB}, size=1)
    await pool.call({{"act": "echo"}}, timeout_s=60)
    print(pool.pids[0], flush=True)
    await pool.call({{"act": {act!r}, "path": {str(tmp_path / "there")!r}}}, timeout_s={seconds})
    await anyio.sleep_forever()

anyio.run(main)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        if act != "echo":
            await until_there(tmp_path / "there")
        process.send_signal(signal.SIGKILL)

    await until_gone(pid)
