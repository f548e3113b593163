"""`toolgate start`, `stop`, `status`, `logs` and `open`, with real processes."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from tests.cli.conftest import SMALL_SERVER, Command, run_files
from tests.limits import HANG_S
from toolgate.base.processes import run_file
from toolgate.base.processes.liveness import is_running
from toolgate.cli.serving._background import log_file
from toolgate.cli.terminal._durations import in_words
from toolgate.cli.terminal._exit import FAILED, NO_RESULT, SUCCESS
from toolgate.settings import Settings, run_dir

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


@pytest.fixture
def background(folder: Path) -> Iterator[Path]:
    """A working folder whose gateways are ended with the test."""
    yield folder
    for run in run_file.find_all(run_dir(), None):
        os.kill(run.pid, signal.SIGKILL)


def test_a_gateway_starts_reports_its_servers_and_stops(background: Path, command: Command) -> None:
    assert command("status").status == NO_RESULT
    with (background / "toolgate.toml").open("a", encoding="utf-8") as file:
        file.write('\n[server.tickets]\ncommand = "x"\nenv = { T = "${env:TICKET_TOKEN}" }\n')
        file.write('[server.wiki]\ncommand = "x"\nenv = { T = "${env:WIKIKEY}" }\n')
    started = command("start", "--json")
    assert started.status == SUCCESS, started.err
    pid = started.json["pid"]

    again = command("start")
    assert again.status == SUCCESS
    assert f"process {pid}" in again.out

    deadline = monotonic() + HANG_S
    while (status := command("status", "--json").json)["servers"][0]["tools"] == 0:
        assert monotonic() < deadline
    assert (status["running"], status["pid"]) == (True, pid)
    assert [(server["name"], server["state"]) for server in status["servers"]] == [
        ("small", "ready"),
        ("tickets", "disabled"),
        ("wiki", "disabled"),
    ]
    shown = command("status").out
    assert "3 servers: 2 disabled, 1 ready; 3 tools" in shown
    for server, variable in (("tickets", "TICKET_TOKEN"), ("wiki", "WIKIKEY")):
        reason = f"{server}: disabled. It needs the variable {variable}, which is not set.\n"
        assert reason in shown
    assert shown.endswith("How to fix it: toolgate doctor\n")
    called = command("call", "tickets:create").err
    assert "needs the variable TICKET_TOKEN" in called
    assert "toolgate servers enable" not in called  # it cannot be enabled
    assert "2 servers are down: tickets, wiki." in command("search", "create a ticket").err
    assert str(log_file(Settings())) in command("paths").out
    assert command("open", "--no-browser").out == f"{started.json['address']}/console\n"
    assert "serving" in command("logs").out

    stopped = command("stop")
    assert (stopped.status, f"process {pid}" in stopped.out) == (SUCCESS, True)
    assert not is_running(pid)
    assert run_files() == []
    assert command("stop").status == NO_RESULT


def test_a_call_directly_after_the_start_waits_for_its_server(
    background: Path, command: Command
) -> None:
    """It failed with `Server 'small' is still starting`."""
    slow = "import sys, time; time.sleep(1); import runpy; "
    slow += f"runpy.run_path({str(SMALL_SERVER)!r}, run_name='__main__')"
    (background / "toolgate.toml").write_text(
        f"[serve]\nport = 0\n[server.slow]\ncommand = {sys.executable!r}\n"
        f'args = ["-c", {json.dumps(slow)}]\n',
        encoding="utf-8",
    )
    assert command("start").status == SUCCESS
    done = command("call", "slow:add_numbers", "--arg", "a=2", "--arg", "b=3")
    assert (done.status, done.err) == (SUCCESS, "")
    assert done.json == {"sum": 5}


def test_a_gateway_that_cannot_start_shows_what_it_printed(
    background: Path, command: Command
) -> None:
    done = command("start", "--host", "0.0.0.0")
    assert done.status == FAILED
    assert "open to other machines" in done.err
    assert command("status").status == NO_RESULT


def test_stop_leaves_a_process_alone_that_is_no_gateway(background: Path, command: Command) -> None:
    """The number of a gateway that was killed may belong to another program by now."""
    pid = command("start", "--json").json["pid"]
    path = run_files()[0]
    os.kill(pid, signal.SIGKILL)
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        body = path.read_text("utf-8").replace(str(pid), str(other.pid))
        path.write_text(body, encoding="utf-8")
        done = command("stop")
        assert done.status == FAILED
        assert "may be another program" in done.err
        assert other.poll() is None
    finally:
        other.communicate(timeout=HANG_S)
        path.unlink()


def test_a_gateway_of_another_configuration_is_named_and_left_alone(
    background: Path, command: Command
) -> None:
    other = background / "other.toml"
    other.write_text("[serve]\nport = 0\n", encoding="utf-8")
    address = command("--config", str(other), "start", "--json").json["address"]
    done = command("stop")
    assert done.status == NO_RESULT
    assert f"{address} ({other})" in done.err
    assert command("--config", str(other), "stop", "--now").status == SUCCESS


def test_a_gateway_from_before_the_configuration_file_is_stopped(
    background: Path, command: Command
) -> None:
    """After `toolgate init`, neither `stop` nor `start` worked: only `kill` did."""
    file = background / "toolgate.toml"
    text = file.read_text("utf-8")
    elsewhere = background / "elsewhere"
    elsewhere.mkdir()
    file.unlink()
    with contextlib.chdir(elsewhere):
        started = command("start", "--port", "0", "--json").json
    file.write_text(text, encoding="utf-8")
    assert command("stop").status == NO_RESULT  # these settings have another port
    port = started["address"].rpartition(":")[2]
    file.write_text(text.replace("port = 0", f"port = {port}"), encoding="utf-8")
    refused = command("start")
    assert refused.status == FAILED
    assert "Stop it first: toolgate stop" in refused.err
    stopped = command("stop")
    assert (stopped.status, f"process {started['pid']}" in stopped.out) == (SUCCESS, True)
    assert command("start").status == SUCCESS


def test_commands_still_reach_a_gateway_that_takes_over_a_new_configuration_file(
    background: Path, command: Command
) -> None:
    """It used the file, but was only found without one: `status` said that no gateway runs."""
    file = background / "toolgate.toml"
    text = file.read_text("utf-8")
    file.unlink()
    pid = command("start", "--port", "0", "--json").json["pid"]
    file.write_text(text, encoding="utf-8")
    deadline = monotonic() + HANG_S
    while (status := command("status", "--json")).status != SUCCESS:
        assert monotonic() < deadline
    assert status.json["pid"] == pid
    assert "already running" in command("start").out
    assert f"process {pid}" in command("stop").out


def test_logs_are_followed_over_their_rotation(background: Path) -> None:
    log = background / "gateway.log"
    settings = f'[serve]\nport = 0\n[log]\nfile = "{log}"\n'
    (background / "toolgate.toml").write_text(settings, encoding="utf-8")
    log.write_text("old\n", encoding="utf-8")
    follower = subprocess.Popen(
        [sys.executable, "-u", "-m", "toolgate", "logs", "-f", "-n", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout is not None
    try:
        assert follower.stdout.readline() == "old\n"
        with log.open("a", encoding="utf-8") as file:
            file.write("new\n")
        assert follower.stdout.readline() == "new\n"
        log.rename(log.with_suffix(".1"))
        log.write_text("after rotation\n", encoding="utf-8")
        assert follower.stdout.readline() == "after rotation\n"
    finally:
        follower.terminate()
        _, errors = follower.communicate(timeout=HANG_S)
    assert "Traceback" not in errors


def test_a_process_that_has_ended_does_not_run() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert is_running(process.pid)
    assert process.stdin is not None
    process.stdin.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # a zombie now
    assert not is_running(process.pid)
    process.wait(timeout=HANG_S)
    assert not is_running(process.pid)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (59, "59 s"), (125, "2 min 5 s"), (7200, "2 h"), (273_600, "3 d 4 h")],
)
def test_durations_are_shown_in_two_units(seconds: float, text: str) -> None:
    assert in_words(seconds) == text
