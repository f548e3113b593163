"""Makes a Python process report where its memory is, on `SIGUSR2`.

The interpreter loads it when this folder is on `PYTHONPATH`. The report is JSON, written to the
file that `TOOLGATE_MEMORY_REPORT` names; with `TOOLGATE_MEMORY_TRACE`, allocations are traced.
"""

import ctypes
import gc
import json
import os
import re
import signal
import sys
import tempfile
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

_REPORT = os.environ.get("TOOLGATE_MEMORY_REPORT", "")
_TRACE = bool(os.environ.get("TOOLGATE_MEMORY_TRACE"))
_FRAMES = 3
"""Frames of a traced allocation; enough to see who requested it (chosen)."""


class _Mallinfo(ctypes.Structure):
    """https://man7.org/linux/man-pages/man3/mallinfo.3.html."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def _malloc() -> dict[str, int]:
    """Bytes that the C allocator has given out, and bytes that it keeps for later."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _Mallinfo
    info = mallinfo()
    return {"malloc_used": info.uordblks + info.hblkhd, "malloc_free": info.fordblks}


def _small_objects() -> dict[str, int]:
    """Bytes of Python's allocator: in used blocks, and in all arenas."""
    with tempfile.TemporaryFile() as file:
        saved = os.dup(2)
        try:
            os.dup2(file.fileno(), 2)
            sys._debugmallocstats()  # noqa: SLF001 - the only way to these numbers
        finally:
            os.dup2(saved, 2)
            os.close(saved)
        file.seek(0)
        text = file.read().decode()

    def number(label: str) -> int:
        match = re.search(rf"^{label}\s+=\s+([\d,]+)$", text, re.MULTILINE)
        return int(match[1].replace(",", "")) if match else 0

    used = number("# bytes in allocated blocks")
    arenas = re.search(r"^[\d]+ arenas \* [\d]+ bytes/arena\s+=\s+([\d,]+)$", text, re.MULTILINE)
    total = int(arenas[1].replace(",", "")) if arenas else used
    return {"objects_used": used, "objects_free": total - used}


def _resident() -> dict[str, int]:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    sizes = {line.split(":")[0]: line.split()[1] for line in lines if line.endswith(" kB")}
    return {name: int(sizes[name]) * 1024 for name in ("VmRSS", "RssAnon", "RssFile")}


def _type_name(item: object) -> str:
    return f"{type(item).__module__}.{type(item).__qualname__}"


def _write_report(*_: object) -> None:
    gc.collect()
    report: dict[str, Any] = {**_resident(), **_malloc(), **_small_objects()}
    report["modules"] = len(sys.modules)
    report["objects"] = Counter(map(_type_name, gc.get_objects()))
    report["lines"] = {}
    if _TRACE:
        snapshot = tracemalloc.take_snapshot().filter_traces(
            [tracemalloc.Filter(inclusive=False, filename_pattern=__file__)]
        )
        report["lines"] = {
            " < ".join(f"{frame.filename}:{frame.lineno}" for frame in reversed(stat.traceback)): (
                stat.size
            )
            for stat in snapshot.statistics("traceback")[:4_000]
        }
    path = Path(_REPORT)
    written = path.with_suffix(".new")
    written.write_text(json.dumps(report), encoding="utf-8")
    written.replace(path)


if _REPORT and "serve" in sys.orig_argv:
    if _TRACE:
        tracemalloc.start(_FRAMES)
    signal.signal(signal.SIGUSR2, _write_report)
