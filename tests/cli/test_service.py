"""`toolgate service`: definitions for the service managers, and their commands."""

import configparser
import plistlib
import shutil
import subprocess
import sys
from pathlib import Path
from time import monotonic
from xml.etree import ElementTree

import pytest

from tests.cli.conftest import Command
from tests.limits import HANG_S
from toolgate.cli.serving._service_definitions import (
    LABEL,
    launchd_agent,
    systemd_unit,
    windows_task,
)
from toolgate.cli.terminal._exit import FAILED, NO_RESULT, SUCCESS

COMMAND = ("/opt/tool gate/python", "-m", "toolgate", "--config", "/home/me/50% $x.toml", "serve")
TASK = "{http://schemas.microsoft.com/windows/2004/02/mit/task}"


def test_the_systemd_unit_quotes_what_systemd_reads_specially(tmp_path: Path) -> None:
    definition = systemd_unit(COMMAND, tmp_path, "/opt/a$b:/bin", tmp_path / ".config")
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # pyright: ignore[reportAttributeAccessIssue] - keeps capitals
    unit.read_string(definition.text)
    assert unit["Service"]["ExecStart"] == (
        '"/opt/tool gate/python" -m toolgate --config "/home/me/50%% $$x.toml" serve'
    )
    assert unit["Service"]["Environment"] == '"PATH=/opt/a$b:/bin"'
    assert unit["Install"]["WantedBy"] == "default.target"
    assert definition.path == tmp_path / ".config/systemd/user/toolgate.service"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd on this machine")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "toolgate", "serve")
    definition = systemd_unit(command, tmp_path, "/usr/bin:/bin", tmp_path)
    path = tmp_path / "toolgate.service"
    path.write_text(definition.text, encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert "toolgate.service:" not in done.stderr


def test_the_launchd_agent_restarts_after_a_crash_and_not_after_a_stop(tmp_path: Path) -> None:
    log = tmp_path / "out.log"
    definition = launchd_agent(COMMAND, tmp_path, "/usr/bin", tmp_path, log, 501)
    agent = plistlib.loads(definition.text.encode())
    assert agent["ProgramArguments"] == list(COMMAND)
    assert agent["KeepAlive"] == {"SuccessfulExit": False}
    assert definition.path == tmp_path / f"Library/LaunchAgents/{LABEL}.plist"
    assert definition.enable[0][:3] == ("launchctl", "bootstrap", "gui/501")


def test_the_windows_task_runs_at_logon_without_a_time_limit(tmp_path: Path) -> None:
    command = (
        "C:\\Program Files\\Python\\python.exe",
        "-m",
        "toolgate",
        "--config",
        "C:\\a b.toml",
    )
    definition = windows_task(command, tmp_path, tmp_path, "DESK\\a & b")
    task = ElementTree.fromstring(definition.text.encode(definition.encoding))
    action = task.find(f"{TASK}Actions/{TASK}Exec")
    assert action is not None
    assert action.findtext(f"{TASK}Command") == command[0]
    assert action.findtext(f"{TASK}Arguments") == '-m toolgate --config "C:\\a b.toml"'
    assert task.findtext(f"{TASK}Settings/{TASK}ExecutionTimeLimit") == "PT0S"
    for where in ("Triggers", "Principals"):
        [owner] = task.findall(f"{TASK}{where}/*")
        assert owner.findtext(f"{TASK}UserId") == "DESK\\a & b"


SYSTEMCTL = """#!/bin/sh
echo "$@" >> CALLS
unit="$HOME/.config/systemd/user/toolgate.service"
case "$2" in
enable) $(sed -n 's/^ExecStart=//p' "$unit") > CALLS.out 2>&1 & echo $! > CALLS.pid ;;
disable) pid=$(cat CALLS.pid); kill $pid; while kill -0 $pid; do sleep 0.05; done ;;
esac
"""
"""Starts and stops what a unit says, as systemd does."""


@pytest.mark.skipif(sys.platform != "linux", reason="systemd")
def test_install_starts_the_service_and_uninstall_takes_everything_back(
    folder: Path, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    calls = tmp_path / "calls"
    systemctl = programs / "systemctl"
    systemctl.write_text(SYSTEMCTL.replace("CALLS", str(calls)), encoding="utf-8")
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")

    assert command("service", "status").status == NO_RESULT
    assert command("start").status == SUCCESS
    refused = command("service", "install")
    assert (refused.status, "Run: toolgate stop" in refused.err) == (FAILED, True)
    assert command("stop").status == SUCCESS

    installed = command("service", "install")
    assert installed.status == SUCCESS, installed.err
    path = Path(installed.out.split("Wrote ", 1)[1].splitlines()[0])
    assert f"--config {folder / 'toolgate.toml'}" in path.read_text("utf-8")
    assert "The service runs at http://127.0.0.1:" in installed.out
    assert "running at http://127.0.0.1:" in command("service", "status").out
    assert command("service", "install").status == SUCCESS  # such as after an update
    assert command("stop").status == SUCCESS
    assert "does not respond" in command("service", "status").err
    assert command("service", "uninstall").status == SUCCESS
    assert not path.exists()
    starts = ["--user daemon-reload", "--user enable --now toolgate.service"]
    stop = "--user disable --now toolgate.service"
    assert calls.read_text("utf-8").splitlines() == [*starts, stop, *starts, stop]


@pytest.mark.skipif(sys.platform == "win32", reason="shell of POSIX")
def test_a_gateway_runs_without_output_streams(folder: Path, command: Command) -> None:
    """`pythonw.exe`, which opens no window, has none: the gateway ended at once."""
    start = f"exec {sys.executable} -m toolgate serve --log-file {folder}/log <&- >&- 2>&-"
    with subprocess.Popen(["sh", "-c", start]) as process:
        deadline = monotonic() + HANG_S
        while command("status").status != SUCCESS:
            assert process.poll() is None
            assert monotonic() < deadline
        process.terminate()


@pytest.mark.skipif(sys.platform != "linux", reason="systemd")
def test_install_without_a_service_manager_writes_the_file_and_says_so(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = command("service", "install")
    assert done.status == FAILED
    assert "systemctl was not found on this machine" in done.err
