"""`toolgate stdio`: serve the gateway on standard input and output."""

from dataclasses import replace
from importlib import import_module

from toolgate.cli.terminal._context import DEV_HELP, set_shared_options, shared_options
from toolgate.cli.terminal._plain_command import Option, PlainCommand


def stdio(standalone: bool = False, dev: bool = False) -> int:
    """Serve until the client closes standard input."""
    if dev:
        set_shared_options(replace(shared_options(), dev=True))
    return int(import_module("toolgate.cli.serving._attach").stdio(standalone=standalone or dev))


command = PlainCommand(
    name="stdio",
    help="""Serve the gateway over stdio, for clients that start it themselves.

    Connects to a gateway already running on this machine with the same store and configuration
    file. Otherwise starts one that stops when the client disconnects.
    """,
    options=(
        Option(
            flags=("--standalone",),
            kind=bool,
            help="Start a gateway even if one is running.",
        ),
        Option(flags=("--dev",), kind=bool, help=f"{DEV_HELP} Implies --standalone."),
    ),
    call=stdio,
)
"""The command and its options."""
