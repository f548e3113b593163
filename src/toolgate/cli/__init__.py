"""The command line.

`main` imports as little as its command needs. `serve` and `stdio` run for a long time, and `search`
and `call` are run often, so they do without the libraries for tables and help; `toolgate.cli.root`
imports all other commands by name.
"""

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import NoReturn

from toolgate import __version__
from toolgate.cli.terminal._context import set_shared_options
from toolgate.cli.terminal._exit import (
    ANY_ERROR,
    open_missing_streams,
    replace_unencodable,
    report,
)
from toolgate.cli.terminal._plain_command import PlainCommand, UsageError, split_globals
from toolgate.cli.terminal._sanitize import sanitize

__all__ = ["main"]

_RESIDENT = frozenset({"serve", "stdio"})
"""Long-running commands; their modules have a `PlainCommand` named `command`."""

_FREQUENT = frozenset({"search", "call"})
"""Commands that people and scripts run often. Unusual arguments are left to Typer."""

_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
"""Variables that the matrix libraries of numpy read when they load. Their threads spin between the
short products of a search: with two threads a search over 5,000 tools took 6.6 ms of CPU time
instead of 0.5 ms.
"""

_NO_PYDANTIC_PLUGINS = ("PYDANTIC_DISABLE_PLUGINS", "__all__")
"""Variable that keeps pydantic from reading the metadata of every installed package."""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run `toolgate` and exit with the status of the command."""
    open_missing_streams()
    replace_unencodable()
    for name in _ONE_THREAD:
        os.environ.setdefault(name, "1")  # noqa: TID251 - must be set before numpy is imported
    os.environ.setdefault(*_NO_PYDANTIC_PLUGINS)  # noqa: TID251 - read with the first model
    sys.exit(run(list(sys.argv[1:] if argv is None else argv)))


def _usual(words: list[str]) -> Callable[[], int] | None:
    """Parse a frequent command; None if Typer must: other spellings of options, or the help."""
    command = import_module(f"toolgate.cli.tools.{words[0]}").command
    assert isinstance(command, PlainCommand)
    try:
        return partial(command.call, **command.parse(words[1:]))
    except UsageError:
        return None


def run(argv: list[str]) -> int:
    """Run a command line and return its exit status. User errors are printed, not raised."""
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
        if rest and rest[0] in _FREQUENT and (call := _usual(rest)) is not None:
            return call()
        return int(import_module("toolgate.cli.root").run(rest))
    except UsageError as problem:
        print(f"toolgate: {sanitize(str(problem))}", file=sys.stderr)
        return 2
    except ANY_ERROR as error:
        return report(error, verbose=verbose)
