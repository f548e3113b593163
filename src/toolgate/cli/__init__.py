"""The command line.

`main` loads as little as its command needs: `serve` and `stdio` stay in memory, so they run without
the libraries that draw tables and help; all other commands are found by name through `_root`.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from toolgate import __version__
from toolgate.cli.terminal._context import set_shared_options
from toolgate.cli.terminal._exit import ANY_ERROR, replace_unencodable, report
from toolgate.cli.terminal._plain_command import PlainCommand, UsageError, split_globals
from toolgate.cli.terminal._sanitize import sanitize

__all__ = ["main"]

_RESIDENT = frozenset({"serve", "stdio"})
"""Commands that stay in memory; their modules hold a `PlainCommand` named `command`."""

_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
"""What libraries for matrices read when numpy loads them. Their threads spin between the short
products of a search: with two, one over 5,000 tools took 6.6 ms of processor time instead of 0.5.
"""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run `toolgate`; ends the process with the exit status of the command."""
    replace_unencodable()
    for name in _ONE_THREAD:
        os.environ.setdefault(name, "1")  # noqa: TID251 - it has to be there before numpy is
    sys.exit(run(list(sys.argv[1:] if argv is None else argv)))


def run(argv: list[str]) -> int:
    """Run a command line; gives its exit status and never raises for what a user can cause."""
    verbose = 0
    try:
        shared, rest = split_globals(argv)
        verbose = shared.verbose
        set_shared_options(shared)
        if rest == ["--version"]:
            print(f"toolgate {__version__}")
            return 0
        if rest and rest[0] in _RESIDENT and not {"--help", "-h"}.intersection(rest):
            command = import_module(f"toolgate.cli.serving.{rest[0]}").command
            assert isinstance(command, PlainCommand)
            return command.run(rest[1:])
        return int(import_module("toolgate.cli.root").run(rest))
    except UsageError as problem:
        print(f"toolgate: {sanitize(str(problem))}", file=sys.stderr)
        return 2
    except ANY_ERROR as error:
        return report(error, verbose=verbose)
