"""`toolgate stdio`: serve the gateway on standard input and output."""

from importlib import import_module

from toolgate.cli._plain import Option, PlainCommand

__all__ = ["command"]


def stdio(standalone: bool = False) -> int:
    """Serve until the client closes standard input."""
    return int(import_module("toolgate.cli._attaching").stdio(standalone=standalone))


command = PlainCommand(
    name="stdio",
    help="""Serve the gateway on standard input and output, for a client that starts it.

    Uses the gateway that runs on this machine over the same store with the same configuration
    file, and else starts one that ends with the client.
    """,
    options=(
        Option(
            flags=("--standalone",),
            kind=bool,
            help="Start a gateway of its own even when one is running.",
        ),
    ),
    call=stdio,
)
"""What the command line knows of it."""
