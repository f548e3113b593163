"""Lines that are added to the files of packs."""

from pathlib import Path

import pytest

from toolgate.base.pack_files import append_lines
from toolgate.errors import PackError

resource = pytest.importorskip("resource", reason="limits of a process are for POSIX")


def test_a_file_that_cannot_grow_keeps_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "refunds.txt"
    text = "i want my money back\n" * 1_000
    path.write_text(text, encoding="utf-8")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(text) // 2, before[1]))
    try:
        with pytest.raises(PackError, match="cannot be written"):
            append_lines(path, ["refund order 12"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert path.read_text("utf-8") == text


def test_a_last_line_without_its_end_stays_a_line(tmp_path: Path) -> None:
    path = tmp_path / "refunds.txt"
    path.write_text("i want my money back", encoding="utf-8")

    assert append_lines(path, ["refund order 12", "I want my money back"]) == 1

    assert path.read_text("utf-8") == "i want my money back\nrefund order 12\n"
