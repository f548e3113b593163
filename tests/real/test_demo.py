"""`toolgate demo` does what it shows, ends, and leaves nothing behind."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.limits import HANG_S
from tests.real.processes import isolated, running, wait_until
from tests.real.setup import CACHE, Installed
from toolgate.cli.demo._requests import read_hits

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("demo")]

COMMAND = (sys.executable, "-m", "toolgate", "demo", "--servers-dir", str(CACHE))


def left_of(folder: Path) -> list[str]:
    """Command lines of processes that have to do with this folder."""
    lines: list[str] = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if str(folder) in line:
            lines.append(line)
    return lines


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    env = dict(os.environ) | isolated(folder) | {"TMPDIR": str(folder)}  # noqa: TID251 - a child
    return subprocess.run(
        [*COMMAND, *options], capture_output=True, text=True, timeout=HANG_S, check=False, env=env
    )


def test_the_demo_finds_runs_recovers_and_leaves_nothing(
    installed: Installed, tmp_path: Path
) -> None:
    done = run(tmp_path, "--json")

    assert done.returncode == 0, done.stdout + done.stderr
    shown = json.loads(done.stdout)
    assert shown["fine"]
    assert len(shown["servers"]) == len(installed.servers)
    assert {row["era"] for row in shown["servers"]} == {"modern", "handshake"}
    assert [one["found"] for one in shown["requests"]] == [
        one["expected"] for one in shown["requests"]
    ]
    assert len(shown["requests"]) == 4
    assert [one["worked"] for one in shown["questions"]] == [True, True, True]
    assert shown["shown_tokens"] < shown["menu_tokens"] / 50
    assert shown["recovery"]["new_pid"] not in {None, shown["recovery"]["killed_pid"]}
    assert list(tmp_path.glob("toolgate-demo-*")) == []
    assert left_of(tmp_path) == []


def test_a_kept_demo_fits_eighty_columns_and_serves_until_it_is_told_to_stop(
    installed: Installed, tmp_path: Path
) -> None:
    log = tmp_path / "demo.log"
    env = isolated(tmp_path) | {"TMPDIR": str(tmp_path)}
    with running([*COMMAND, "--keep"], log=log, env=env) as process:

        def serving() -> bool | None:
            assert process.poll() is None, log.read_text(encoding="utf-8")
            return True if "Serving at" in log.read_text(encoding="utf-8") else None

        wait_until(serving, within_s=HANG_S, what="serving")
        process.send_signal(signal.SIGINT)
        assert process.wait(HANG_S) == 0

    told = log.read_text(encoding="utf-8")
    assert re.search(r"Web console: http://127\.0\.0\.1:\d+/console\n", told)
    to_copy = ('   {"mcpServers"', "   /", "No Node")  # lines that people copy stay whole
    long = [line for line in told.splitlines() if len(line) > 80]
    assert [line for line in long if not line.startswith(to_copy)] == []
    assert "\x1b" not in told
    assert list(tmp_path.glob("toolgate-demo-*")) == []
    assert left_of(tmp_path) == []


def test_hits_are_read_as_a_model_reads_them() -> None:
    text = (
        "time:convert_time(source, target) [0.53, read-only]\n  Convert time.\n"
        '"odd:my tool"(a?) [0.20] -> {x: int}\n  also on odd: other\nNote: nothing else.\n'
    )

    assert read_hits(text) == [("time:convert_time", 0.53), ("odd:my tool", 0.2)]
