"""Converts HTML to Markdown, without scripts, styles and navigation, in linear time."""

import re
from collections import Counter
from contextlib import suppress
from html.parser import HTMLParser
from typing import Any, Final

import bs4
import markdownify

from toolgate.documents.formats.conversion import ConvertedDocument
from toolgate.documents.formats.html_tree import Page
from toolgate.errors import DocumentError

_NO_TEXT = ("script", "style", "noscript", "template", "svg", "nav", "form", "iframe", "img")

_AROUND_TEXT = ("header", "footer", "aside")
"""Repeated parts of pages; inside an article or the main element they belong to the text."""

_LINKED_SHARES: Final = (
    (re.compile(r"nav(?:bar|header|footer|igation)?|breadcrumbs?", re.IGNORECASE), 0.25),
    (re.compile(r"\w*menu|(?:\w+[-_])?toc(?:[-_]\w+)?", re.IGNORECASE), 0.8),
)
"""Names of parts for getting around that are no `nav` element, with the share of characters in
links from which they are that; a menu may also be one of dishes (chosen)."""

_BLOCKS: Final = ("div", "ul", "ol", "dl", "table", "p")
_LARGEST_AROUND: Final = 0.8
"""Share of a page from which such parts are its text, as on a start page (chosen)."""

_MOST_TAGS = 1_000_000
"""Tags: bounds time and memory (chosen)."""

_REWRITING: Final = frozenset({"li", "blockquote", "dd", "tr", "video"})
"""Tags for which the library goes through everything in them again."""

_FREE_REWRITES: Final = 8
"""Levels of such tags that every page may have (chosen)."""

_MOST_REWRITTEN: Final = 500_000
"""Tags and lines, each times the rewriting tags around it beyond the free ones: each takes 3 µs.
Pages for people have few such levels (chosen)."""

_BLANKS: Final = re.compile(r"[\t ]{2,}")
_WIDE_GAP: Final = re.compile(r"([\t \r\n]{100})[\t \r\n]+")
"""Blanks in preformatted text that no layout needs (chosen)."""

_MOST_DIGITS: Final = 9
"""Most digits of the first number of a list; browsers count up to 2,147,483,647."""

_UNCLOSED: Final = re.compile("<[a-zA-Z/!?]")
_NO_REFERENCE: Final = re.compile(r"&(?=#(?![0-9]+[^0-9a-fA-F]|[xX][0-9a-fA-F]+[^0-9a-fA-F]))")
"""An ampersand after which the parser would take all tags for text (Python 3.11.7)."""

_ROWS = ("thead", "tbody", "tfoot", "tr")


def read(data: bytes, *, name: str, max_bytes: int) -> ConvertedDocument:  # noqa: ARG001 - contract
    """Return the text of a page."""
    tags = data.count(b"<")
    if tags > _MOST_TAGS:
        raise DocumentError(
            f"{name} has {tags:,} tags.", allowed=f"Allowed: {_MOST_TAGS:,}.", hint="Split it."
        )
    markup = bs4.UnicodeDammit(data, is_html=True).unicode_markup or ""
    page = Page(_without_unclosed_end(markup), "html.parser", element_classes={bs4.Tag: _Element})
    _check_rewriting(page)
    title = page.title.get_text() if page.title else ""
    for part in page(["title", *_NO_TEXT]):
        part.decompose()
    for part in page(_AROUND_TEXT):
        if part.find_parent(("article", "main")) is None and part.find("h1") is None:
            part.decompose()
    around = _navigation(page)
    if sum(map(_size, around)) < _LARGEST_AROUND * _size(page):
        for part in around:
            part.extract()
    return ConvertedDocument(text=markdown_of(page), title=title)


def _navigation(page: bs4.BeautifulSoup) -> list[bs4.Tag]:
    """Return the parts that are called menus or tables of contents, and consist of links."""
    found: list[bs4.Tag] = []
    inside: set[int] = set()  # inner ones are not looked at: that would take quadratic time
    for part in page.find_all(name=True):
        if id(part.parent) in inside:
            inside.add(id(part))
        elif part.name in _BLOCKS and (share := _linked_share(part)):
            inside.add(id(part))
            links = [link for link in part("a") if link.find_parent("a") is None]
            if sum(map(_size, links)) >= share * _size(part):
                found.append(part)
    return found


def _linked_share(part: bs4.Tag) -> float:
    """Return the share of links from which a part is navigation, by its names; 0: it is none."""
    values = (part.get_attribute_list(key) for key in ("class", "id", "role", "summary"))
    names = [name for found in values for value in found if value for name in str(value).split()]
    shares = [share for pattern, share in _LINKED_SHARES if any(map(pattern.fullmatch, names))]
    return min(shares, default=0.0)


