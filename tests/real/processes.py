"""Processes that a test starts and always ends: gateways, probe servers, fixtures."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import psutil
import tomlkit

from tests import forked
from tests.limits import HANG_S
from toolgate.base.processes import run_file
from toolgate.types import Json

T = TypeVar("T")
AnyProcess: TypeAlias = subprocess.Popen[bytes] | forked.Toolgate

VENDORED = Path(__file__).parents[1] / "vendored"
PROBE_SERVER = (sys.executable, str(VENDORED / "probe_server.py"))


def free_port() -> int:
    """A port that nobody listens on right now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def wait_until(look: Callable[[], T | None], *, within_s: float, what: str) -> T:
    """Look at a process from outside until there is something to see."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if (seen := look()) is not None:
            return seen
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen within {within_s:g} s")


@contextlib.contextmanager
def running(
    command: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own, ended with everything it started."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment(env),
            cwd=cwd,
            start_new_session=True,
        )
    with ended(process):
        yield process


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """That of the test, which its children share, and more."""
    return dict(os.environ) | dict(more or {})  # noqa: TID251


@contextlib.contextmanager
def ended(process: AnyProcess) -> Iterator[None]:
    """End a process and its group."""
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(HANG_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(HANG_S)


@contextlib.contextmanager
def listening(command: Sequence[str], port: int, *, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ready once its port accepts connections."""

    def connect() -> bool | None:
        assert process.poll() is None, f"it ended: {_end_of(log)}"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return None

    with running(command, log=log) as process:
        wait_until(connect, within_s=HANG_S, what=f"listening on port {port}")
        yield process


@dataclass(frozen=True, kw_only=True)
class RunningGateway:
    """A `toolgate serve` process."""

    url: str
    """Its MCP endpoint."""

    run: run_file.RunFile
    """What it announced: address, process id, key."""

    log: Path
    """Everything it wrote."""

    config: Path
    """Its configuration file."""

    env: Mapping[str, str]
    """Environment that makes commands find this gateway's files."""

    def get(self, path: str) -> Any:
        """Ask its REST interface."""
        request = urllib.request.Request(
            self.run.address + path, headers={"X-Toolgate-Key": self.run.key}
        )
        with urllib.request.urlopen(request, timeout=HANG_S) as answer:
            return json.load(answer)

    def page(self, path: str) -> tuple[int, str]:
        """Status and text of any page, also of one that says what is wrong."""
        request = urllib.request.Request(
            self.run.address + path, headers={"X-Toolgate-Key": self.run.key}
        )
        try:
            with urllib.request.urlopen(request, timeout=HANG_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, line: str) -> float:
        """The value of one line of `/metrics`, by its name and labels."""
        _, text = self.page("/metrics")
        [value] = re.findall(rf"^{re.escape(line)} (\S+)$", text, re.MULTILINE)
        return float(value)

    def servers(self) -> dict[str, Json]:
        """What it knows of each server, by name."""
        answer = self.get("/api/v1/servers")
        rows = answer["servers"] if isinstance(answer, dict) else answer
        return {row["name"]: row for row in rows}

    def wait_ready(self, *names: str, within_s: float = HANG_S) -> dict[str, Json]:
        """Wait until these servers answer; gives what is known of all."""

        def look() -> dict[str, Json] | None:
            known = self.servers()
            listed = (known[name]["listed_at"] for name in names if known[name]["state"] == "ready")
            return known if sum(at is not None for at in listed) == len(names) else None

        try:
            return wait_until(look, within_s=within_s, what=f"readiness of {', '.join(names)}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {json.dumps(self.servers(), indent=1)}") from None


def _end_of(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-3000:]


def isolated(folder: Path) -> dict[str, str]:
    """Environment in which Toolgate keeps all its files below `folder`."""
    return {
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_RUNTIME_DIR": str(folder / "run"),
    }


@contextlib.contextmanager
def gateway(
    folder: Path,
    servers: Mapping[str, Json],
    settings: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    *,
    prelude: str | None = "",
    on_start: Callable[[AnyProcess, Path], None] | None = None,
) -> Iterator[RunningGateway]:
    """A gateway process in front of `servers`, with everything it keeps below `folder`.

    Args:
        folder: Where it runs and keeps its files.
        servers: By name.
        settings: Tables of its configuration.
        env: Further variables.
        prelude: Code that runs in its process first; None: the interpreter starts anew, with the
            variables that it reads itself.
        on_start: Called with the process and its log before it is known to serve.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "toolgate.toml"
    document = dict(settings or {}) | {"serve": {"port": 0}, "server": dict(servers)}
    config.write_text(tomlkit.dumps(document), encoding="utf-8")
    env = isolated(folder) | dict(env or {})
    log = folder / "gateway.log"

    def announced() -> run_file.RunFile | None:
        assert process.poll() is None, f"it ended: {_end_of(log)}"
        for path in folder.rglob("gateway-*.json"):
            for run in run_file.read_all(path.parent):
                if run.pid == process.pid:
                    return run
        return None

    words = ("serve", "--config", str(config))
    with contextlib.ExitStack() as ends:
        process: AnyProcess
        if prelude is None:
            command = (sys.executable, "-m", "toolgate", *words)
            process = ends.enter_context(running(command, log=log, env=env, cwd=folder))
        else:
            with log.open("wb") as output:
                process = forked.Toolgate(
                    words,
                    env=environment(env),
                    cwd=folder,
                    output=output.fileno(),
                    prelude=prelude,
                )
            ends.enter_context(ended(process))
        if on_start is not None:
            on_start(process, log)
        run = wait_until(announced, within_s=HANG_S, what="announcing the gateway")
        yield RunningGateway(url=f"{run.address}/mcp", run=run, log=log, config=config, env=env)
        children: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):  # a test may have killed it
            children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGTERM)
        process.wait(HANG_S)
        _, left = psutil.wait_procs(children, timeout=HANG_S)
        assert not left, f"the gateway ended and left {left}"
