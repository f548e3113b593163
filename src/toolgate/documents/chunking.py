"""Cuts a text into passages that end at headings and paragraphs.

The text is Markdown; a form feed ends a page. What is longer than a passage may be is cut between
paragraphs, then between lines (a table keeps its head), then between sentences, then between words.
What is short is joined with its neighbour on the same page: with more of the same section, or
with a short section beside or below it, whose heading then stands in the text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from toolgate.base.token_estimate import estimate_tokens

__all__ = ["DocumentChunk", "split_document"]

_HEADING = re.compile(r"^(#{1,6})[ \t]+(.+?)[ \t]*#*[ \t]*$")
_UNDERLINE = re.compile(r"^(=+|-+)[ \t]*$")
_FENCE = re.compile(r"^[ \t]{0,3}(`{3,}|~{3,})")
_RULE = re.compile(r"^\|?[ \t:|-]+\|[ \t:|-]*$")
_SENTENCE = re.compile(r"(?<=[.!?。！？])[\s]+|(?<=[。！？])")
_LONGEST_HEADING = 200
"""Characters; chosen: headings that stand above every passage must stay short."""
_BETWEEN_HEADINGS: Final = " > "
_SHORT_SHARE: Final = 0.35
"""Share of the longest passage up to which sections are joined with their neighbours."""


@dataclass(frozen=True, kw_only=True)
class DocumentChunk:
    """A passage before it is stored."""

    text: str
    """What stands there."""

    heading: str = ""
    """The headings above it, from the first level on: `Setup > Sign in`."""

    page: int | None = None
    """Its page, from 1 on; None where the text has no pages."""

    @property
    def embedded(self) -> str:
        """What gets a vector, and is found by words."""
        return f"{self.heading}\n{self.text}" if self.heading else self.text


def split_document(text: str, *, max_tokens: int, has_pages: bool = False) -> list[DocumentChunk]:
    """The passages of a text, in their order.

    Args:
        text: Markdown; a form feed ends a page.
        max_tokens: Estimated tokens of a passage at most; one that is a single long word has more.
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
    """The passages with short ones joined to the one before them."""
    joined: list[DocumentChunk] = []
    for piece in pieces:
        together = _together(joined[-1], piece, max_tokens) if joined else None
        if together is not None and estimate_tokens(together.text) <= max_tokens:
            joined[-1] = together
        else:
            joined.append(piece)
    return joined


def _together(first: DocumentChunk, second: DocumentChunk, max_tokens: int) -> DocumentChunk | None:
    """Two neighbours as one passage; None: they belong to sections that stay apart."""
    if first.page != second.page:  # a citation names the page on which the text stands
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
    """Level and title of each heading with the lines below it; first the lines before any."""
    level, title = 0, ""
    lines: list[str] = []
    fence = ""
    for line in text.splitlines():
        fence = _fence_after(line, fence)
        heading = None if fence else _HEADING.match(line)
        if heading:
            yield level, title, lines
            level, title, lines = len(heading[1]), _plain(heading[2]), []
            continue
        below = None if fence else _UNDERLINE.match(line)
        if below and lines and lines[-1].strip() and _stands_alone(lines):
            *before, name = lines
            yield level, title, before
            level, title, lines = (1 if below[1][0] == "=" else 2), _plain(name), []
            continue
        lines.append(line)
    yield level, title, lines


def _stands_alone(lines: Sequence[str]) -> bool:
    """Whether the last line can be a heading that the next underlines."""
    last = lines[-1].strip()
    before = lines[-2].strip() if len(lines) > 1 else ""
    return not before and not last.startswith(("|", "- ", "* ", "> ", "```")) and len(last) < 120


def _plain(title: str) -> str:
    title = re.sub(r"\[([^\]]*)\]\([^)]*\)|[*_`]+", lambda match: match[1] or "", title)
    return " ".join(title.split())[:_LONGEST_HEADING]


def _fence_after(line: str, fence: str) -> str:
    """The mark of the block of code that is open after a line; empty: none is."""
    match = _FENCE.match(line)
    if not match:
        return fence
    if not fence:
        return match[1]
    closes = match[1][0] == fence[0] and len(match[1]) >= len(fence)
    return "" if closes and not line.strip().strip(fence[0]) else fence


def _blocks(lines: Sequence[str]) -> Iterator[str]:
    """Paragraphs, tables and blocks of code, each whole."""
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
    """Blocks put together as far as they fit; those that are too long are cut."""
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
    head = lines[:2] if len(lines) > 2 and "|" in lines[0] and _RULE.match(lines[1]) else []
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
    """Parts put together as far as they fit; those that are too long are cut further."""
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
    """Words, those that alone are too long in pieces."""
    longest = max(8, max_tokens)  # characters of four bytes at worst
    return [
        word[at : at + longest]
        for word in text.split()
        for at in range(0, len(word), longest if estimate_tokens(word) > max_tokens else len(word))
    ]
