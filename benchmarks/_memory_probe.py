"""Asks a gateway process what its memory is used for."""

import json
import signal
from pathlib import Path
from typing import Any

import psutil

from tests.real.processes import wait_until

PROBE = Path(__file__).parent / "memory_probe"
CAUSES = {
    "Python objects": "objects_used",
    "free in Python's arenas": "objects_free",
    "C allocations": "malloc_used",
    "free in C's heap": "malloc_free",
    "mapped files": "RssFile",
}
"""Fields of a report, in bytes, by description."""

_REPORT_S = 180.0
"""Seconds to wait for a report; sorting a trace takes long (chosen)."""


class MemoryProbe:
    """Makes a gateway process that was started with `env` report on itself."""

    def __init__(self, folder: Path, *, trace: bool = False) -> None:
        """Choose where the report is written; with `trace`, allocations are traced."""
        self._report = folder / "memory.json"
        self.env = {"PYTHONPATH": str(PROBE), "TOOLGATE_MEMORY_REPORT": str(self._report)}
        if trace:
            self.env["TOOLGATE_MEMORY_TRACE"] = "1"

    def take(self, pid: int) -> dict[str, Any]:
        """Wait for the report and return it."""
        self._report.unlink(missing_ok=True)
        psutil.Process(pid).send_signal(signal.SIGUSR2)
        wait_until(
            lambda: True if self._report.exists() else None, within_s=_REPORT_S, what="a report"
        )
        return json.loads(self._report.read_text("utf-8"))
