"""Terminal output with Rich; imported only if there is a terminal."""

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from toolgate.cli.terminal._sanitize import one_line

_GAP = 2
"""Columns between two cells of a table (chosen)."""

_MIN_COLUMN_WIDTH = 16
"""Minimum width of the column that is truncated (chosen)."""


def print_aligned(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    wrap: int | None,
    spare: Sequence[str],
) -> None:
    """Print a table on standard output, as described in `print_table`."""
    console = _console(sys.stdout)
    cells = [[Text(one_line(cell)) for cell in row] for row in rows]
    cut = len(headings) if wrap is None else wrap % len(headings)
    widths = [
        max([len(heading), *(row[at].cell_len for row in cells)])
        for at, heading in enumerate(headings)
    ]

    def least() -> int:
        """Return the minimum width of the table."""
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


def terminal_width(stream: TextIO) -> int:
    """Return the width in columns of the terminal that a stream writes to."""
    return _console(stream).width


@contextmanager
def show_spinner(text: str) -> Generator[None]:
    """Show a spinner on standard error while the block runs."""
    # Keep sys.stdout: the replacement of rich has no encoding and writes to standard error.
    with Live(
        Spinner("dots", Text(text)),
        console=_console(sys.stderr),
        refresh_per_second=12.5,
        transient=True,
        redirect_stdout=False,
    ):
        yield


@contextmanager
def show_progress(text: str, total: int) -> Generator[Callable[[str], None]]:
    """Show a progress bar on standard error, as described in `progress_bar`."""
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