def _size(part: bs4.Tag) -> int:
    return len(part.get_text(strip=True))


def markdown_of(page: bs4.BeautifulSoup) -> str:
    """Return the text of a page, with headings and tables in Markdown."""
    _shorten_blanks(page)
    converter = _LinearConverter(
        heading_style="ATX",
        bullets="-",
        strip=["a"],
        escape_asterisks=False,
        escape_underscores=False,
    )
    return str(converter.convert_soup(page)).replace("\f", "\n")


class _Element(bs4.Tag):
    """A tag that knows the preformatted text around it, which the library looks for in each tag.

    10,000 tags in 100 lists took 12 s (markdownify 1.2.3, 2026-11-27).
    """

    preformatted: bs4.Tag | None = None
    """The nearest one."""

    def find_parent(self, name: Any = None, *rest: Any, **attributes: Any) -> Any:
        """Return the nearest tag around this one with a name."""
        if name == "pre" and not rest and not attributes:
            return self.preformatted
        return super().find_parent(name, *rest, **attributes)


class _LinearConverter(markdownify.MarkdownConverter):
    """Counts items of lists and finds first rows without a search through the whole list or table.

    A list of 16,000 numbered items took 31 s (markdownify 1.2.3, 2026-11-27).
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._items: Counter[int] = Counter()

    def convert_li(self, el: bs4.Tag, text: str, parent_tags: set[str]) -> str:
        """Return an item of a list."""
        if el.parent is not None and el.parent.name == "ol":
            el = self._only_item(el.parent)
        library: Any = super()
        return str(library.convert_li(el, text, parent_tags))

    def convert_tr(self, el: bs4.Tag, text: str, parent_tags: set[str]) -> str:
        """Return a row of a table."""
        group = el.parent
        is_first = el.find_previous_sibling() is None and (
            group is None or group.name not in _ROWS or group.find_previous_sibling(_ROWS) is None
        )
        if not is_first:
            return f"|{text}\n"
        library: Any = super()
        return str(library.convert_tr(el, text, parent_tags))

    def convert_pre(self, el: bs4.Tag, text: str, parent_tags: set[str]) -> str:
        """Return preformatted text, whose blanks may come from many tags."""
        library: Any = super()
        return str(library.convert_pre(el, _WIDE_GAP.sub(r"\1", text), parent_tags))

    def _only_item(self, items: bs4.Tag) -> bs4.Tag:
        """Return the next item as the first of a list that starts with its number."""
        start = str(items.get("start", ""))
        is_number = start.isdecimal() and len(start) <= _MOST_DIGITS
        number = (int(start) if is_number else 1) + self._items[id(items)]
        self._items[id(items)] += 1
        item = bs4.Tag(name="li")
        bs4.Tag(name="ol", attrs={"start": str(number)}).append(item)
        return item


def _without_unclosed_end(markup: str) -> str:
    """Leave out what follows a comment or a tag that is never closed, as browsers do.

    The parser would look for the end again from each later `<`: 96 KB of `<a b="` took 38 s
    (Python 3.11.7, 2026-11-27).
    """
    markup = _NO_REFERENCE.sub("&amp;", markup)
    scanner = HTMLParser()
    with suppress(AssertionError):  # the parser will reject the page
        scanner.feed(markup)
        if _UNCLOSED.match(scanner.rawdata):
            return markup[: -len(scanner.rawdata)]
    return markup


def _check_rewriting(page: bs4.BeautifulSoup) -> None:
    """Reject a page that has too much in nested lists or tables.

    Raises:
        RecursionError: It is.
    """
    levels = {id(page): -_FREE_REWRITES}  # of the tags around that rewrite
    written = 0
    for part in page.descendants:
        rewrites = levels[id(part.parent)]
        if isinstance(part, _Element):
            if isinstance(part.parent, _Element):
                is_nearest = part.parent.name == "pre"
                part.preformatted = part.parent if is_nearest else part.parent.preformatted
            levels[id(part)] = rewrites + (part.name in _REWRITING)
        if rewrites > 0:
            written += rewrites * (1 if isinstance(part, bs4.Tag) else str(part).count("\n"))
            if written > _MOST_REWRITTEN:
                raise RecursionError


def _shorten_blanks(page: bs4.BeautifulSoup) -> None:
    """Shorten runs of blanks, for which the library takes quadratic time.

    300 KB of blanks took more than 20 s (markdownify 1.2.3, 2026-11-27).
    """
    for text in page.find_all(string=_BLANKS):
        is_preformatted = text.find_parent("pre") is not None
        shorter = _WIDE_GAP.sub(r"\1", text) if is_preformatted else _BLANKS.sub(" ", text)
        text.replace_with(type(text)(shorter))
