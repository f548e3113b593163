"""How commands show things: terminals wide and narrow, with and without colours; pipes."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import server_table, small_servers
from tests.limits import HANG_S
from toolgate.cli import run
from toolgate.cli.terminal._exit import INTERRUPTED, report, status_of_code
from toolgate.cli.terminal._output import (
    local_time,
    plural,
    print_json,
    print_table,
    print_text,
    wrap_text,
)
from toolgate.cli.terminal._sanitize import one_line, sanitize
from toolgate.errors import (
    ArgumentError,
    ForbiddenError,
    PortTakenError,
    StoreError,
    ToolgateError,
    UnknownToolError,
)

pty = pytest.importorskip("pty", reason="terminals of POSIX")

Terminal = Callable[..., str]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """What a Python statement shows on a terminal of a width."""

    def show(code: str, *, columns: int, **environment: str) -> str:
        with monkeypatch.context() as patch:
            for name, value in {
                "COLUMNS": str(columns),
                "TERM": "xterm-256color",
                **environment,
            }.items():
                patch.setenv(name, value)
            leader, follower = pty.openpty()
            process = subprocess.Popen(
                [sys.executable, "-c", code], stdin=follower, stdout=follower, stderr=follower
            )
            os.close(follower)
        shown = b""
        try:
            while select.select([leader], [], [], 20)[0]:
                try:
                    part = os.read(leader, 65536)
                except OSError:  # the other end is closed
                    break
                if not part:
                    break
                shown += part
        finally:
            process.wait(timeout=HANG_S)
            os.close(leader)
        return shown.decode("utf-8", "replace").replace("\r\n", "\n")

    return show


def plain(shown: str) -> str:
    """The text without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", shown)


TABLE = """
from toolgate.cli.terminal._output import print_table
print_table(("Name", "State", "Remark"), [("github", "ready", "since yesterday " * 6)])
"""


def test_a_table_fills_the_terminal_and_cuts_its_last_column(terminal: Terminal) -> None:
    lines = plain(terminal(TABLE, columns=60)).splitlines()
    assert [len(line.rstrip()) <= 60 for line in lines] == [True, True]
    assert lines[1].startswith("github  ready  since yesterday since")
    assert lines[1].rstrip().endswith("…")


def test_a_narrow_terminal_loses_the_least_columns_first(terminal: Terminal) -> None:
    code = TABLE.replace("* 6)])", '* 6)], spare=("State",))')
    lines = plain(terminal(code, columns=30)).splitlines()
    assert lines[0].split() == ["Name", "Remark"]
    assert lines[1].startswith("github  since yesterday")
    assert plain(terminal(code, columns=60)).splitlines()[0].split()[1] == "State"


def test_a_table_that_is_shown_whole_is_never_cut(terminal: Terminal) -> None:
    code = TABLE.replace("* 6)])", "* 6)], wrap=None)")
    shown = plain(terminal(code, columns=60))
    assert "…" not in shown
    assert shown.startswith("github\n  State: ready\n  Remark: since yesterday")
    assert plain(terminal(code, columns=120)).splitlines()[0].split() == ["Name", "State", "Remark"]


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "no server"), (1, "1 server"), (2, "2 servers"), (5000, "5,000 servers")],
)
def test_numbers_agree_with_their_things(count: int, said: str) -> None:
    assert plural(count, "server") == said


def test_a_narrow_terminal_gets_paragraphs(terminal: Terminal) -> None:
    lines = plain(terminal(TABLE, columns=24)).splitlines()
    assert lines[:2] == ["github", "  State: ready"]
    assert all(len(line) <= 24 for line in lines)


def test_colours_are_for_terminals_that_want_them(terminal: Terminal) -> None:
    assert "\x1b[1m" in terminal(TABLE, columns=60)
    # https://no-color.org/ speaks of colour; bold and the like may stay
    assert "\x1b[3" not in terminal(TABLE, columns=60, NO_COLOR="1")


def test_standard_output_stays_itself_while_one_waits(terminal: Terminal) -> None:
    code = (
        "import sys\nfrom toolgate.cli.terminal._output import spinner\n"
        "with spinner('Checking'):\n    encoding = sys.stdout.encoding\nprint(encoding)"
    )
    shown = terminal(code, columns=80, PYTHONIOENCODING="utf-8")
    assert "Checking" in shown
    assert shown.endswith("utf-8\n")


def test_long_sentences_are_cut_between_words_on_a_terminal(terminal: Terminal) -> None:
    code = (
        "import sys\nfrom toolgate.cli.terminal._output import wrap_text\n"
        "print(wrap_text('store: in /a/folder/with-a-name/of-its-own, kept', sys.stdout, hang=2))"
    )
    assert terminal(code, columns=24) == "store: in\n  /a/folder/with-a-name/of-its-own,\n  kept\n"


