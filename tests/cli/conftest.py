"""The command line as a shell starts it, in a folder with a configuration and real servers."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO, TypeAlias

import pytest

from tests import forked
from tests.limits import HANG_S
from toolgate import cli, settings
from toolgate.cli.terminal._context import SharedOptions, set_shared_options

SMALL_SERVER = Path(__file__).with_name("small_server.py")

Run: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]
"""`toolgate("search", "x", NO_COLOR="1")`: words of the command line, then variables."""

LoadedBy: TypeAlias = Callable[..., set[str]]
"""`loaded_by("import toolgate")`: names of the modules of a fresh process after a statement."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a command did."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, as JSON."""
        return json.loads(self.out)


Command: TypeAlias = Callable[..., Outcome]
"""`command("tools", "--json")`: the same within this process, which is faster."""


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Run:
    """The program in a process of its own, for what a process adds: encodings, signals, a pipe."""

    def run(
        *argv: str, stdin: str | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as patch:
            for name, value in {"COLUMNS": "80", **environment}.items():
                patch.setenv(name, value)
            return subprocess.run(
                [sys.executable, "-m", "toolgate", *argv],
                capture_output=True,
                input=stdin,
                stdin=subprocess.DEVNULL if stdin is None else None,
                encoding="utf-8",
                errors="replace",
                timeout=HANG_S,
                check=False,
            )

    return run


@pytest.fixture
def loaded_by(monkeypatch: pytest.MonkeyPatch) -> LoadedBy:
    """What a statement imports."""

    def run(statement: str, **environment: str) -> set[str]:
        code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            done = subprocess.run(
                [sys.executable, "-c", code],
                capture_output=True,
                text=True,
                timeout=HANG_S,
                check=True,
            )
        return set(json.loads(done.stdout.splitlines()[-1]))

    return run


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """The command line within this process."""

    def run(*argv: str) -> Outcome:
        capsys.readouterr()
        status = cli.run(list(argv))
        said = capsys.readouterr()
        return Outcome(status=status, out=said.out, err=said.err)

    yield run
    set_shared_options(SharedOptions())


@pytest.fixture
def toolgate(command: Command, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command line within this process, with variables and an input; answers as `program`."""

    def run(*argv: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as patch:
            for name, value in {"COLUMNS": "80", **environment}.items():
                patch.setenv(name, value)
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8"))
            done = command(*argv)
        return subprocess.CompletedProcess(argv, done.status, done.out, done.err)

    return run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder whose `toolgate.toml` has the one server `small`."""
    place = tmp_path / "work"
    place.mkdir()
    # A free port: a gateway of whoever runs the tests may have the usual one.
    text = "[serve]\nport = 0\n" + server_table("small")
    (place / "toolgate.toml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(place)
    return place


def server_table(name: str, *args: str, **env: str) -> str:
    """The `small` server as a table of `toolgate.toml`."""
    words = json.dumps([str(SMALL_SERVER), *args])
    pairs = ", ".join(f"{key} = {json.dumps(value)}" for key, value in env.items())
    return (
        f"[server.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {words}\n"
        f"env = {{ {pairs} }}\n"
    )


@dataclass(frozen=True, kw_only=True)
class Serving:
    """A gateway that runs in a process of its own."""

    process: forked.Toolgate
    output: TextIO
    """What it writes."""
    address: str

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait; gives the exit status."""
        self.process.send_signal(number)
        return self.process.wait(timeout=HANG_S)

    def line(self, part: str) -> str:
        """The next line that contains a text."""
        for line in self.output:
            if part in line:
                return line
        raise AssertionError(f"the gateway ended without saying {part!r}")


Serve: TypeAlias = Callable[..., Serving]
"""`serve("--host", "127.0.0.1")` starts a gateway on a free port."""


@pytest.fixture
def serve(folder: Path) -> Iterator[Serve]:
    """Gateways of the working folder, ended with the test."""
    with contextlib.ExitStack() as ends:

        def run(*argv: str) -> Serving:
            read_end, write_end = os.pipe()
            output = ends.enter_context(os.fdopen(read_end, encoding="utf-8"))
            words = ("serve", "--port", "0", *argv)
            environment = dict(os.environ)  # noqa: TID251 - that of the test
            process = forked.Toolgate(words, env=environment, cwd=folder, output=write_end)
            os.close(write_end)
            ends.callback(process.wait, HANG_S)
            ends.callback(process.kill)
            serving = Serving(process=process, output=output, address="")
            line = serving.line(" serves http://")
            address = next(word for word in line.split() if word.startswith("http://"))
            return replace(serving, address=address.removesuffix("/mcp"))

        yield run


def children_of(pid: int) -> list[int]:
    """Processes that a process has started and that still run."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text("utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        if fields[1] == str(pid) and fields[0] != "Z":
            found.append(int(entry.name))
    return found


def small_servers(folder: Path) -> list[int]:
    """Processes of the small server that were started in a working folder."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            is_small = b"small_server.py" in (entry / "cmdline").read_bytes()
            if is_small and (entry / "cwd").readlink().is_relative_to(folder):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def run_files() -> list[Path]:
    """What gateways of this test's home announce."""
    return sorted(settings.run_dir().glob("*.json"))
