"""Removes repeated parts of pages without content: running headers, footers, page numbers."""

import re
from collections.abc import Mapping, Sequence
from statistics import mode
from typing import Final

_EDGE_LINES: Final = 3
"""Lines at the top and at the bottom of a page that may be removed."""

_FEWEST_PAGES: Final = 3
"""Number of pages on which a line must occur to count as repeated."""

_ON_MOST_PAGES: Final = 0.5
"""Share of pages from which a repeated line without a page number is removed."""

_LONGEST_LINE: Final = 120
"""Characters; longer lines are text."""

_CONTENTS = re.compile(r"(?:\.[ ]?){5,}\s*(?:\d+|[ivxlc]+)?\s*")
"""End of a line in a table of contents: dots up to a page number."""

_NUMBER = re.compile(r"\d+")
_HYPHENATED = re.compile(r"(?<![^\W\d_])([^\W\d_]+)-[ \t]*\n[ \t]*([a-z]+)")
_COMPOUND = re.compile(r"(?<![^\W\d_])[^\W\d_]+-[a-z]+")
"""Both look for words from their start only, or a long one would take quadratic time."""


def without_page_furniture(pages: Sequence[str]) -> list[str]:
    """Return the pages of a document without running headers, footers, page numbers and contents.

    A line at the edge of a page is removed if the same line, ignoring numbers, is at the edge of
    at least three pages, and either one of its numbers counts these pages or it is on half of
    all pages.
    """
    edges = [_edge_lines(page) for page in pages]
    numbers_on: dict[str, dict[int, list[int]]] = {}
    for number, lines in enumerate(edges):
        for line in lines.values():
            numbers_on.setdefault(_shape(line), {})[number] = [
                int(digits) for digits in _NUMBER.findall(line)[:8] if len(digits) < 7
            ]
    furniture = {
        shape
        for shape, by_page in numbers_on.items()
        if len(by_page) >= _FEWEST_PAGES
        and (_counts_pages(by_page) or len(by_page) >= _ON_MOST_PAGES * len(pages))
    }
    return [
        "\n".join(
            line
            for at, line in enumerate(page.split("\n"))
            if (at not in lines or _shape(lines[at]) not in furniture) and not _is_of_contents(line)
        )
        for page, lines in zip(pages, edges, strict=True)
    ]


def without_hyphenation(text: str) -> str:
    """Join words that were hyphenated at the end of a line.

    A hyphen stays if the text contains the word with it elsewhere: `two-` `handed`, if there is
    `two-handed`.
    """
    compounds = set(_COMPOUND.findall(text.lower()))

    def joined(match: re.Match[str]) -> str:
        first, second = match[1], match[2]
        between = "-" if f"{first}-{second}".lower() in compounds else ""
        return f"{first}{between}{second}"

    return _HYPHENATED.sub(joined, text)


def _edge_lines(page: str) -> dict[int, str]:
    """Return the first and last non-empty lines of a page by their position."""
    filled = [(at, line.strip()) for at, line in enumerate(page.split("\n")) if line.strip()]
    edge = filled[:_EDGE_LINES] + filled[_EDGE_LINES:][-_EDGE_LINES:]
    return {at: line for at, line in edge if len(line) <= _LONGEST_LINE}


def _is_of_contents(line: str) -> bool:
    end = _CONTENTS.search(line.rstrip())
    return end is not None and end.end() == len(line.rstrip())


def _shape(line: str) -> str:
    """Return a line without the parts that differ from page to page."""
    return _NUMBER.sub("#", " ".join(line.split()))


def _counts_pages(by_page: Mapping[int, Sequence[int]]) -> bool:
    """Whether a number in a line grows with the pages, as page numbers do."""
    offsets = [value - page for page, values in by_page.items() for value in values]
    return bool(offsets) and offsets.count(mode(offsets)) >= max(_FEWEST_PAGES, 0.8 * len(by_page))
