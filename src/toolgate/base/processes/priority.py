"""Lets processes that may compute for seconds leave the CPU to those that answer requests."""

import os
import sys
from contextlib import suppress
from pathlib import Path

_NICENESS = 10
"""A tenth of the CPU time of a process with default priority, if both want all of it (Linux)."""


def lower_priority(pid: int) -> None:
    """Give way to other processes, as `nice` does; on Windows nothing changes."""
    if sys.platform == "win32":
        return
    with suppress(OSError):  # it has ended
        if os.getpriority(os.PRIO_PROCESS, pid) >= _NICENESS:
            return
        os.setpriority(os.PRIO_PROCESS, pid, _NICENESS)
        # On Linux this is the first thread; the others have priorities of their own.
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(thread.name), _NICENESS)
