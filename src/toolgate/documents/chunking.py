"""Splits a text into passages that end at headings and paragraphs.

The text is Markdown; a form feed ends a page. Texts longer than a passage are split between
paragraphs, then between lines (a table keeps its header), then between sentences, then between
words. Short ones are joined with their neighbour on the same page: with more of the same
section, or with a short section at the same level or below it, whose heading then becomes part
of the text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from toolgate.base.token_estimate import estimate_tokens

_UNDERLINE = re.compile(r"^(=+|-+)[ \t]*$")
_FENCE = re.compile(r"^[ \t]{0,3}(`{3,}|~{3,})")
_SENTENCE = re.compile(r"(?<=[.!?。！？])[\s]+|(?<=[。！？])")
_LINK = re.compile(r"\[([^\[\]]*)\]\([^)]*\)|[*_`]+")
_LONGEST_HEADING = 200
"""Characters: headings are repeated with every passage and must be short (chosen)."""
_LONGEST_MARKED_HEADING = 1_000
"""Characters with links and marks; more are not read, because links take quadratic time."""
_BETWEEN_HEADINGS: Final = " > "
_SHORT_SHARE: Final = 0.35
"""Share of the largest passage up to which sections are joined with their neighbours."""


@dataclass(frozen=True, kw_only=True)
class DocumentChunk:
    """A passage before it is stored."""

    text: str
    """Its text."""

    heading: str = ""
    """The headings above it, top level first: `Setup > Sign in`."""

    page: int | None = None
    """Its page, from 1; None if the text has no pages."""

    @property
    def embedded(self) -> str:
        """The text for embedding and word search."""
        return f"{self.heading}\n{self.text}" if self.heading else self.text


def split_document(text: str, *, max_tokens: int, has_pages: bool = False) -> list[DocumentChunk]:
    """Split a text into passages, in order.

    Args:
        text: Markdown; a form feed ends a page.
        max_tokens: Largest estimated number of tokens of a passage, except for a single long word.
        has_pages: Whether pages are counted.
    """
    pieces: list[DocumentChunk] = []
    path: list[tuple[int, str]] = []
    for number, page in enumerate(text.split("\f"), 1):
        for level, title, body in _sections(page):
            if level:
                path = [heading for heading in path if heading[0] < level]
                path.append((level, title))
            heading = _BETWEEN_HEADINGS.join(name for _, name in path)
            pieces += [
                DocumentChunk(text=part, heading=heading, page=number if has_pages else None)
                for part in _packed(_blocks(body), max_tokens)
            ]
    return _joined_neighbours(pieces, max_tokens)


def _joined_neighbours(pieces: Sequence[DocumentChunk], max_tokens: int) -> list[DocumentChunk]:
    """Join short passages to the previous ones."""
    joined: list[DocumentChunk] = []
    for piece in pieces:
        together = _together(joined[-1], piece, max_tokens) if joined else None
        if together is not None and estimate_tokens(together.text) <= max_tokens:
            joined[-1] = together
        else:
            joined.append(piece)
    return joined


def _together(first: DocumentChunk, second: DocumentChunk, max_tokens: int) -> DocumentChunk | None:
    """Join two adjacent passages; None: they belong to sections that stay separate."""
    if first.page != second.page:  # a citation names the page of the text
        return None
    if first.heading == second.heading:
        return replace(first, text=f"{first.text}\n\n{second.text}")
    parent, _, title = second.heading.rpartition(_BETWEEN_HEADINGS)
    beside = first.heading.rpartition(_BETWEEN_HEADINGS)[0]
    short = _SHORT_SHARE * max_tokens
    if not parent or parent not in {first.heading, beside}:
        return None
    if max(estimate_tokens(first.text), estimate_tokens(second.text)) > short:
        return None
    return replace(first, text=f"{first.text}\n\n{title}\n{second.text}")


def _sections(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """Yield level, title and lines of each section; first the lines before any heading."""
    level, title = 0, ""
    lines: list[str] = []
    fence = ""
    for line in text.splitlines():
        fence = _fence_after(line, fence)
        heading = None if fence else _heading(line)
        if heading:
            yield level, title, lines
            (level, title), lines = heading, []
            continue
        below = None if fence else _UNDERLINE.match(line)
        if below and lines and lines[-1].strip() and _stands_alone(lines):
            *before, name = lines
            yield level, title, before
            level, title, lines = (1 if below[1][0] == "=" else 2), _plain(name), []
            continue
        lines.append(line)
    yield level, title, lines


def _heading(line: str) -> tuple[int, str] | None:
    """Return level and title of a heading that starts with `#`; takes linear time."""
    rest = line.lstrip("#")
    level = len(line) - len(rest)
    title = rest.strip(" \t").rstrip("#").rstrip(" \t")
    if not 1 <= level <= 6 or not rest.startswith((" ", "\t")) or not title:
        return None
    return level, _plain(title)


def _is_table_rule(line: str) -> bool:
    """Whether a line separates the header of a table from its rows: `| --- | :-: |`."""
    return "|" in line[1:] and not line.strip(" \t:|-")


def _stands_alone(lines: Sequence[str]) -> bool:
    """Whether the last line can be a heading that the next line underlines."""
    last = lines[-1].strip()
    before = lines[-2].strip() if len(lines) > 1 else ""
    return not before and not last.startswith(("|", "- ", "* ", "> ", "```")) and len(last) < 120


def _plain(title: str) -> str:
    title = _LINK.sub(lambda match: match[1] or "", title[:_LONGEST_MARKED_HEADING])
    return " ".join(title.split())[:_LONGEST_HEADING]


def _fence_after(line: str, fence: str) -> str:
    """Return the fence of the code block that is open after a line; empty: none."""
    match = _FENCE.match(line)
    if not match:
        return fence
    if not fence:
        return match[1]
    closes = match[1][0] == fence[0] and len(match[1]) >= len(fence)
    return "" if closes and not line.strip().strip(fence[0]) else fence


def _blocks(lines: Sequence[str]) -> Iterator[str]:
    """Yield paragraphs, tables and code blocks, each as a whole."""
    block: list[str] = []
    fence = ""
    for line in lines:
        was_open = bool(fence)
        fence = _fence_after(line, fence)
        if not line.strip() and not was_open:
            if block:
                yield "\n".join(block)
            block = []
        else:
            block.append(line.rstrip())
    if block:
        yield "\n".join(block)


def _packed(blocks: Iterator[str], max_tokens: int) -> Iterator[str]:
    """Join blocks up to the limit, and split those that are too long."""
    together: list[str] = []
    size = 0
    for block in blocks:
        for part in _fitting(block, max_tokens):
            tokens = estimate_tokens(part) + 1
            if together and size + tokens > max_tokens:
                yield "\n\n".join(together)
                together, size = [], 0
            together.append(part)
            size += tokens
    if together:
        yield "\n\n".join(together)


def _fitting(block: str, max_tokens: int) -> Iterator[str]:
    if estimate_tokens(block) <= max_tokens:
        yield block
        return
    lines = block.split("\n")
    head = lines[:2] if len(lines) > 2 and "|" in lines[0] and _is_table_rule(lines[1]) else []
    if head and estimate_tokens("\n".join(head)) < max_tokens // 2:
        room = max_tokens - estimate_tokens("\n".join(head)) - 1
        for part in _joined(lines[2:], "\n", room):
            yield "\n".join([*head, part])
        return
    if len(lines) > 1:
        yield from _joined(lines, "\n", max_tokens)
        return
    sentences = [part for part in _SENTENCE.split(block) if part.strip()]
    if len(sentences) > 1:
        yield from _joined(sentences, " ", max_tokens)
        return
    yield from _joined(_short_words(block, max_tokens), " ", max_tokens)


def _joined(parts: Sequence[str], between: str, max_tokens: int) -> Iterator[str]:
    """Join parts up to the limit, and split those that are too long."""
    together: list[str] = []
    size = 0
    for whole in parts:
        is_long = estimate_tokens(whole) > max_tokens
        smaller = [whole]
        if is_long and len(parts) > 1:
            smaller = list(_fitting(whole, max_tokens))
        for part in smaller:
            tokens = estimate_tokens(part) + 1
            if together and size + tokens > max_tokens:
                yield between.join(together)
                together, size = [], 0
            together.append(part)
            size += tokens
    if together:
        yield between.join(together)


def _short_words(text: str, max_tokens: int) -> list[str]:
    """Return words; those that are too long are split."""
    longest = max(8, max_tokens)  # characters of four bytes at worst
    return [
        word[at : at + longest]
        for word in text.split()
        for at in range(0, len(word), longest if estimate_tokens(word) > max_tokens else len(word))
    ]
