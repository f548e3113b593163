"""`toolgate logs`: show the log of the gateway."""

import os
from pathlib import Path
from time import sleep
from typing import Annotated, BinaryIO

import typer

from toolgate.base import logs as log_files
from toolgate.cli.client._load_settings import load_settings
from toolgate.cli.serving._background import log_file
from toolgate.cli.terminal._command_app import CommandApp
from toolgate.cli.terminal._exit import NO_RESULT, SUCCESS
from toolgate.cli.terminal._output import note, print_text

app = CommandApp()

_POLL_S = 0.2
"""Seconds between two checks of a log that is followed (chosen)."""


@app.command(help="Show the background gateway's log; -f follows it.")
def logs(
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new lines until Ctrl-C.")
    ] = False,
    lines: Annotated[
        int, typer.Option("--lines", "-n", metavar="NUMBER", min=0, help="Number of lines to show.")
    ] = 50,
) -> int:
    """Show the background gateway's log; -f follows it.

    A gateway that was started by `toolgate serve` in a terminal writes to that terminal, unless the
    setting log.file names a file.
    """
    path = log_file(load_settings())
    if not path.exists() and not follow:
        note(f"There is no log yet: {path}. A gateway writes it after toolgate start.")
        return NO_RESULT
    source = _opened(path)
    if source is not None:
        for line in log_files.read_tail(source, lines=lines):
            print_text(line)
    if follow:
        _follow(path, source)
    elif source is not None:
        source.close()
    return SUCCESS


def _follow(path: Path, source: BinaryIO | None) -> None:
    """Print what is appended; start again at the top when the file is replaced or truncated."""
    part = b""
    while True:
        if source is None:
            source = _opened(path)
        added = source.read() if source is not None else b""
        *complete, part = (part + added).split(b"\n")
        for line in complete:
            print_text(line.decode("utf-8", "replace"))
        if added:
            continue
        if source is not None and _is_replaced(source, path):
            source.close()
            source = None
            continue
        sleep(_POLL_S)


def _opened(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except OSError:
        return None


def _is_replaced(source: BinaryIO, path: Path) -> bool:
    try:
        there = path.stat()
    except OSError:
        return False  # it is being rotated, and comes again
    here = os.fstat(source.fileno())
    return (there.st_ino, there.st_dev) != (here.st_ino, here.st_dev) or (
        there.st_size < source.tell()
    )
