"""How a command ends: exit status, and one sentence on standard error instead of a traceback."""

import contextlib
import io
import sys
import traceback
from typing import TextIO, cast

from toolgate.cli.terminal._sanitize import sanitize
from toolgate.errors import (
    AccessError,
    ArgumentError,
    CatalogError,
    ConfigError,
    ToolgateError,
)

__all__ = ["ANY_ERROR", "DENIED", "FAILED", "NO_RESULT", "SUCCESS", "USAGE_ERROR", "report"]

SUCCESS = 0
"""What was asked for was done."""

FAILED = 1
"""What was asked for failed."""

USAGE_ERROR = 2
"""Wrong use, or a configuration that cannot work."""

NO_RESULT = 3
"""Nothing was found."""

DENIED = 4
"""The caller may not."""

INTERRUPTED = 130
"""Ended by Ctrl-C, as shells count it."""

ANY_ERROR = (Exception, KeyboardInterrupt)
"""What `report` turns into an exit status, at the top of the program only."""


def report(error: BaseException, *, verbose: int = 0) -> int:
    """Tell the user what went wrong; gives the exit status."""
    error = _first_error(error)
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):  # the reader has seen enough: `toolgate tools | head`
        with contextlib.suppress(OSError):
            sys.stdout = io.StringIO()
        return FAILED
    if verbose:
        print(sanitize("".join(traceback.format_exception(error))), file=sys.stderr)
    if isinstance(error, ToolgateError):
        print(f"toolgate: {_indented(error)}", file=sys.stderr)
        kind = getattr(error, "kind", None)  # what a gateway answered with
        return status_of(error) if kind is None else status_of_code(kind)
    print(
        f"toolgate: Something unexpected happened: {type(error).__name__}: {_indented(error)}. "
        "Run the command again with -v and report what it prints.",
        file=sys.stderr,
    )
    return FAILED


def status_of(error: ToolgateError) -> int:
    """Exit status for an error of ours."""
    match error:
        case ConfigError() | ArgumentError():
            return USAGE_ERROR
        case CatalogError():
            return NO_RESULT
        case AccessError():
            return DENIED
        case _:
            return FAILED


def status_of_code(code: str) -> int:
    """Exit status for the `code` of an error that a running gateway answered with."""
    for kind in _with_subclasses(ToolgateError):
        if kind.code == code:
            return status_of(kind.__new__(kind))
    return FAILED


def replace_unencodable() -> None:
    """A terminal whose encoding lacks a character shows a substitute; nothing raises for it."""
    for stream in (sys.stdout, sys.stderr):
        _replace_unencodable(stream)


def _replace_unencodable(stream: TextIO) -> None:
    if isinstance(stream, io.TextIOWrapper) and stream.errors in {"strict", "surrogateescape"}:
        stream.reconfigure(errors="replace")


def _indented(error: BaseException) -> str:
    """A message with what servers said in it; none of its lines looks like one of ours."""
    return "\n    ".join(sanitize(str(error)).splitlines())


def _first_error(error: BaseException) -> BaseException:
    """What really happened, out of the groups that concurrent tasks wrap it in."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    group = cast("BaseExceptionGroup[BaseException]", error)
    leaves = [_first_error(inner) for inner in group.exceptions]
    return next((leaf for leaf in leaves if not isinstance(leaf, Exception)), leaves[0])


def _with_subclasses(kind: type[ToolgateError]) -> list[type[ToolgateError]]:
    return [
        kind,
        *(deeper for child in kind.__subclasses__() for deeper in _with_subclasses(child)),
    ]
