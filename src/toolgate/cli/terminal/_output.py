"""Output of commands: tables for people, JSON for programs, progress on a terminal."""

import contextlib
import json
import sys
import textwrap
from collections.abc import Callable, Generator, Sequence
from datetime import datetime
from importlib import import_module
from typing import Any, TextIO, TypeVar

from toolgate.cli.terminal._sanitize import CONTROL_CHARACTERS, one_line, sanitize

T = TypeVar("T")


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
    """Print a table with a row of headings: aligned on a terminal, separated by tabs in a pipe.

    If the terminal is too narrow, each row becomes a paragraph.

    Args:
        headings: One for each column.
        rows: Texts, one for each column.
        wrap: Index of the column that is truncated if the terminal is narrow; None for none.
        spare: Headings of columns to drop, one by one, if the terminal is narrow.
    """
    if not sys.stdout.isatty():
        for row in (headings, *rows):
            print("\t".join(one_line(cell) for cell in row))
        return
    _rich().print_aligned(headings, rows, wrap=wrap, spare=spare)


def print_rows(
    rows: Sequence[T],
    headings: Sequence[str],
    row_of: Callable[[T], Sequence[str]],
    *,
    empty: str,
    as_json: bool,
    wrap: int | None = -1,
    spare: Sequence[str] = (),
) -> None:
    """Print a list: as JSON, or as a table with a row for each item.

    Args:
        rows: The items, which JSON shows as they are.
        headings: One for each column.
        row_of: Returns the cells of an item.
        empty: Remark for people if there are none.
        as_json: Whether to print JSON.
        wrap: See `print_table`.
        spare: See `print_table`.
    """
    if as_json:
        print_json(rows)
    elif rows:
        print_table(headings, [row_of(row) for row in rows], wrap=wrap, spare=spare)
    else:
        note(empty)


def print_result(result: object, text: str, *, as_json: bool) -> None:
    """Print the result of a command: as JSON, or as a text for people."""
    if as_json:
        print_json(result)
    else:
        print_text(text)


def plural(count: int, thing: str, things: str = "") -> str:
    """Format a count: `1 server`, `2 servers`, `no server`; `things` is an irregular plural."""
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
        _rich().terminal_width(stream),
        subsequent_indent=" " * hang,
        break_long_words=False,
        break_on_hyphens=False,
    )


def local_time(utc: str | None) -> str:
    """Format a stored time in local time with its offset; a dash for None."""
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
    with _rich().show_spinner(text):
        yield


@contextlib.contextmanager
def progress_bar(text: str, total: int) -> Generator[Callable[[str], None]]:
    """Show a progress bar; yields a function to call with the name of each step as it begins."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with _rich().show_progress(text, total) as step:
        yield step


def _rich() -> Any:
    """Import what needs Rich, which takes a tenth of a command's start."""
    return import_module("toolgate.cli.terminal._rich_output")
