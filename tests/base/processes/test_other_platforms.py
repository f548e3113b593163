"""What differs on Windows and macOS, with the platform faked."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from tests.limits import HANG_S
from toolgate.audit import SyslogSink
from toolgate.base.processes.liveness import end_at_once, is_running
from toolgate.errors import StoreError
from toolgate.server.asgi.peer_process import has_other_users, is_same_user
from toolgate.types import AuditRecord
from toolgate.upstream.transports import _child_process
from toolgate.upstream.transports._child_process import Child

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="another platform is faked")
pytestmark = POSIX


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The platform is Windows for those who ask for it."""
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(subprocess, "CREATE_NO_WINDOW", 0, raising=False)  # exists there only


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that only a signal ends."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        yield process
        process.kill()


class OpenProcess:
    """The function, whose type of result can be set."""

    restype: Any = None

    def __init__(self, known: int) -> None:
        self._known = known

    def __call__(self, rights: int, inherit: bool, pid: int) -> int:
        return 7 if pid == self._known else 0


class Kernel:
    """kernel32.dll that knows one process."""

    def __init__(self, *, known: int, has_ended: bool = False) -> None:
        self.OpenProcess = OpenProcess(known)
        self._has_ended = has_ended
        self.closed = 0

    def WaitForSingleObject(self, handle: Any, milliseconds: int) -> int:  # noqa: N802
        return 0 if self._has_ended else 0x102

    def CloseHandle(self, handle: Any) -> int:  # noqa: N802
        self.closed += 1
        return 1


@pytest.mark.parametrize(("has_ended", "error", "pid", "expected"), [
    (False, 0, 41, True), (True, 0, 41, False), (False, 87, 42, False), (False, 5, 42, True),
])  # fmt: skip
def test_windows_is_asked_for_the_state_of_a_process_and_sends_it_nothing(
    windows: None, has_ended: bool, error: int, pid: int, expected: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    kernel = Kernel(known=41, has_ended=has_ended)
    monkeypatch.setattr(ctypes, "WinDLL", lambda name, use_last_error: kernel, raising=False)
    monkeypatch.setattr(ctypes, "get_last_error", lambda: error, raising=False)
    monkeypatch.setattr(os, "kill", _no_signal)
    assert is_running(pid) is expected
    assert kernel.closed == (pid == 41)


def _no_signal(pid: int, number: int) -> None:
    raise AssertionError("os.kill ends a process on Windows")


@pytest.mark.parametrize(("platform", "expected"), [
    ("win32", signal.SIGTERM), ("darwin", signal.SIGKILL), ("linux", signal.SIGKILL),
])  # fmt: skip
def test_a_process_ends_at_once_on_each_platform(
    platform: str, expected: signal.Signals, sleeper: "subprocess.Popen[bytes]",
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(sys, "platform", platform)
    end_at_once(sleeper.pid)
    assert sleeper.wait(HANG_S) == -expected


class PosixJob:
    """A job object made of a process group."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.is_closed = False

    def is_alive(self) -> bool:
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def terminate(self) -> None:
        os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        self.is_closed = True


GRANDPARENT = (
    "import subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    "print(child.pid, flush=True)\n"
    "time.sleep(600)\n"
)


async def test_on_windows_a_server_ends_with_what_it_started(
    windows: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[PosixJob] = []

    def make(pid: int) -> PosixJob:
        jobs.append(PosixJob(pid))
        return jobs[-1]

    monkeypatch.setattr(_child_process, "WindowsJob", make)
    child = await Child.start(sys.executable, ["-c", GRANDPARENT], env={}, cwd=None)
    with anyio.fail_after(HANG_S):
        grandchild = int(await child.stdout.readline())
        await child.end(patience_s=0.2)
    [job] = jobs
    assert job.pid == child.pid
    assert job.is_closed
    monkeypatch.undo()
    assert not is_running(grandchild)


async def test_on_windows_a_server_ends_without_a_job(
    windows: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pid: int) -> PosixJob:
        raise OSError("no job objects inside this sandbox")

    monkeypatch.setattr(_child_process, "WindowsJob", refuse)
    program = "import time; time.sleep(600)"
    child = await Child.start(sys.executable, ["-c", program], env={}, cwd=None)
    with anyio.fail_after(HANG_S):
        await child.end(patience_s=0.2)
    assert child.status is not None


def test_people_of_a_machine_are_counted_on_windows_without_asking_posix(
    windows: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "getuid")
    assert has_other_users([(1001, "cmd"), (1002, "cmd")])
    assert not has_other_users()


async def test_windows_does_not_say_who_opened_a_connection(
    windows: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "getuid")
    assert await is_same_user(("127.0.0.1", 1), ("127.0.0.1", 2)) is None


async def test_a_syslog_of_unix_is_refused_on_windows_with_what_to_do(windows: None) -> None:
    record = AuditRecord(record_id="r", action="call", at="2026-01-01T00:00:00Z")
    with pytest.raises(StoreError, match="Windows has no syslog") as refused:
        await SyslogSink("unix:/dev/log").append([record])
    assert "udp://" in str(refused.value.hint)
