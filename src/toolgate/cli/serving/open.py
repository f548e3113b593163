"""`toolgate open`: open the web console in the browser."""

import webbrowser
from typing import Annotated

import typer

from toolgate.cli.client._load_settings import load_settings
from toolgate.cli.serving._background import answers, gateways
from toolgate.cli.terminal._command_app import CommandApp
from toolgate.cli.terminal._exit import NO_RESULT, SUCCESS
from toolgate.cli.terminal._output import note, print_text

app = CommandApp()


@app.command(help="Open the web console in the browser.")
async def open_console(
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the URL.")] = False,
) -> int:
    """Open the web console of the running gateway in the browser."""
    running, _ = gateways(load_settings())
    for run in running:
        if await answers(run):
            url = f"{run.address}/console"
            print_text(url)
            if not no_browser and not webbrowser.open(url):
                note("No browser could be started. Open the URL yourself.")
            return SUCCESS
    note("No gateway with this configuration runs. Start it: toolgate start")
    return NO_RESULT
