"""`toolgate stop`: stop the gateway that runs in the background."""

from typing import Annotated

import typer

from toolgate.cli.client._load_settings import load_settings
from toolgate.cli.serving._background import (
    answers,
    gateways,
    is_without_file,
    other_gateways_note,
    send_stop,
    stopped_within,
)
from toolgate.cli.terminal._command_app import CommandApp
from toolgate.cli.terminal._exit import FAILED, NO_RESULT, SUCCESS
from toolgate.cli.terminal._output import note, print_text, spinner

app = CommandApp()

_MARGIN_S = 15.0
"""Seconds beyond `serve.drain_s` for the audit log and the servers to stop (chosen)."""


@app.command(help="Stop the gateway once active calls have finished.")
async def stop(
    now: Annotated[
        bool, typer.Option("--now", help="Do not wait for running calls; they fail.")
    ] = False,
) -> int:
    """Stop the gateway once active calls have finished.

    Running calls get `serve.drain_s` seconds. A gateway that a service manager has started may be
    started again by it: use toolgate service uninstall, or the commands of the service manager.
    """
    loaded = load_settings()
    running, others = gateways(loaded)
    # One that started before there was a toolgate.toml, such as before `toolgate init`.
    running = running or [run for run in others if is_without_file(run, loaded)]
    if not running:
        note(f"No gateway with this configuration runs. {other_gateways_note(others)}".rstrip())
        return NO_RESULT
    status = SUCCESS
    for run in running:
        if not await answers(run):
            note(
                f"Process {run.pid} does not respond at {run.address}. It was not stopped, because"
                " it may be another program by now."
            )
            status = FAILED
            continue
        with spinner("Waiting for running calls"):
            send_stop(run, now=now)
            has_ended = await stopped_within(run, loaded.serve.drain_s + _MARGIN_S)
        if has_ended:
            print_text(f"Stopped the gateway at {run.address} (process {run.pid}).")
        else:
            note(f"Process {run.pid} has not ended yet. To end it at once: toolgate stop --now")
            status = FAILED
    return status
