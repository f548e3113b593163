"""Windows job objects: kill a process together with everything that it started.

Windows has no process groups that can be killed. A job object kills its processes when it is
terminated, and when its last handle is closed, which also happens if the gateway dies.
https://learn.microsoft.com/windows/win32/procthread/job-objects
"""

import ctypes
import sys
from typing import Any, Final

_EXTENDED_LIMITS: Final = 9
"""JobObjectExtendedLimitInformation of JOBOBJECTINFOCLASS (winnt.h)."""

_ACCOUNTING: Final = 1
"""JobObjectBasicAccountingInformation of JOBOBJECTINFOCLASS (winnt.h)."""

_KILL_ON_CLOSE: Final = 0x2000
"""JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE (winnt.h)."""

_SET_QUOTA_AND_TERMINATE: Final = 0x0101
"""Access rights that AssignProcessToJobObject needs (winnt.h)."""


class _BasicLimits(ctypes.Structure):
    """JOBOBJECT_BASIC_LIMIT_INFORMATION."""

    _fields_ = (
        ("PerProcessUserTimeLimit", ctypes.c_int64),
        ("PerJobUserTimeLimit", ctypes.c_int64),
        ("LimitFlags", ctypes.c_uint32),
        ("MinimumWorkingSetSize", ctypes.c_size_t),
        ("MaximumWorkingSetSize", ctypes.c_size_t),
        ("ActiveProcessLimit", ctypes.c_uint32),
        ("Affinity", ctypes.c_size_t),
        ("PriorityClass", ctypes.c_uint32),
        ("SchedulingClass", ctypes.c_uint32),
    )


class _ExtendedLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""

    _fields_ = (
        ("BasicLimitInformation", _BasicLimits),
        ("IoInfo", ctypes.c_uint64 * 6),
        ("ProcessMemoryLimit", ctypes.c_size_t),
        ("JobMemoryLimit", ctypes.c_size_t),
        ("PeakProcessMemoryUsed", ctypes.c_size_t),
        ("PeakJobMemoryUsed", ctypes.c_size_t),
    )


class _Accounting(ctypes.Structure):
    """JOBOBJECT_BASIC_ACCOUNTING_INFORMATION."""

    _fields_ = (
        ("Times", ctypes.c_int64 * 4),
        ("TotalPageFaultCount", ctypes.c_uint32),
        ("TotalProcesses", ctypes.c_uint32),
        ("ActiveProcesses", ctypes.c_uint32),
        ("TotalTerminatedProcesses", ctypes.c_uint32),
    )


class WindowsJob:
    """A process and its descendants.

    Args:
        pid: The process. Processes that it started before this call are not part of the job.
        kernel: Functions of kernel32.dll; None: those of this machine.

    Raises:
        OSError: Windows refused, for example because the process has ended.
    """

    def __init__(self, pid: int, kernel: Any = None) -> None:
        self._kernel: Any = _kernel32() if kernel is None else kernel
        self._handle: int | None = self._kernel.CreateJobObjectW(None, None)
        if not self._handle:
            raise OSError("CreateJobObjectW failed")
        limits = _ExtendedLimits()
        limits.BasicLimitInformation.LimitFlags = _KILL_ON_CLOSE
        size = ctypes.sizeof(limits)
        is_set = self._kernel.SetInformationJobObject(
            self._handle, _EXTENDED_LIMITS, ctypes.byref(limits), size
        )
        if not is_set or not self._add(pid):
            self.close()
            raise OSError(f"process {pid} cannot be put into a job object")

    def _add(self, pid: int) -> bool:
        process = self._kernel.OpenProcess(_SET_QUOTA_AND_TERMINATE, False, pid)
        if not process:
            return False
        try:
            return bool(self._kernel.AssignProcessToJobObject(self._handle, process))
        finally:
            self._kernel.CloseHandle(process)

    def is_alive(self) -> bool:
        """Whether any process of the job is running."""
        if self._handle is None:
            return False
        state = _Accounting()
        size = ctypes.sizeof(state)
        is_known = self._kernel.QueryInformationJobObject(
            self._handle, _ACCOUNTING, ctypes.byref(state), size, None
        )
        return bool(is_known) and state.ActiveProcesses > 0

    def terminate(self) -> None:
        """Kill all processes of the job."""
        if self._handle is not None:
            self._kernel.TerminateJobObject(self._handle, 1)

    def close(self) -> None:
        """Close the handle, which kills all processes that are still running."""
        if self._handle is not None:
            self._kernel.CloseHandle(self._handle)
            self._handle = None


def _kernel32() -> Any:
    assert sys.platform == "win32"
    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    handle, number = ctypes.c_void_p, ctypes.c_uint32
    kernel.CreateJobObjectW.restype = handle
    kernel.CreateJobObjectW.argtypes = [handle, ctypes.c_wchar_p]
    kernel.SetInformationJobObject.argtypes = [handle, ctypes.c_int, handle, number]
    kernel.QueryInformationJobObject.argtypes = [handle, ctypes.c_int, handle, number, handle]
    kernel.OpenProcess.restype = handle
    kernel.OpenProcess.argtypes = [number, ctypes.c_int, number]
    kernel.AssignProcessToJobObject.argtypes = [handle, handle]
    kernel.TerminateJobObject.argtypes = [handle, ctypes.c_uint]
    kernel.CloseHandle.argtypes = [handle]
    return kernel
