"""`toolgate start`: start the gateway in the background."""

from typing import Annotated

import typer

from toolgate.base import logs
from toolgate.cli.client._load_settings import load_settings
from toolgate.cli.serving._background import (
    answers,
    gateways,
    is_without_file,
    log_file,
    output_file,
    spawn,
    wait_until_serving,
)
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._exit import FAILED, SUCCESS
from toolgate.cli.terminal._output import note, print_json, print_result, print_text, spinner

app = CommandApp()

_TIMEOUT_S = 60.0
"""Seconds to wait for a response (chosen: a gateway waits up to 30 s for its store)."""

_OUTPUT_LINES = 15
"""Lines of output shown of a start that failed (chosen)."""


@app.command(help="Start the gateway in the background.")
async def start(
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")
    ] = "",
    port: Annotated[
        int | None,
        typer.Option(
            "--port", "-p", metavar="NUMBER", min=0, max=65_535, help="Port to listen on."
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            metavar="NUMBER",
            min=1,
            max=64,
            help="Number of worker processes; more than one requires Linux and PostgreSQL.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Start the gateway in the background.

    It runs until `toolgate stop`, or until the machine restarts. To start it at every login:
    toolgate service install.
    """
    arguments = ["--host", host] if host else []
    if port is not None:
        arguments += ["--port", str(port)]
    if workers is not None:
        arguments += ["--workers", str(workers)]
    loaded = load_settings()
    running, others = gateways(loaded)
    for run in others:
        if port is None and is_without_file(run, loaded) and await answers(run):
            note(
                f"A gateway that started without a configuration file runs at {run.address}"
                f" (process {run.pid}). Stop it first: toolgate stop"
            )
            return FAILED
    for run in running:
        if await answers(run):
            print_result(
                {"started": False, "address": run.address, "pid": run.pid},
                f"It is already running at {run.address}/mcp (process {run.pid}).",
                as_json=as_json,
            )
            return SUCCESS
    log = log_file(loaded)
    with spinner("Starting the gateway"):
        process = spawn(arguments, loaded)
        run = await wait_until_serving(process, _TIMEOUT_S)
    if run is None:
        _report_failure(process.poll())
        return FAILED
    if as_json:
        print_json({"started": True, "address": run.address, "pid": run.pid, "log": str(log)})
        return SUCCESS
    print_text(f"Toolgate runs at {run.address}/mcp (process {run.pid}).")
    print_text(f"Web console: {run.address}/console   Log: {log}")
    print_text("Check it: toolgate status   Stop it: toolgate stop")
    return SUCCESS


def _report_failure(status: int | None) -> None:
    note(
        f"The gateway did not respond within {_TIMEOUT_S:.0f} s; it is still starting. It printed:"
        if status is None
        else "The gateway could not be started. It printed:"
    )
    for line in logs.tail(output_file(), lines=_OUTPUT_LINES):
        note(f"    {line}")
