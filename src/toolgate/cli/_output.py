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

_GAP = 2
"""Columns between two cells of a table."""

_READABLE = 16
"""Columns that the cell which is cut needs at least to say something."""

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

    A terminal that is too narrow for that gets a paragraph for each row.

    Args:
        headings: One for each column.
        rows: Texts, one for each column.
        wrap: The column that is cut when the terminal is narrow; counted as Python does.
    """
    if not sys.stdout.isatty():
        for row in rows:
            print("\t".join(_one_line(cell) for cell in row))
        return
    console = _console(sys.stdout)
    cells = [[Text(harmless(_one_line(cell))) for cell in row] for row in rows]
    cut = wrap % len(headings)
    widths = [
        max([len(heading), *(row[at].cell_len for row in cells)])
        for at, heading in enumerate(headings)
    ]
    fixed = sum(width + _GAP for at, width in enumerate(widths) if at != cut)
    if fixed + min(widths[cut], _READABLE) > console.width:
        _print_paragraphs(console, headings, cells)
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0))
    for at, heading in enumerate(headings):
        # a width of its own keeps a column whole; rich would cut all in proportion
        width = min(widths[at], console.width - fixed) if at == cut else widths[at]
        table.add_column(heading, no_wrap=True, overflow="ellipsis", width=width)
    for row in cells:
        table.add_row(*row)
    console.print(table)


def _print_paragraphs(
    console: Console, headings: Sequence[str], rows: Sequence[Sequence[Text]]
) -> None:
    for row in rows:
        console.print(row[0], style="bold")
        for heading, cell in zip(headings[1:], row[1:], strict=True):
            if cell.plain not in {"", "-"}:
                console.print(Text.assemble(f"  {heading}: ", cell))


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
