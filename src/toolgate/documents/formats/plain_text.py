"""Converts plain text to Markdown: marks headings, removes page breaks and hyphenation."""

import re
from collections.abc import Sequence
from itertools import pairwise
from textwrap import dedent
from typing import Final

from toolgate.documents.formats.page_furniture import without_hyphenation, without_page_furniture

_NUMBERED = re.compile(r"((?:\d{1,2}|[A-Z](?=[.]))(?:\.\d{1,3})*)(\.?)[ \t]{1,4}(\S.*)")
"""Numbered headings: `7.2. Weapons`, `A.5 Vote counting`, `3.182. message_cachedir`."""

_CHAPTER = re.compile(r"(?:Part|Chapter|Appendix) (?:\d{1,2}|[A-Z]|[IVX]{1,5})[.:] \S.*")
"""Headings above the numbered ones, whose numbers start again: `Chapter 3. Configuration`."""

_LONGEST_HEADING: Final = 90
"""Characters: a line of a printed page has about 80 (chosen)."""
_INDENTED_SHARE: Final = 0.6
"""Share of indented lines from which a line at the margin is a heading."""

_FEWEST_BREAKS: Final = 3
"""Similar lines from which they are page breaks; fewer may be chance (chosen)."""
_NUMBER = re.compile(r"\d+")
_JUSTIFIED = re.compile(r"(?<=\S)  (?=\S)")
"""Spaces that only justify a line."""

_RULE_OF_BOX = re.compile(r"^[ \t]*[\u2500-\u257f][\u2500-\u257f \t]*\n", re.MULTILINE)
_SIDE_OF_BOX = re.compile(r"[ \t]*[\u2502\u2503\u2551][ \t]*")
"""Frames of tables that are drawn with characters."""

_MARKS_HEADING = re.compile(r"^(?=#{1,6}\s)", re.MULTILINE)


def markdown_of_text(text: str) -> str:
    """Convert a text to Markdown, escaping lines that only look like Markdown headings."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\N{NO-BREAK SPACE}", " ")
    text = _MARKS_HEADING.sub(r"\\", text)
    text = _SIDE_OF_BOX.sub(" | ", _RULE_OF_BOX.sub("", text))
    pages = text.split("\f") if "\f" in text else _pages_of(text)
    lines = _joined_pages(without_page_furniture(pages))
    marked = "\n".join(_with_headings(lines))
    return _JUSTIFIED.sub(" ", dedent(without_hyphenation(marked)))


def _pages_of(text: str) -> list[str]:
    """Split a text that was formatted for printing into pages, by its page number lines."""
    lines = text.split("\n")
    numbered: dict[str, list[tuple[int, int]]] = {}
    for at, line in enumerate(lines):
        numbers = _NUMBER.findall(line)
        isolated = not _line(lines, at - 1) and not _line(lines, at + 1)
        if numbers and isolated and line.strip() and len(numbers[-1]) < 5:
            shape = " ".join(_NUMBER.sub("#", line).split())
            numbered.setdefault(shape, []).append((at, int(numbers[-1])))
    for shape, places in numbered.items():
        values = [value for _, value in places]
        # Numbers of figures or chapters increase, too, but are not all preceded by the same words.
        counts = values == list(range(values[0], values[0] + len(values)))
        if len(places) >= _FEWEST_BREAKS and counts and any(char.isalpha() for char in shape):
            cuts = [_page_start(lines, at) for at, _ in places]
            bounds = [0, *cuts, len(lines)]
            return ["\n".join(lines[start:end]) for start, end in pairwise(bounds)]
    return [text]


def _page_start(lines: Sequence[str], header: int) -> int:
    """Return the start of the page of a header: after the footer of the previous page."""
    at = header
    while at > 0 and not _line(lines, at - 1):
        at -= 1
    return at


def _joined_pages(pages: Sequence[str]) -> list[str]:
    """Return the lines of all pages, joining paragraphs across page breaks."""
    joined: list[str] = []
    for page in pages:
        lines = page.strip("\n").split("\n")
        while joined and not joined[-1].strip():
            joined.pop()
        if joined and lines and _goes_on(joined[-1], next(filter(str.strip, lines), "")):
            lines = lines[next(at for at, line in enumerate(lines) if line.strip()) :]
        elif joined:
            joined.append("")
        joined += lines
    return joined


def _goes_on(last: str, following: str) -> bool:
    last, following = last.strip(), following.strip()
    return bool(last and following) and last[-1] not in ".:!?" and following[0].islower()


def _with_headings(lines: Sequence[str]) -> list[str]:
    """Return the lines with headings in Markdown, and without those that list the headings.

    Headings stand alone: numbered lines, chapters, and lines at the margin of an indented text.
    """
    filled = [line for line in lines if line.strip()]
    indented = sum(line[0].isspace() for line in filled)
    is_indented = indented >= _INDENTED_SHARE * max(len(filled), 1)
    levels: dict[int, int] = {}
    chapters: set[int] = set()
    for at, line in enumerate(lines):
        title = line.strip()
        alone = title and not _line(lines, at - 1) and not _line(lines, at + 1)
        if not alone or len(title) > _LONGEST_HEADING or title[-1] in ".,;:":
            continue
        if level := _level_of_number(title):
            if not _is_list_item(lines, at):
                levels[at] = level
        elif _CHAPTER.fullmatch(title):
            chapters.add(at)
        elif is_indented and not line[0].isspace() and title[0].isalnum():
            levels[at] = 1
    numbered = {lines[at].strip() for at in levels if _NUMBERED.fullmatch(lines[at].strip())}
    below = 1 if chapters else 0
    marked: list[str] = []
    for at, line in enumerate(lines):
        title = line.strip()
        if at in chapters:
            marked.append(f"# {title}")
        elif at in levels:
            marked.append(f"{'#' * min(levels[at] + below, 6)} {title}")
        elif title not in numbered:  # a table of contents
            marked.append(line)
    return marked


def _level_of_number(title: str) -> int:
    """Return the level of a numbered heading; 0 if it is none."""
    numbered = _NUMBERED.fullmatch(title)
    if not numbered:
        return 0
    dots = numbered[1].count(".")
    is_name = bool(dots and numbered[2])  # settings and commands start with a small letter
    return dots + 1 if is_name or numbered[3][0].isupper() else 0


def _is_list_item(lines: Sequence[str], at: int) -> bool:
    """Whether a numbered line is not a heading, because no text of its own follows."""
    following = next(
        (lines[below] for below in range(at + 1, len(lines)) if lines[below].strip()), ""
    )
    indent = len(lines[at]) - len(lines[at].lstrip())
    return not following or len(following) - len(following.lstrip()) < indent


def _line(lines: Sequence[str], at: int) -> str:
    return lines[at].strip() if 0 <= at < len(lines) else ""
