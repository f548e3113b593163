"""Renders a model's Markdown as HTML that is safe to show: no HTML of its own, no image, no script.

A model repeats what tools and documents tell it, so its text is as little trusted as theirs.
"""

from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markupsafe import Markup, escape

from toolgate.console.safe_text import cut, named

_KEPT = 200
"""Rendered texts in memory (chosen: some pages of a thread, at most some 10 MB)."""

_MOST_CHARS = 20_000
"""Characters that are rendered. Hostile text of this length takes half a second."""

_HEADINGS_ABOVE = 2
"""Levels of headings that the page itself uses."""

_REL = "noopener noreferrer nofollow"
_TABLE = {
    "table_open": '<div class="scroll" tabindex="0" role="region" aria-label="Table"><table>',
    "table_close": "</table></div>",
}
"""A table that is wider than the page scrolls by itself."""


@lru_cache(_KEPT)
def render(text: str) -> Markup:
    """Return Markdown as HTML; takes some milliseconds for each thousand characters.

    CommonMark with tables and strikethrough; each line break counts. Only links to `http` and
    `https` are links, and each is followed by its host unless its text begins with that. An image
    becomes a link: loading it would tell its host that the page was opened, and more by its URL.
    Odd characters are replaced by their names.
    """
    html = _MARKDOWN.render(cut(text, _MOST_CHARS))
    return Markup(f'<div class="markdown">{html}</div>')  # noqa: S704 - see `_make_safe`


def _make_safe(state: StateCore) -> None:
    """Change blocks to what the page allows; what they contain becomes HTML that is escaped."""
    for token in state.tokens:
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{min(6, int(token.tag[1]) + _HEADINGS_ABOVE)}"
        elif token.type in {"fence", "code_block"}:
            token.content = f'<pre tabindex="0"><code>{named(token.content)}</code></pre>\n'
            token.type = "html_block"
        elif token.type in _TABLE:
            token.content, token.type = _TABLE[token.type], "html_block"
        elif "style" in token.attrs:  # forbidden by the policy of the page
            if token.attrs.pop("style") == "text-align:right":
                token.attrSet("class", "num")
        elif token.children:
            token.children = _inline(token.children)


def _inline(tokens: Sequence[Token]) -> list[Token]:
    """Return tokens whose texts are escaped HTML, and whose links are followed by their hosts."""
    changed: list[Token] = []
    url, words = "", ""
    for token in tokens:
        html = ""
        match token.type:
            case "link_open":
                url, words = str(token.attrs["href"]), ""
                token.attrs = {"href": url, "rel": _REL}
            case "link_close":
                html, url = f"</a>{_host(url, words)}", ""
            case "image":
                label = token.content or "image"
                words += label
                html = named(label) if url else _link(str(token.attrs["src"]), label)
            case "text" | "text_special":
                words += token.content
                html = named(token.content)
            case "code_inline":
                words += token.content
                html = f"<code>{named(token.content)}</code>"
            case _:
                pass
        changed.append(Token("html_inline", "", 0, content=html) if html else token)
    return changed


def _link(url: str, words: str) -> str:
    return f'<a href="{escape(url)}" rel="{_REL}">{named(words)}</a>{_host(url, words)}'


def _host(url: str, words: str) -> str:
    """Return the host of a link as markup, unless the link's text begins with it."""
    host = urlsplit(url).hostname or ""
    shown = words.strip().casefold().removeprefix("https://").removeprefix("http://")
    if shown == host or shown.startswith(f"{host}/"):
        return ""
    return f' <span class="quiet">({named(host)})</span>'


def _is_link(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


def _markdown() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False, "breaks": True})
    markdown.enable(["table", "strikethrough"])
    markdown.validateLink = _is_link
    markdown.core.ruler.push("make_safe", _make_safe)
    return markdown


_MARKDOWN = _markdown()
