"""A gateway in the background: functions to start, find and stop it."""

import contextlib
import http.client
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from time import monotonic
from urllib.parse import urlsplit

import anyio

from toolgate import settings
from toolgate.base.private_folder import create_private_folder
from toolgate.base.processes import run_file
from toolgate.base.processes.run_file import RunFile
from toolgate.cli.client._http_exchange import CONNECT_TIMEOUT_S, over_http
from toolgate.cli.client._load_settings import store_url
from toolgate.cli.client._open_gateway import configuration_of
from toolgate.cli.terminal._context import shared_options
from toolgate.errors import UnreachableError
from toolgate.settings import Settings

_POLL_S = 0.05
"""Seconds between two checks of a process that starts or ends (chosen)."""


def log_file(loaded: Settings) -> Path:
    """Return the log of a gateway in the background: `log.file`, or a file in the data folder."""
    return loaded.log.path or settings.data_dir() / "gateway.log"


def output_file() -> Path:
    """Return the file with other output of the last gateway in the background, besides its log."""
    return settings.data_dir() / "gateway.out"


def gateways(loaded: Settings) -> tuple[list[RunFile], list[RunFile]]:
    """Return the running gateways with this configuration, and with others, newest first."""
    configuration = configuration_of(loaded)
    runs = run_file.find_all(settings.run_dir(), None)
    return (
        [run for run in runs if run.configuration == configuration],
        [run for run in runs if run.configuration != configuration],
    )


def is_without_file(run: RunFile, loaded: Settings) -> bool:
    """Whether a gateway without a configuration file has the store and port of these settings."""
    port = urlsplit(run.address).port
    return (run.configuration, run.store, port) == (("",), store_url(loaded), loaded.serve.port)


def other_gateways_note(others: Iterable[RunFile]) -> str:
    """Say which gateways run with another configuration, in one sentence; empty for none."""
    names: list[str] = []
    for run in others:
        # With all imported files: two gateways may differ in nothing else.
        files = " with ".join(filter(None, run.configuration)) or "no configuration file"
        names.append(f"{run.address} ({files})")
    return f"Running with another configuration: {', '.join(names)}." if names else ""


async def answers(run: RunFile) -> bool:
    """Whether a gateway responds; its process id may belong to another program by now."""
    try:
        status, _ = await over_http(run, timeout_s=CONNECT_TIMEOUT_S)("GET", "/healthz", None)
    except UnreachableError:
        return False
    return status == http.client.OK


def spawn(arguments: Iterable[str], loaded: Settings) -> "subprocess.Popen[bytes]":
    """Start `toolgate serve` in its own process session, with log and output in files.

    Raises:
        OSError: The files cannot be written.
    """
    output = output_file()
    create_private_folder(output.parent)
    command = [sys.executable, "-m", "toolgate", *_shared_arguments(), "serve", *arguments]
    if loaded.log.path is None:
        command += ["--log-file", str(log_file(loaded))]
    flags = 0
    if sys.platform == "win32":
        # A console without a window, which the programs of servers share.
        flags = subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        return subprocess.Popen(  # noqa: S603 - our own interpreter and module
            command,
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=sys.platform != "win32",
            creationflags=flags,
        )
    finally:
        os.close(descriptor)


async def wait_until_serving(
    process: "subprocess.Popen[bytes]", timeout_s: float
) -> RunFile | None:
    """Wait until a process responds; return its run file. None if it ended, or on a timeout."""
    deadline = monotonic() + timeout_s
    while monotonic() < deadline and process.poll() is None:
        for run in run_file.find_all(settings.run_dir(), None):
            if run.pid == process.pid and await answers(run):
                return run
        await anyio.sleep(_POLL_S)
    return None


def send_stop(run: RunFile, *, now: bool) -> None:
    """Ask a gateway to stop; with `now`, without waiting for running calls.

    Windows has no such request: there the process is killed, and running calls fail.
    """
    if sys.platform == "win32":
        os.kill(run.pid, signal.SIGTERM)
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(run.pid, signal.SIGTERM)
        if now:  # the second signal ends it at once
            os.kill(run.pid, signal.SIGTERM)


async def stopped_within(run: RunFile, timeout_s: float) -> bool:
    """Wait for its process to end; return whether it ended within this time."""
    deadline = monotonic() + timeout_s
    while run.is_alive():
        if monotonic() > deadline:
            return False
        await anyio.sleep(_POLL_S)
    run_file.remove(run)  # a process that is ended by force leaves it
    return True


def _shared_arguments() -> list[str]:
    """Return the global options of this command, for the process that serves."""
    options = shared_options()
    arguments = ["--config", os.path.realpath(options.config)] if options.config else []
    for path in options.imports:
        arguments += ["--import", os.path.realpath(settings.expand_home(path))]
    return arguments + ["-v"] * options.verbose
