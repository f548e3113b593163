"""`toolgate audit`: what was searched and called, for people and for programs."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.cli.test_db import seed
from toolgate.base.ids import new_id, utc_now
from toolgate.cli import run
from toolgate.settings import data_dir
from toolgate.testing.contracts.store import HOSTILE, sample_record
from toolgate.types import AuditRecord

Answer = Callable[..., tuple[int, str, str]]

FOUND = sample_record(1, action="discover", server=None, target=None, query="list files")
BEGUN = sample_record(2, phase="intent")
CALLED = sample_record(3, parent_id=BEGUN.record_id, duration_ms=12.4, client="cli")
FAILED = sample_record(4, server="time", target="time:now", status="timed_out")


@pytest.fixture
def audit(capsys: pytest.CaptureFixture[str]) -> Answer:
    """`audit("list")`: exit status, standard output, standard error."""

    def answer(*argv: str) -> tuple[int, str, str]:
        status = run(["audit", *argv])
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return answer


def minutes(out: str) -> list[int]:
    return [int(record["record_id"], 16) for record in json.loads(out)]


def test_the_real_command_lists_what_was_recorded(program: Run) -> None:
    """Through the entry point; tabs in a pipe, newest first, intentions left out."""
    seed(FOUND, BEGUN, CALLED, FAILED)

    done = program("audit", "list", TZ="UTC")

    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split("\t") for line in done.stdout.splitlines()] == [
        ["Time", "Action", "Target", "Status", "Duration", "Client"],
        ["2026-07-28 00:04:00+00:00", "call", "time:now", "timed_out", "-", "-"],
        ["2026-07-28 00:03:00+00:00", "call", "git:log", "ok", "12 ms", "cli"],
        ["2026-07-28 00:01:00+00:00", "discover", "list files", "ok", "-", "-"],
    ]


def test_json_has_every_field(audit: Answer) -> None:
    seed(FOUND, CALLED)

    status, out, _ = audit("list", "--json")

    assert status == 0
    assert json.loads(out) == [asdict(CALLED), asdict(FOUND)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], [4, 3, 1]),
        (["--before"], [4, 3, 2, 1]),
        (["--action", "discover"], [1]),
        (["--server", "time"], [4]),
        (["--status", "timed_out"], [4]),
        (["--since", "2026-07-28T00:03Z"], [4, 3]),
        (["--since", "2026-07-28T02:04+02:00"], [4]),
        (["--limit", "1"], [4]),
        (["--server", "git", "--limit", "5"], [3]),
        (["--since", "9000d"], [4, 3, 1]),
    ],
    ids=str,
)
def test_options_narrow_the_list(audit: Answer, words: list[str], expected: list[int]) -> None:
    seed(FOUND, BEGUN, CALLED, FAILED)

    status, out, err = audit("list", "--json", *words)

    assert (status, err) == (0, "")
    assert minutes(out) == expected


def test_an_age_counts_back_from_now(audit: Answer) -> None:
    old = sample_record(0, record_id=new_id(), at=utc_now(plus_s=-7200))
    young = sample_record(0, record_id=new_id(), at=utc_now(plus_s=-60))
    seed(old, young)

    status, out, _ = audit("list", "--json", "--since", "1h")

    assert status == 0
    assert json.loads(out) == [asdict(young)]


def test_nothing_recorded_is_nothing_found(audit: Answer) -> None:
    """No store is made by looking."""
    assert audit("list") == (3, "", "No matching records.\n")
    assert audit("list", "--json")[:2] == (3, "[]\n")
    assert not data_dir().exists()

    seed(FOUND)
    assert audit("list", "--server", "absent")[0] == 3


@pytest.mark.parametrize(
    "words",
    [["--since", "soon"], ["--since", "2026-13-01"], ["--limit", "0"], ["--action", "bogus"]],
)
def test_wrong_use_is_said_in_one_sentence(audit: Answer, words: list[str]) -> None:
    status, out, err = audit("list", *words)

    assert (status, out) == (2, "")
    assert err.startswith("toolgate: ")
    assert err.count("\n") == 1


def test_export_writes_every_record_oldest_first(audit: Answer, tmp_path: Path) -> None:
    """More than a page, in a private file."""
    many = [sample_record(minute % 1440, record_id=new_id()) for minute in range(2300)]
    seed(*many)
    file = tmp_path / "audit.jsonl"

    status, out, err = audit("export", str(file))

    assert (status, out) == (0, "")
    assert err == f"Wrote 2,300 records to {file}.\n"
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    expected = sorted(many, key=lambda record: (record.at, record.record_id))
    assert lines == [asdict(record) for record in expected]
    assert file.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob("*.partial"))


def test_export_to_standard_output_is_one_object_a_line(audit: Answer) -> None:
    """Whatever a client sent, a line stays a line of plain JSON."""
    odd = sample_record(5, client=HOSTILE, query="a\nb")
    seed(BEGUN, odd)

    status, out, err = audit("export", "-", "--action", "call")

    assert (status, err) == (0, "")
    assert [json.loads(line) for line in out.splitlines()] == [asdict(BEGUN), asdict(odd)]


def test_export_replaces_a_file_only_by_force(audit: Answer, tmp_path: Path) -> None:
    seed(FOUND)
    file = tmp_path / "audit.jsonl"
    file.write_text("mine", encoding="utf-8")

    assert audit("export", str(file))[0] == 2
    assert file.read_text(encoding="utf-8") == "mine"
    assert audit("export", str(file), "--force")[0] == 0
    assert json.loads(file.read_text(encoding="utf-8")) == asdict(FOUND)


def test_export_into_a_missing_folder_is_reported(audit: Answer, tmp_path: Path) -> None:
    seed(FOUND)

    status, _, err = audit("export", str(tmp_path / "absent" / "audit.jsonl"))

    assert status == 2
    assert "No such file or directory" in err


def test_what_a_client_sent_cannot_steer_the_terminal(audit: Answer) -> None:
    """In a pipe a cell stays one line without tabs."""
    seed(sample_record(1, target=None, query="a\tb\nc"))

    assert "\ta b c\t" in audit("list")[1]


def test_searches_are_compared_side_by_side(audit: Answer) -> None:
    """The issue: `experiment_percent` with metrics and cost of both arms."""

    def searched(number: int, search: str, **detail: Any) -> AuditRecord:
        shown = {"shown": [["git:log", 0.9]], "tokens": 100, "search": search}
        return sample_record(
            number, action="discover", server=None, target=None, detail=shown | detail
        )

    first, second = searched(1, "hybrid"), searched(2, "hybrid", fallback="cloud: status 500")
    third = searched(3, "off", shown=[], tokens=20)
    call = sample_record(4, phase="intent", parent_id=first.record_id)
    old = sample_record(5, action="discover", server=None, target=None, detail={})
    seed(first, second, third, call, old)

    status, out, _ = audit("compare", "--since", "9000d", "--json")
    table = audit("compare", "--since", "9000d")[1]

    hybrid, off = json.loads(out)
    assert status == 0
    assert (hybrid["optimization"], off["optimization"]) == ("hybrid", None)
    assert (hybrid["searches"], hybrid["executed_share"], hybrid["fallbacks"]) == (2, 0.5, 1)
    assert (off["tokens"], off["tokens_mean"], off["without_result"]) == (20, 20.0, 1)
    assert [line.split("\t")[:4] for line in table.splitlines()] == [
        ["Search", "Conversations", "Searches", "Success"],
        ["hybrid", "1", "2", "50%"],
        ["off", "1", "1", "0%"],
    ]


def test_nothing_to_compare_is_said(audit: Answer) -> None:
    assert audit("compare") == (
        3,
        "",
        "There were no searches in this time, or the audit log is disabled.\n",
    )
