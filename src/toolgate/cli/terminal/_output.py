"""Output of commands: tables for people, JSON for programs, progress on a terminal."""

import contextlib
import json
import sys
import textwrap
from collections.abc import Callable, Generator, Sequence
from datetime import datetime
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from toolgate.cli.terminal._sanitize import CONTROL_CHARACTERS, one_line, sanitize

__all__ = [
    "local_time",
    "note",
    "plural",
    "print_data",
    "print_json",
    "print_table",
    "print_text",
    "progress_bar",
    "spinner",
    "wrap_text",
]

_GAP = 2
"""Columns between two cells of a table (chosen)."""

_MIN_COLUMN_WIDTH = 16
"""Minimum width of the column that is truncated (chosen)."""


def print_json(value: object) -> None:
    """Print a value as one JSON document, in UTF-8 if the terminal supports it."""
    ascii_only = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    text = json.dumps(value, ensure_ascii=ascii_only, indent=2)
    print(CONTROL_CHARACTERS.sub(lambda match: json.dumps(match[0])[1:-1], text))


def print_text(text: str = "") -> None:
    """Print text for people, without control characters that servers may have put into it."""
    print(sanitize(text))


def print_data(text: str) -> None:
    """Print a tool result: without control characters on a terminal, unchanged in a pipe."""
    print(sanitize(text) if sys.stdout.isatty() else text)


def print_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    wrap: int | None = -1,
    spare: Sequence[str] = (),
) -> None:
    """Print a table: aligned on a terminal, separated by tabs in a pipe.

    If the terminal is too narrow, each row becomes a paragraph.

    Args:
        headings: One for each column.
        rows: Texts, one for each column.
        wrap: Index of the column that is truncated if the terminal is narrow; None for none.
        spare: Headings of columns to drop, one by one, if the terminal is narrow.
    """
    if not sys.stdout.isatty():
        for row in rows:
            print("\t".join(one_line(cell) for cell in row))
        return
    console = _console(sys.stdout)
    cells = [[Text(one_line(cell)) for cell in row] for row in rows]
    cut = len(headings) if wrap is None else wrap % len(headings)
    widths = [
        max([len(heading), *(row[at].cell_len for row in cells)])
        for at, heading in enumerate(headings)
    ]

    def least() -> int:
        """Minimum width of the table."""
        whole = sum(width + _GAP for at, width in enumerate(widths) if at != cut)
        return whole + (min(widths[cut], _MIN_COLUMN_WIDTH) if cut < len(widths) else -_GAP)

    for heading in spare:
        if least() <= console.width:
            break
        at = headings.index(heading)
        headings = [*headings[:at], *headings[at + 1 :]]
        cells = [[*row[:at], *row[at + 1 :]] for row in cells]
        del widths[at]
        cut -= at < cut
    fixed = sum(width + _GAP for at, width in enumerate(widths) if at != cut)
    if least() > console.width:
        _print_paragraphs(console, headings, cells)
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0))
    for at, heading in enumerate(headings):
        # rich would shrink all columns in proportion without explicit widths
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


def plural(count: int, thing: str, things: str = "") -> str:
    """`1 server`, `2 servers`, `no server`; `things` where an s does not make the plural."""
    if count > 1:
        return f"{count:,} {things or f'{thing}s'}"
    return f"{'no' if count < 1 else 1} {thing}"


def note(text: str) -> None:
    """Print a remark to standard error, next to the result on standard output."""
    print(sanitize(text), file=sys.stderr)


def wrap_text(text: str, stream: TextIO, *, hang: int = 0) -> str:
    """Wrap a text to the width of the terminal; unchanged in a pipe.

    Args:
        text: One line.
        stream: Where it is printed.
        hang: Indentation of the second and later lines.
    """
    if not stream.isatty():
        return text
    return textwrap.fill(
        text,
        _console(stream).width,
        subsequent_indent=" " * hang,
        break_long_words=False,
        break_on_hyphens=False,
    )


def local_time(utc: str | None) -> str:
    """A stored time in local time with its offset; a dash for none."""
    if not utc:
        return "-"
    try:
        return datetime.fromisoformat(utc).astimezone().isoformat(sep=" ", timespec="seconds")
    except ValueError:
        return utc


@contextlib.contextmanager
def spinner(text: str) -> Generator[None]:
    """Show a spinner on the terminal while the block runs; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield
        return
    # Keep sys.stdout: the replacement of rich has no encoding and writes to standard error.
    with Live(
        Spinner("dots", Text(text)),
        console=_console(sys.stderr),
        refresh_per_second=12.5,
        transient=True,
        redirect_stdout=False,
    ):
        yield


@contextlib.contextmanager
def progress_bar(text: str, total: int) -> Generator[Callable[[str], None]]:
    """Show a progress bar; yields a function to call with the name of each step as it begins."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[name]}"),
    )
    with Progress(
        *columns, console=_console(sys.stderr), transient=True, redirect_stdout=False
    ) as bar:
        task = bar.add_task(text, total=total, name="")
        begun = 0

        def step(name: str) -> None:
            nonlocal begun
            bar.update(task, completed=begun, name=one_line(name)[:60])
            begun += 1

        yield step


def _console(stream: TextIO) -> Console:
    return Console(file=stream, highlight=False, soft_wrap=False)
