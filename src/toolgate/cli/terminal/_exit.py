"""Exit status and error message of a command, instead of a traceback."""

import contextlib
import io
import os
import pathlib
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

SUCCESS = 0
"""Success."""

FAILED = 1
"""The operation failed."""

USAGE_ERROR = 2
"""Wrong usage or invalid configuration."""

NO_RESULT = 3
"""Nothing found."""

DENIED = 4
"""Not allowed."""

INTERRUPTED = 130
"""Interrupted by Ctrl-C: 128 + SIGINT, as in shells."""

ANY_ERROR = (Exception, KeyboardInterrupt)
"""What `report` handles; only `toolgate.cli` catches such broad exceptions."""


def report(error: BaseException, *, verbose: int = 0) -> int:
    """Print an error for the user and return the exit status."""
    error = _first_error(error)
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):  # the reader closed the pipe: `toolgate tools | head`
        with contextlib.suppress(OSError):
            sys.stdout = io.StringIO()
        return FAILED
    if verbose:
        print(sanitize("".join(traceback.format_exception(error))), file=sys.stderr)
    if isinstance(error, ToolgateError):
        print(f"toolgate: {_indented(error)}", file=sys.stderr)
        kind = getattr(error, "kind", None)  # error code in the response of a gateway
        return status_of(error) if kind is None else status_of_code(kind)
    print(
        f"toolgate: Unexpected error: {type(error).__name__}: {_indented(error)}. "
        "Run the command again with -v and report what it prints.",
        file=sys.stderr,
    )
    return FAILED


def status_of(error: ToolgateError) -> int:
    """Return the exit status for an error."""
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
    """Return the exit status for an error code in the response of a gateway."""
    for kind in _with_subclasses(ToolgateError):
        if kind.code == code:
            return status_of(kind.__new__(kind))
    return FAILED


def open_missing_streams() -> None:
    """Discard output if there are no streams for it: under `pythonw.exe`, or if they are closed."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stdout = pathlib.Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stderr = pathlib.Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115


def replace_unencodable() -> None:
    """Print a substitute for characters that the terminal cannot encode, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        _replace_unencodable(stream)


def _replace_unencodable(stream: TextIO) -> None:
    if isinstance(stream, io.TextIOWrapper) and stream.errors in {"strict", "surrogateescape"}:
        stream.reconfigure(errors="replace")


def _indented(error: BaseException) -> str:
    """Return the message with later lines indented, so that servers cannot imitate our output."""
    text = error.full_text if isinstance(error, ToolgateError) else str(error)
    return "\n    ".join(sanitize(text).splitlines())


def _first_error(error: BaseException) -> BaseException:
    """Return the error inside the exception groups of concurrent tasks."""
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
