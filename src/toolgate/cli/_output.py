"""How commands show things: tables for people, JSON for programs, one line while one waits."""

import contextlib
import json
import re
import sys
from collections.abc import Generator, Sequence
from datetime import datetime
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["local_time", "note", "print_json", "print_table", "print_text", "waiting"]

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def print_json(value: object) -> None:
    """Print a value for programs: one JSON document, UTF-8 where the terminal has it."""
    ascii_only = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    print(json.dumps(value, ensure_ascii=ascii_only, indent=2))


def print_text(text: str = "") -> None:
    """Print text of a server or a tool as it is; control characters cannot steer a terminal."""
    print(harmless(text) if sys.stdout.isatty() else text)


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, wrap: int = -1) -> None:
    """Print rows under headings: aligned on a terminal, separated by tabs in a pipe.

    Args:
        headings: One for each column.
        rows: Texts, one for each column.
        wrap: The column that gives way when the terminal is narrow; counted as Python does.
    """
    if not sys.stdout.isatty():
        for row in rows:
            print("\t".join(_one_line(cell) for cell in row))
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    giving_way = wrap % len(headings)
    for index, heading in enumerate(headings):
        is_giving = index == giving_way
        table.add_column(
            heading,
            overflow="ellipsis" if is_giving else "fold",
            no_wrap=is_giving,
            ratio=1 if is_giving else None,
        )
    for row in rows:
        table.add_row(*(Text(harmless(_one_line(cell))) for cell in row))
    _console(sys.stdout).print(table)


def note(text: str) -> None:
    """Tell a person something beside the result: on standard error."""
    print(harmless(text), file=sys.stderr)


def local_time(utc: str | None) -> str:
    """A stored moment as people read it: local, with its offset; a dash for none."""
    if not utc:
        return "-"
    try:
        return datetime.fromisoformat(utc).astimezone().isoformat(sep=" ", timespec="seconds")
    except ValueError:
        return utc


@contextlib.contextmanager
def waiting(text: str) -> Generator[None]:
    """Show a moving line on the terminal while something takes its time; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield
        return
    with _console(sys.stderr).status(Text(text)):
        yield


def harmless(text: str) -> str:
    """A text of others without the control characters that steer a terminal."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def _console(stream: TextIO) -> Console:
    return Console(file=stream, highlight=False, soft_wrap=False)


def _one_line(text: str) -> str:
    return " ".join(text.split())
