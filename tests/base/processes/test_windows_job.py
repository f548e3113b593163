"""Job objects, before a kernel that remembers what it was asked."""

import ctypes
from ctypes import wintypes
from typing import Any

import pytest

from toolgate.base.processes.windows_job import WindowsJob

JOB, PROCESS = 100, 200
KILL_ON_JOB_CLOSE = 0x2000


class FakeKernel:
    """kernel32.dll with one process that has started two others."""

    def __init__(self, *, refused: str = "") -> None:
        self.refused = refused
        self.limits = b""
        self.assigned: list[tuple[int, int]] = []
        self.active = 0
        self.open = {JOB}

    def CreateJobObjectW(self, attributes: None, name: None) -> int:  # noqa: N802
        return 0 if self.refused == "create" else JOB

    def SetInformationJobObject(self, job: int, kind: int, data: Any, size: int) -> int:  # noqa: N802
        assert (job, kind) == (JOB, 9)
        self.limits = ctypes.string_at(ctypes.addressof(data._obj), size)
        return 1

    def OpenProcess(self, rights: int, inherit: bool, pid: int) -> int:  # noqa: N802
        if self.refused == "open":
            return 0
        self.open.add(PROCESS)
        return PROCESS

    def AssignProcessToJobObject(self, job: int, process: int) -> int:  # noqa: N802
        self.assigned.append((job, process))
        self.active = 3
        return int(self.refused != "assign")

    def QueryInformationJobObject(  # noqa: N802
        self, job: int, kind: int, data: Any, size: int, returned: None
    ) -> int:
        assert kind == 1
        # ActiveProcesses follows four times of 8 bytes and two counts of 4.
        ctypes.memmove(
            ctypes.addressof(data._obj) + 40, ctypes.byref(wintypes.DWORD(self.active)), 4
        )
        return 1

    def TerminateJobObject(self, job: int, status: int) -> int:  # noqa: N802
        self.active = 0
        return 1

    def CloseHandle(self, handle: int) -> int:  # noqa: N802
        self.open.remove(handle)
        if handle == JOB:
            self.active = 0
        return 1


def test_a_job_ends_the_process_and_what_it_started() -> None:
    kernel = FakeKernel()
    job = WindowsJob(4711, kernel)
    assert kernel.assigned == [(JOB, PROCESS)]
    assert kernel.open == {JOB}
    # LimitFlags follows two times of 8 bytes.
    assert int.from_bytes(kernel.limits[16:20], "little") == KILL_ON_JOB_CLOSE
    assert job.is_alive()
    job.terminate()
    assert not job.is_alive()
    job.close()
    job.close()
    assert kernel.open == set()
    assert not job.is_alive()


@pytest.mark.skipif(ctypes.sizeof(ctypes.c_void_p) != 8, reason="the size is that of 64 bits")
def test_the_limits_have_the_size_that_windows_expects() -> None:
    kernel = FakeKernel()
    WindowsJob(1, kernel)
    assert len(kernel.limits) == 144  # of JOBOBJECT_EXTENDED_LIMIT_INFORMATION on x64


@pytest.mark.parametrize("refused", ["create", "open", "assign"])
def test_a_process_that_cannot_be_taken_leaves_no_handle_open(refused: str) -> None:
    kernel = FakeKernel(refused=refused)
    with pytest.raises(OSError, match=r"job object|CreateJobObjectW"):
        WindowsJob(4711, kernel)
    assert kernel.open == ({JOB} if refused == "create" else set())
