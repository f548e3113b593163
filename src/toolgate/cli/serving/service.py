"""`toolgate service`: run the gateway as a service of this user."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Annotated

import anyio
import typer

from toolgate import settings
from toolgate.base.installation import current_installation
from toolgate.base.processes.run_file import RunFile
from toolgate.cli.client._http_exchange import working_folder
from toolgate.cli.client._load_settings import load_settings
from toolgate.cli.serving._background import answers, gateways, log_file
from toolgate.cli.serving._service_definitions import (
    ServiceDefinition,
    launchd_agent,
    systemd_unit,
    windows_task,
)
from toolgate.cli.terminal._command_app import CommandApp
from toolgate.cli.terminal._exit import FAILED, NO_RESULT, SUCCESS
from toolgate.cli.terminal._output import note, print_text, spinner
from toolgate.cli.terminal._ports import refuse_port_of_gateway
from toolgate.settings import Settings

app = CommandApp()

_COMMAND_TIMEOUT_S = 60.0
"""Seconds for a command of the service manager (chosen)."""

_START_TIMEOUT_S = 60.0
"""Seconds to wait for a response (chosen: a gateway waits up to 30 s for its store)."""

_POLL_S = 0.1
"""Seconds between two checks of the gateway that starts (chosen)."""


@app.command()
async def install(
    show: Annotated[
        bool,
        typer.Option("--print", help="Only print the service definition and where to put it."),
    ] = False,
) -> int:
    """Install Toolgate as a service with this system's service manager, and start it.

    systemd (user unit) on Linux, launchd (agent) on macOS, the task scheduler on Windows. The
    service uses the configuration file that this command finds and your shell's PATH. Environment
    variables used in the configuration (such as secrets) must be set for the service itself: on
    Linux, in the unit's EnvironmentFile. On Linux the service stops when you log out, unless you
    run `loginctl enable-linger`.
    """
    loaded = load_settings()
    definition = definition_for(loaded)
    if show:
        note(f"Belongs in {definition.path}")
        print_text(definition.text.rstrip("\n"))
        return SUCCESS
    if definition.path.exists():  # the service may run with another definition
        disable_service(loaded)
    if run := await _serving(loaded):
        note(f"A gateway already runs at {run.address} (process {run.pid}). Run: toolgate stop")
        return FAILED
    refuse_port_of_gateway(loaded.serve.host, loaded.serve.port)
    definition.path.parent.mkdir(parents=True, exist_ok=True)
    definition.path.write_text(definition.text, encoding=definition.encoding)
    print_text(f"Wrote {definition.path}")
    if not _run_all(definition.enable):
        return FAILED
    with spinner("Starting the service"):
        run = await _wait_until_serving(loaded)
    if run is None:
        note(f"The service was started, but its gateway does not respond. {definition.output}")
        return FAILED
    print_text(f"The service runs at {run.address}/mcp, and starts at every login.")
    return SUCCESS


@app.command()
def uninstall() -> int:
    """Stop the service and remove its definition."""
    definition = definition_for(load_settings())
    if not definition.path.exists():
        note(f"It is not installed: there is no {definition.path}.")
        return NO_RESULT
    is_stopped = _run_all(definition.disable)
    if is_stopped:
        print_text("The service is stopped.")
    definition.path.unlink()
    print_text(f"Removed {definition.path}")
    return SUCCESS if is_stopped else FAILED


@app.command()
async def status() -> int:
    """Show whether the service is installed and its gateway responds. Exit status 3 if not."""
    loaded = load_settings()
    definition = definition_for(loaded)
    if not definition.path.exists():
        note("It is not installed. Install it: toolgate service install")
        return NO_RESULT
    run = await _serving(loaded)
    if run is None:
        note(f"{definition.path}: its gateway does not respond. {definition.output}")
        return NO_RESULT
    print_text(f"{definition.path}: running at {run.address}/mcp")
    return SUCCESS


async def _serving(loaded: Settings) -> RunFile | None:
    """Return the gateway with this configuration, if one responds."""
    for run in gateways(loaded)[0]:
        if await answers(run):
            return run
    return None


async def _wait_until_serving(loaded: Settings) -> RunFile | None:
    """Wait until the gateway of the service responds; None on a timeout."""
    deadline = monotonic() + _START_TIMEOUT_S
    while monotonic() < deadline:
        if run := await _serving(loaded):
            return run
        await anyio.sleep(_POLL_S)
    return None


def disable_service(loaded: Settings) -> None:
    """Stop the service, if it is installed and its service manager exists."""
    for command in definition_for(loaded).disable:
        _run(command)


def definition_for(loaded: Settings) -> ServiceDefinition:
    """Return the definition of the service on this system."""
    command = _serve_command(loaded)
    folder = loaded.config_file.resolve().parent if loaded.config_file else working_folder()
    search_path = settings.current_environment().get("PATH", os.defpath)
    if sys.platform == "win32":
        return windows_task(command, folder, settings.data_dir(), _windows_user())
    if sys.platform == "darwin":
        log = settings.data_dir() / "gateway.out"
        return launchd_agent(command, folder, search_path, Path.home(), log, os.getuid())
    return systemd_unit(command, folder, search_path, settings.config_dir().parent)


def _serve_command(loaded: Settings) -> list[str]:
    """Return the command line of the service: this Toolgate, with this command's configuration."""
    installation = current_installation()
    if installation.is_temporary:
        program = list(installation.start_command())
    else:
        program = [_python(), "-m", "toolgate"]
    options = ["--config", str(loaded.config_file.resolve())] if loaded.config_file else []
    for path in loaded.imports:
        options += ["--import", os.path.realpath(settings.expand_home(str(path)))]
    log = [] if loaded.log.path else ["--log-file", str(log_file(loaded))]
    return [*program, *options, "serve", *log]


def _python() -> str:
    """Return this Python; on Windows, the program that opens no window."""
    windowless = Path(sys.executable).with_name("pythonw.exe")
    return str(windowless) if windowless.is_file() else sys.executable


def _windows_user() -> str:
    environment = settings.current_environment()
    return f"{environment.get('USERDOMAIN', '.')}\\{environment.get('USERNAME', '')}"


def _run_all(commands: Sequence[Sequence[str]]) -> bool:
    """Run commands of the service manager; return whether all succeeded."""
    for command in commands:
        if problem := _run(command):
            note(f"{' '.join(command)}: {problem}")
            note("Run it yourself when the service manager is available.")
            return False
    return True


def _run(command: Sequence[str]) -> str:
    """Run a command of the service manager; return its error, or "" on success."""
    program = shutil.which(command[0])
    if program is None:
        return f"{command[0]} was not found on this machine"
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command of the service manager
            [program, *command[1:]],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_COMMAND_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    return (done.stderr or done.stdout).strip() or f"exit status {done.returncode}"
