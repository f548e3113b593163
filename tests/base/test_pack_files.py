"""Lines that are added to the files of packs."""

import subprocess
import sys
from pathlib import Path

import pytest

from toolgate.base.pack_files import append_lines

pytest.importorskip("resource", reason="limits of a process are for POSIX")

# In a process of its own, because the limit holds for all files of a process.
FULL = """
import resource, sys
from pathlib import Path
from toolgate.base.pack_files import append_lines
from toolgate.errors import PackError

resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    append_lines(Path(sys.argv[1]), ["refund order 12"])
except PackError as error:
    print(error)
"""


def test_a_file_that_cannot_grow_keeps_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "refunds.txt"
    text = "i want my money back\n" * 1_000
    path.write_text(text, encoding="utf-8")

    run = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True
    )

    assert "cannot be written" in run.stdout
    assert path.read_text("utf-8") == text


def test_a_last_line_without_its_end_stays_a_line(tmp_path: Path) -> None:
    path = tmp_path / "refunds.txt"
    path.write_text("i want my money back", encoding="utf-8")

    assert append_lines(path, ["refund order 12", "I want my money back"]) == 1

    assert path.read_text("utf-8") == "i want my money back\nrefund order 12\n"
