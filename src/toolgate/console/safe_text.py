"""Makes text from others safe to show: visible, short, and not mistaken for Toolgate's own text."""

import re
import unicodedata
from datetime import UTC, datetime

from markupsafe import Markup, escape

from toolgate.audit import ACTIONS

_ODD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Invisible characters, and characters that change the direction of text."""

_CODE = re.compile("`([^`]+)`")

_AFTER_SEPARATOR = re.compile(r"(?<=[:/\\_.-])(?=\w)")
"""Where a key, name or path may be broken between lines."""

_SECONDS = ((86_400, "day"), (3_600, "hour"), (60, "minute"))


def cut(text: object, max_chars: int) -> str:
    """Return the start of a text, with a note of how much is missing."""
    whole = str(text)
    if len(whole) <= max_chars:
        return whole
    return f"{whole[:max_chars].rstrip()}… ({len(whole) - max_chars:,} more characters)"


def plain(text: object, max_chars: int = 300) -> str:
    """Return a text without markup, such as for titles; odd characters are replaced by names."""
    return _ODD.sub(lambda odd: f"⟨{_name(odd[0])}⟩", cut(text, max_chars))


def visible(text: object, max_chars: int = 20_000) -> Markup:
    """Return a text as isolated markup: escaped, with odd characters replaced by names."""
    return Markup(f"<bdi>{named(cut(text, max_chars))}</bdi>")  # noqa: S704 - escaped


def breakable(text: object, max_chars: int = 20_000) -> Markup:
    """Return a key, name or path as `visible` does; lines may break after its separators."""
    parts = _AFTER_SEPARATOR.split(cut(text, max_chars))
    return Markup(f"<bdi>{Markup('<wbr>').join(map(named, parts))}</bdi>")  # noqa: S704 - escaped


def named(text: str) -> Markup:
    """Return a text as markup: escaped, with odd characters replaced by names."""
    if _ODD.search(text) is None:
        return escape(text)
    parts: list[str] = []
    end = 0
    for odd in _ODD.finditer(text):
        parts.append(str(escape(text[end : odd.start()])))
        parts.append(f'<span class="odd">{escape(_name(odd[0]))}</span>')
        end = odd.end()
    parts.append(str(escape(text[end:])))
    return Markup("".join(parts))  # noqa: S704 - every part was escaped


def coded(text: object, max_chars: int = 20_000) -> Markup:
    """Return a text as `visible` does, with the parts between backticks as code."""
    start, *pairs = _CODE.split(cut(text, max_chars))
    marked = [named(start)]
    for code, rest in zip(pairs[::2], pairs[1::2], strict=True):
        marked += [Markup("<code>"), named(code), Markup("</code>"), named(rest)]
    return Markup(f"<bdi>{Markup().join(marked)}</bdi>")  # noqa: S704 - escaped


def when(at: str | None) -> Markup:
    """Format a time as its age, with the exact time as a tooltip."""
    if not at:
        return Markup("never")
    exact = escape(at)
    words = escape(ago(at))
    return Markup(f'<time datetime="{exact}" title="{exact}">{words}</time>')  # noqa: S704 - escaped


def ago(at: str) -> str:
    """Format the time since or until a moment, in one unit."""
    try:
        then = datetime.fromisoformat(at)
    except ValueError:
        return at
    seconds = (datetime.now(UTC) - then).total_seconds()
    for size_s, name in _SECONDS:
        if abs(seconds) >= size_s:
            number = round(abs(seconds) / size_s)
            words = f"{number} {name}{'' if number == 1 else 's'}"
            return f"in {words}" if seconds < 0 else f"{words} ago"
    return "in a moment" if seconds < 0 else "just now"


def action(name: str) -> str:
    """Return the label of an audit record's action."""
    return ACTIONS.get(name, plain(name.replace("_", " "), 40))


def count(number: float | None) -> str:
    """Format a number with separators; a dash if there is none."""
    return "–" if number is None else f"{number:,.0f}"


def compact(number: float | None) -> str:
    """Format a number in few characters: 1.2k, 3.4M."""
    if number is None:
        return "–"
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= limit:
            return f"{number / limit:.3g}{unit}"
    return f"{number:.0f}"


def share(part: float) -> str:
    """Format a share in [0, 1] as a percentage; only all of it is 100 %, and only nothing 0 %."""
    for digits in range(3):
        text = f"{100 * part:.{digits}f}"
        if part in {0, 1} or float(text) not in {0, 100}:
            return f"{text} %"
    return "over 99.99 %" if part > 0.5 else "under 0.01 %"


def duration(ms: float | None) -> str:
    """Format milliseconds in a suitable unit."""
    if ms is None:
        return "–"
    if ms < 0.05:  # would be rounded to nothing
        return "<0.1 ms"
    if ms >= 10_000:
        return f"{ms / 1000:,.0f} s"
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms:.0f} ms" if ms >= 10 else f"{ms:.1f} ms"


def size(number: float | None) -> str:
    """Format bytes in a suitable unit."""
    if number is None:
        return "–"
    for limit, unit in ((2**20, "MB"), (2**10, "kB")):
        if number >= limit:
            return f"{number / limit:,.1f} {unit}"
    return f"{number:.0f} B"


def _name(char: str) -> str:
    name = unicodedata.name(char, "")
    return f"U+{ord(char):04X}{' ' + name.lower() if name else ''}"
