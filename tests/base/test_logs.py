"""Logging: the form of a line, who is heard at which level, and the file."""

import io
import json
import logging
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolgate.base import logs
from toolgate.errors import SettingError
from toolgate.settings import LogSettings


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Whatever a test sets up is gone after it."""
    root, ours = logging.getLogger(), logging.getLogger("toolgate")
    before = (root.handlers[:], root.level, ours.level)
    yield
    for handler in root.handlers:
        if handler not in before[0]:
            handler.close()
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])
    logging.captureWarnings(False)


def written(settings: LogSettings, verbose: int = 0) -> io.StringIO:
    stream = io.StringIO()
    logs.set_up(settings, verbose=verbose, stream=stream)
    return stream


log = logging.getLogger("toolgate.upstream")


def test_a_line_for_people_has_local_time_level_event_and_fields() -> None:
    stream = written(LogSettings())
    log.warning("upstream down", extra={"server": "git hub", "after_s": 5.0})
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d warning upstream down "
        r' server="git hub" after_s=5.0\n',
        stream.getvalue(),
    )


def test_a_line_for_machines_is_one_json_object_in_utc() -> None:
    stream = written(LogSettings(format="json"))
    log.error("call failed", extra={"server": "größe", "status": 3})
    entry = json.loads(stream.getvalue())
    assert entry.pop("at").endswith("+00:00")
    assert entry == {
        "level": "error",
        "logger": "toolgate.upstream",
        "event": "call failed",
        "server": "größe",
        "status": 3,
    }


def test_the_request_being_worked_on_is_named_in_every_line() -> None:
    stream = written(LogSettings(format="json"))
    token = logs.REQUEST_ID.set("abc")
    try:
        log.info("called")
    finally:
        logs.REQUEST_ID.reset(token)
    log.info("idle")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first["request_id"] == "abc"
    assert "request_id" not in second


def test_text_of_others_never_starts_a_line_of_its_own() -> None:
    stream = written(LogSettings())
    log.warning("it said: %s", "a\n2026-01-01 error fake", extra={"title": "b\nc"})
    assert stream.getvalue().count("\n") == 1


def test_a_traceback_follows_its_line() -> None:
    stream = written(LogSettings())
    log.error("failed", exc_info=RuntimeError("broken"))
    lines = stream.getvalue().splitlines()
    assert lines[0].endswith("error   failed")
    assert lines[-1] == "RuntimeError: broken"


def test_each_server_may_have_its_own_level() -> None:
    stream = written(LogSettings(level="warning", servers={"noisy": "error", "watched": "debug"}))
    for server in ("noisy", "watched", "other"):
        log.debug("fine", extra={"server": server})
        log.warning("odd", extra={"server": server})
    heard = re.findall(r"(fine|odd)  server=(\w+)", stream.getvalue())
    assert heard == [("fine", "watched"), ("odd", "watched"), ("odd", "other")]


def test_verbose_shows_everything_of_ours_and_only_warnings_of_libraries() -> None:
    stream = written(LogSettings(level="error"), verbose=1)
    log.debug("ours")
    logging.getLogger("some.library").info("theirs")
    assert "ours" in stream.getvalue()
    assert "theirs" not in stream.getvalue()


@pytest.fixture
def library() -> Iterator[logging.Logger]:
    """A library that writes a log of its own, as FastMCP does when it is imported."""
    logger = logging.getLogger("a_library")
    handler = logging.StreamHandler(io.StringIO())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    yield logger
    logger.handlers.clear()


def test_the_log_of_a_library_goes_where_the_settings_say(library: logging.Logger) -> None:
    stream = written(LogSettings(format="json"))
    logs.take_over("a_library")
    logging.getLogger("a_library.server").warning("no such prompt")
    library.info("starting")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == [
        "no such prompt"
    ]


def test_the_log_of_a_library_is_left_alone_in_programs_of_others(library: logging.Logger) -> None:
    logs.take_over("a_library")
    assert library.handlers
    assert not library.propagate


def test_a_log_file_is_readable_by_its_user_alone_and_turns_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "ROTATE_BYTES", 2000)
    path = tmp_path / "logs" / "toolgate.log"
    assert logs.set_up(LogSettings(file=str(path))) == path
    for number in range(200):
        log.info("line", extra={"number": number})
    kept = sorted(file.name for file in path.parent.iterdir())
    assert kept == ["toolgate.log", *(f"toolgate.log.{n}" for n in range(1, 6))]
    assert all(file.stat().st_size <= 2000 for file in path.parent.iterdir())
    if sys.platform != "win32":
        assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}
    assert logs.tail(path, lines=1)[0].endswith("number=199")


def test_a_log_file_that_cannot_be_written_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, no folder", "utf-8")
    with pytest.raises(SettingError, match=r"Log file .* cannot be written.*Set log\.file"):
        logs.set_up(LogSettings(file=str(tmp_path / "taken" / "toolgate.log")))


def test_the_tail_of_a_missing_log_is_empty(tmp_path: Path) -> None:
    assert logs.tail(tmp_path / "absent.log") == []


def test_lines_of_a_worker_name_it() -> None:
    stream = io.StringIO()
    logs.set_up(LogSettings(), stream=stream, worker=3)
    log.warning("slow")
    assert stream.getvalue().endswith(" worker=3\n")


def test_processes_that_share_a_file_lose_no_line_when_it_is_put_aside(tmp_path: Path) -> None:
    """Each has the file open; whoever finds it full puts it aside, and the others follow."""
    path = tmp_path / "log"
    handlers = [
        logs.PrivateFile(path, maxBytes=200, backupCount=50, encoding="utf-8") for _ in range(3)
    ]
    lines = [f"line {number:04} {'x' * 20}" for number in range(120)]
    for number, line in enumerate(lines):
        handlers[number % 3].emit(logging.makeLogRecord({"msg": line}))
    for handler in handlers:
        handler.close()
    files = sorted(tmp_path.iterdir())
    assert len(files) > 10
    assert sorted("".join(file.read_text("utf-8") for file in files).splitlines()) == lines
    assert all(file.stat().st_size <= 200 for file in files)
