"""Checks whether a process of this machine is running, and kills processes, on all platforms."""

import ctypes
import os
import signal
import sys
from pathlib import Path

_SYNCHRONIZE = 0x0010_0000
"""Access right that allows waiting for a process (winnt.h)."""

_STILL_RUNNING = 0x102
"""Result of WaitForSingleObject after the timeout (WAIT_TIMEOUT in winbase.h)."""

_ACCESS_DENIED = 5
"""Error of OpenProcess for a process of another user (winerror.h)."""


def is_running(pid: int) -> bool:
    """Whether a process is running. Its id may have been reused for another process.

    A process that has ended but was not reaped by its parent (a zombie) is not running.
    """
    if sys.platform == "win32":
        return _is_running_on_windows(pid)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(pid)


def end_at_once(pid: int) -> None:
    """Kill a process, without a chance to clean up.

    Raises:
        OSError: It does not exist, or belongs to another user.
    """
    # On Windows, os.kill ends the process whatever the signal, and SIGKILL does not exist.
    os.kill(pid, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)


def _is_running_on_windows(pid: int) -> bool:
    # On Windows, os.kill(pid, 0) would end the process.
    assert sys.platform == "win32"
    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    kernel.OpenProcess.restype = ctypes.c_void_p
    handle = kernel.OpenProcess(_SYNCHRONIZE, False, pid)
    if not handle:
        return ctypes.get_last_error() == _ACCESS_DENIED
    try:
        return kernel.WaitForSingleObject(ctypes.c_void_p(handle), 0) == _STILL_RUNNING
    finally:
        kernel.CloseHandle(ctypes.c_void_p(handle))


def _is_zombie(pid: int) -> bool:
    """Whether /proc says that a process is a zombie; False on systems without /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[:1] == ["Z"]
