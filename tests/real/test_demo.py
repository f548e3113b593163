"""`toolgate demo` does what it shows, ends, and leaves nothing behind."""

import json
import re
import shutil
import signal
import sys
from dataclasses import asdict, replace
from pathlib import Path

import anyio
import psutil
import pytest

from tests.limits import HANG_S
from tests.real.processes import isolated, running, wait_until
from tests.real.setup import CACHE, Installed
from toolgate.cli.demo._report import DemoReport, RecoveryResult, RequestResult
from toolgate.cli.demo._requests import read_hits
from toolgate.intents import PackStages, builtin_pack_folder
from toolgate.models.embedders.bundled import BundledEmbedder
from toolgate.packs import intent_set_of, load_pack

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


async def train(folder: Path) -> None:
    """Put the model of the pack `schema` into a folder; the tests of a run train it once."""
    stages = PackStages(embedder=BundledEmbedder(), cache=folder)
    await stages.update(intent_set_of([load_pack(builtin_pack_folder("schema"))]))


def test_the_demo_does_what_it_shows_and_serves_until_it_is_told_to_stop(
    installed: Installed, tmp_path: Path
) -> None:
    log = tmp_path / "demo.log"
    env = isolated(tmp_path) | {"TMPDIR": str(tmp_path)}
    trained = tmp_path / "trained"
    anyio.run(train, trained)
    with running([*COMMAND, "--keep"], log=log, env=env) as process:

        def serving() -> bool | None:
            assert process.poll() is None, log.read_text(encoding="utf-8")
            # The gateway that answers questions finds its model: training takes 10 s of CPU.
            for folder in tmp_path.glob("toolgate-demo-*/shop"):
                learned = folder / "data" / "toolgate" / "learned"
                if not learned.exists():
                    shutil.copytree(trained, learned)
            return True if "Serving at" in log.read_text(encoding="utf-8") else None

        wait_until(serving, within_s=HANG_S, what="serving")
        process.send_signal(signal.SIGINT)
        assert process.wait(HANG_S) == 0

    shown = log.read_text(encoding="utf-8")
    assert f"1. {len(installed.servers)} servers" in shown
    assert {"2024-11-05", "2025-11-25", "2026-07-28"} <= set(shown.split())
    assert len(re.findall(r"^     found  \w+:\w+ ", shown, re.MULTILINE)) == 4
    assert len(re.findall(r"^     intent ", shown, re.MULTILINE)) == 3
    assert not {"NOTE", "FAILED", "GONE", "nothing,"} & set(shown.split())
    saved = re.search(r"([\d.]+) % less", shown)
    assert saved
    assert float(saved[1]) > 98 - 0.05
    killed, back = re.search(r"\(process (\d+)\)", shown), re.search(r"as process (\d+)", shown)
    assert killed
    assert back
    assert killed[1] != back[1]
    assert re.search(r"Web console: http://127\.0\.0\.1:\d+/console\n", shown)
    to_copy = ('   {"mcpServers"', "   /", "No Node")  # lines that people copy stay whole
    long = [line for line in shown.splitlines() if len(line) > 80]
    assert [line for line in long if not line.startswith(to_copy)] == []
    assert "\x1b" not in shown
    assert list(tmp_path.glob("toolgate-demo-*")) == []
    assert left_of(tmp_path) == []


def test_results_as_json_say_whether_everything_worked() -> None:
    """What `--json` prints; a second run of the whole demo would cost half a minute of CPU."""
    request = RequestResult(
        request="write a file", found="files:write", relevance=0.8, expected="files:write",
        ran="files:write", worked=True, answer="done", discovery_tokens=90, discovery_ms=1.0,
        execute_ms=1.0,
    )  # fmt: skip
    recovery = RecoveryResult(
        server="files", killed_pid=1, new_pid=2, first_call="", first_call_worked=False,
        first_call_ms=1.0, works_again=True,
    )  # fmt: skip
    report = DemoReport(requests=[request], recovery=recovery)

    shown = json.loads(json.dumps(report.as_json()))

    assert shown["fine"] is True
    assert shown["requests"] == [asdict(request)]
    assert shown["recovery"]["new_pid"] == 2
    report.requests.append(replace(request, worked=False))
    assert report.as_json()["fine"] is False


def test_hits_are_read_as_a_model_reads_them() -> None:
    text = (
        "time:convert_time(source, target) [0.53, read-only]\n  Convert time.\n"
        '"odd:my tool"(a?) [0.20] -> {x: int}\n  also on odd: other\nNote: nothing else.\n'
    )

    assert read_hits(text) == [("time:convert_time", 0.53), ("odd:my tool", 0.2)]
