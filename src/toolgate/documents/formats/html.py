"""Converts HTML to Markdown, without scripts, styles and navigation."""

import re
from typing import Final

import bs4
import markdownify

from toolgate.documents.formats.conversion import ConvertedDocument
from toolgate.errors import DocumentError

__all__ = ["markdown_of", "read"]

_NO_TEXT = ("script", "style", "noscript", "template", "svg", "nav", "form", "iframe", "img")

_AROUND_TEXT = ("header", "footer", "aside")
"""Repeated parts of pages; inside an article or the main element they belong to the text."""

_MOST_TAGS = 1_000_000
"""Tags: bounds time and memory (chosen)."""

_BLANKS: Final = re.compile(r"[\t ]{2,}")
_WIDE_GAP: Final = re.compile(r"([\t \r\n]{100})[\t \r\n]+")
"""Blanks in preformatted text that no layout needs (chosen)."""


def read(data: bytes, *, name: str, max_bytes: int) -> ConvertedDocument:  # noqa: ARG001 - contract
    """Return the text of a page."""
    tags = data.count(b"<")
    if tags > _MOST_TAGS:
        raise DocumentError(
            f"{name} has {tags:,} tags.", allowed=f"Allowed: {_MOST_TAGS:,}.", hint="Split it."
        )
    page = bs4.BeautifulSoup(data, "html.parser")
    title = page.title.get_text() if page.title else ""
    for part in page(["title", *_NO_TEXT]):
        part.decompose()
    for part in page(_AROUND_TEXT):
        if part.find_parent(("article", "main")) is None and part.find("h1") is None:
            part.decompose()
    return ConvertedDocument(text=markdown_of(page), title=title)


def markdown_of(page: bs4.BeautifulSoup) -> str:
    """Return the text of a page, with headings and tables in Markdown."""
    _shorten_blanks(page)
    converter = markdownify.MarkdownConverter(
        heading_style="ATX",
        bullets="-",
        strip=["a"],
        escape_asterisks=False,
        escape_underscores=False,
    )
    return str(converter.convert_soup(page)).replace("\f", "\n")


def _shorten_blanks(page: bs4.BeautifulSoup) -> None:
    """Shorten runs of blanks, for which the library takes quadratic time.

    300 KB of blanks took more than 20 s (markdownify 1.2.3, 2026-11-27).
    """
    for text in page.find_all(string=_BLANKS):
        is_preformatted = text.find_parent("pre") is not None
        shorter = _WIDE_GAP.sub(r"\1", text) if is_preformatted else _BLANKS.sub(" ", text)
        text.replace_with(type(text)(shorter))
