"""Parses HTML into a tree, with the ends of tags that HTML allows to leave out."""

from collections.abc import Mapping
from typing import Any, Final

import bs4

MOST_LEVELS: Final = 250
"""Levels of nesting: several steps take time for each level, and about 300 is where Python stops
the Markdown library (markdownify 1.2.3, 2026-11-27)."""

_OptionalEnd = tuple[frozenset[str], frozenset[str]]
"""Tags that end, and those in which they are looked for: not around the nearest of these."""

_PARTS: Final = frozenset({"table", "td", "th", "caption", "button", "object", "template"})
_LISTS: Final = frozenset({"ul", "ol", "menu", "dir", "dl"})
_BLOCKS: Final = frozenset(
    {
        *("address", "article", "aside", "blockquote", "center", "details", "dialog", "div", "dd"),
        *("dt", "fieldset", "figure", "footer", "form", "header", "li", "main", "nav", "section"),
    }
)
_ROW: Final[_OptionalEnd] = (frozenset({"tr", "caption", "colgroup"}), frozenset({"table"}))

_ENDS: Final[Mapping[str, _OptionalEnd]] = {
    # Blocks end a paragraph, too. They stay in it here, and so does the text after them, which
    # would otherwise have no paragraph.
    "p": (frozenset({"p"}), _PARTS | _LISTS | _BLOCKS),
    "li": (frozenset({"li"}), _PARTS | _LISTS),
    **dict.fromkeys(("dt", "dd"), (frozenset({"dt", "dd"}), _PARTS | _LISTS)),
    **dict.fromkeys(("td", "th"), (frozenset({"td", "th"}), frozenset({"tr", "table"}))),
    "tr": _ROW,
    **dict.fromkeys(("thead", "tbody", "tfoot"), (_ROW[0] | {"thead", "tbody", "tfoot"}, _ROW[1])),
    "option": (frozenset({"option"}), frozenset({"select", "datalist"})),
}
"""What the start of a tag ends: https://html.spec.whatwg.org/multipage/syntax.html#optional-tags"""


class Page(bs4.BeautifulSoup):
    """A page; old ones with long lists have hundreds of items or paragraphs without an end.

    Raises:
        RecursionError: It is nested too deeply.
    """

    def handle_starttag(self, name: str, *rest: Any, **options: Any) -> bs4.Tag | None:
        """Take the start of a tag from the parser."""
        if name in _ENDS:
            self._end(*_ENDS[name])
        tag = super().handle_starttag(name, *rest, **options)
        if len(self.tagStack) > MOST_LEVELS + 1:
            raise RecursionError
        return tag

    def _end(self, tags: frozenset[str], within: frozenset[str]) -> None:
        """End the outermost of these tags, and those in it, within the nearest of the others."""
        if not any(map(self.open_tag_counter.get, tags)):
            return
        start = len(self.tagStack)
        for at in range(len(self.tagStack) - 1, 0, -1):
            name = self.tagStack[at].name
            if name in within:
                break
            if name in tags:
                start = at
        self.endData()
        while len(self.tagStack) > start:
            self.popTag()