def test_long_sentences_stay_whole_in_a_pipe() -> None:
    with Path(os.devnull).open("w", encoding="utf-8") as pipe:
        assert wrap_text("word " * 40, pipe) == "word " * 40


def test_a_pipe_gets_tabs_and_the_names_of_the_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("A", "B"), [("x", "two\nlines")])
    assert capsys.readouterr().out == "A\tB\nx\ttwo lines\n"


def test_text_of_others_cannot_steer_the_terminal() -> None:
    assert sanitize("a\x1b[31mb\x07\x9b") == "a\ufffd[31mb\ufffd\ufffd"
    assert sanitize("a\u202eb\u2066c\u200bd\u2028") == "a\ufffdb\ufffdc\ufffdd\ufffd"
    assert one_line("name\ntoolgate: all is well\r") == "name toolgate: all is well"
    assert sanitize("می\u200cخواهم 👩\u200d💻") == "می\u200cخواهم 👩\u200d💻"
    assert sanitize("größe\t日本\nעברית") == "größe\t日本\nעברית"


def test_text_of_others_is_harmless_in_pipes_errors_and_json_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    odd = "ctl\x1b[31m\x9b\u202e\x07"
    print_text(odd)
    print_table(("A",), [(odd,)])
    report(UnknownToolError("No such tool.", hint=f"Nearest: {odd}\ntoolgate: fine"))
    report(RuntimeError(odd), verbose=1)
    print_json({"name": odd})
    said = capsys.readouterr()
    assert not set("\x1b\x9b\u202e\x07") & set(said.out + said.err)
    assert "\ntoolgate: fine" not in said.err
    assert json.loads(said.out[said.out.index("{") :]) == {"name": odd}


def test_people_see_local_time_with_its_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert local_time("2026-07-28T09:30:00.123Z") == "2026-07-28 18:30:00+09:00"
    finally:
        monkeypatch.undo()
        time.tzset()
    assert local_time(None) == "-"
    assert local_time("whenever") == "whenever"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (PortTakenError("x"), 2),
        (ArgumentError("x"), 2),
        (UnknownToolError("x"), 3),
        (ForbiddenError("x"), 4),
        (StoreError("x"), 1),
        (KeyboardInterrupt(), INTERRUPTED),
        (ZeroDivisionError("x"), 1),
        (ExceptionGroup("several", [ExceptionGroup("inner", [UnknownToolError("x")])]), 3),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_every_kind_of_error_has_its_status(
    error: BaseException, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(error) == status
    assert "Traceback" not in capsys.readouterr().err


def test_a_traceback_is_shown_to_those_who_ask(capsys: pytest.CaptureFixture[str]) -> None:
    report(ToolgateError("It failed.", hint="Do that."), verbose=1)
    said = capsys.readouterr().err
    assert "ToolgateError" in said
    assert said.endswith("toolgate: It failed. Do that.\n")


@pytest.mark.parametrize(
    ("code", "status"), [("setting", 2), ("unknown_tool", 3), ("forbidden", 4), ("nonsense", 1)]
)
def test_an_error_of_a_running_gateway_has_the_same_status(code: str, status: int) -> None:
    assert status_of_code(code) == status


def test_a_reader_that_has_seen_enough_is_no_error(folder: Path) -> None:
    """`toolgate tools | head -1`."""
    tools = subprocess.Popen(
        [sys.executable, "-m", "toolgate", "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert tools.stdout
    assert tools.stderr
    tools.stdout.close()
    said = tools.stderr.read()
    tools.stderr.close()
    tools.wait(timeout=HANG_S)
    assert b"Traceback" not in said


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_ends_a_waiting_command_without_a_word_and_without_its_children(
    folder: Path, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    (folder / "toolgate.toml").write_text(
        server_table("slow", "--never", "--mark", str(started)), encoding="utf-8"
    )
    # What a shell started in the background ignores the signal, and children inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [sys.executable, "-m", "toolgate", "servers", "test", "slow"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    signal.signal(signal.SIGINT, before)
    started.read_bytes()  # until the server has opened it
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=HANG_S)
    assert (process.returncode, out, err) == (INTERRUPTED, "", "")
    assert small_servers(folder) == []


def test_json_is_pure_ascii_where_the_terminal_lacks_utf8(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    (folder / "toolgate.toml").write_text(
        server_table("small", SMALL_SECRET="größe"), encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, "-m", "toolgate", "servers", "logs", "small", "--json"],
        capture_output=True,
        timeout=HANG_S,
        check=True,
    )
    assert json.loads(done.stdout)["stderr_tail"] == ["small server größe"]


def test_run_never_raises_for_what_a_user_can_cause(folder: Path) -> None:
    (folder / "toolgate.toml").write_bytes(b"\xff\xfe\x00")
    for argv in (["tools"], ["serve"], ["stdio"], ["servers", "list"], ["call", "x"]):
        assert run(argv) == 2
