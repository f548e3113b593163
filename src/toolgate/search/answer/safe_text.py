"""Sanitizes texts of servers for display: data stays data, and cannot pose as anything else."""

import re
import unicodedata
from functools import lru_cache

_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_].*?(?:\x1b\\|\x07|$)|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]",
    re.DOTALL,
)
"""Terminal escape sequences: colors, cursor, titles, links."""

_JOINERS = "\u200c\u200d"
"""Invisible, but part of the spelling of Persian, of Indic scripts and of emoji."""

_READ_CHARS = 5_000
"""Most characters of a description that are read; chosen."""
_SHORT = 100
"""Most characters of a text that is likely to be shown again; chosen."""
_BLANKS = re.compile(r"\s+")
_SECTION = re.compile(
    r"(?:^|(?<=[\n.!?:;]))[ \t]{0,12}(?:#{1,6} ?|\*\*)?"
    r"(?:args|arguments|parameters|params|returns?|raises|examples?|usage)(?:\*\*)? ?:(?=\s|$)",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[.!?](?=[\s)\"'\]]|$)|[。！？…]")


def clean(text: str) -> str:
    """Return one line of visible characters, without control, escape and direction characters."""
    if text.isprintable():  # no white space but blanks, then
        return " ".join(text.split()) if "  " in text else text.strip()
    return _cleaned(text) if len(text) <= _SHORT else _cleaned.__wrapped__(text)


@lru_cache(maxsize=4_096)
def _cleaned(text: str) -> str:
    """Clean a short text; cached, since names are shown repeatedly."""
    flat = _BLANKS.sub(" ", text).strip()
    if flat.isprintable():
        return flat
    # Escape sequences are rare, so only text that is not printable is searched for them.
    text = _ESCAPE.sub("", text)
    visible = "".join(
        letter
        if letter.isprintable() or letter in _JOINERS
        else " "
        if letter.isspace() or unicodedata.category(letter) == "Cc"
        else ""
        for letter in text
    )
    return _BLANKS.sub(" ", visible).strip()


def summary(description: str) -> str:
    """Remove the lists of parameters and results, which the signature shows already."""
    text = description[:_READ_CHARS]
    for section in _SECTION.finditer(text):
        # A description that begins with such a heading would otherwise become empty.
        if text[: section.start()].strip():
            text = text[: section.start()]
            break
    return clean(text)


def cut(text: str, max_chars: int) -> str:
    """Return the first sentences within `max_chars` characters; a longer first one ends in `…`."""
    if len(text) <= max_chars:
        return text
    return _cut(text, max_chars) if max_chars >= 2 else ""


@lru_cache(maxsize=1_024)
def _cut(text: str, max_chars: int) -> str:
    """Cut a longer text; cached, since the same descriptions are cut repeatedly."""
    ends = [match.end() for match in _SENTENCE.finditer(text, 0, max_chars + 1)]
    # A sentence of less than 16 characters is often an abbreviation such as `e.g.`; chosen.
    if ends and (whole := [end for end in ends if end <= max_chars]) and whole[-1] >= 16:
        return text[: whole[-1]]
    short = text[: max_chars - 1]
    # Cut between words unless that loses half the text, as in scripts without spaces.
    blank = short.rfind(" ")
    return f"{short[:blank] if blank > max_chars // 2 else short}…"
