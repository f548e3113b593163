"""Converts a text to what a model reads, whatever hides it.

A model reads letters of other alphabets that look like Latin ones, letters with something
invisible in between, and entities. Rules are written for plain text, so text is normalized first,
and what had to be removed is reported: hiding text is a finding in itself.
"""

import html
import re
import unicodedata
from functools import lru_cache
from typing import Final

MAX_CHARS: Final = 200_000
"""Characters of a text that are read; definitions of real tools have less than a tenth of it."""

_MAX_ESCAPES: Final = 3
"""Entities inside entities that are resolved: `&amp;#73;` (chosen)."""

_NO_CHARACTER: Final = re.compile(r"&#[0-9]{8,}")
"""Entities beyond Unicode; Python cannot even read the longest ones."""

_LOOK_ALIKE: Final = str.maketrans(
    {
        **dict(zip("АВЕЅІЈКМНОРСТУХЗҮԌԚԜ", "ABESIJKMHOPCTYX3YGQW", strict=True)),
        **dict(zip("аеѕіјорсухһԁԛԝѵкмнтвгпч", "aesijopcyxhdqwvkmhtbrn4", strict=True)),
        **dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABEZHIKMNOPTYX", strict=True)),
        **dict(zip("αεικνορτυχγωηζ", "aeikvoptuxywnz", strict=True)),
        **dict(zip("ıɩɡɑƅցօսհոռ", "iigabgouhnn", strict=True)),
    }
)
"""Cyrillic, Greek and Armenian letters that look like Latin ones, a selection from the table of
https://www.unicode.org/reports/tr39/#Confusable_Detection."""

_SMALL_CAPITALS: Final = str.maketrans("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnoprstuvwyz")
_ENCLOSED: Final = {
    begin + at: letter
    for begin in (0x1F150, 0x1F170)
    for at, letter in enumerate("abcdefghijklmnopqrstuvwxyz")
} | {0x2800: " "}
"""White letters on black, for which NFKC has no letter; the blank of Braille."""
_REGIONAL: Final = re.compile("[\U0001f1e6-\U0001f1ff]{3,}")
"""Letters of flags; a flag has two of them."""
_OVERLAYS: Final = re.compile("[\u0300-\u036f\u20d0-\u20f0]")
"""Combining marks for which NFKC has no letter, as in struck-through text."""

_SAME_SHAPE: Final = str.maketrans({"0": "o", "1": "l", "i": "l", "5": "s", "|": "l", "$": "s"})
"""Further characters that look alike in names, but not in sentences."""

_INVISIBLE: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_BIDI: Final = re.compile("[\u202a-\u202e\u2066-\u2069]")
_TAGS: Final = re.compile("[\U000e0020-\U000e007e]")
_MORE_SELECTORS: Final = re.compile("[\U000e0100-\U000e01ef]")
_ZERO_WIDTH: Final = re.compile(
    "[\u200b\u2060-\u2064\u206a-\u206f\u180e\ufeff\u115f\u1160\u3164\uffa0]"
)
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_PRIVATE: Final = re.compile("[\ue000-\uf8ff\U000f0000-\U0010fffd]")
_JOINED_LATIN: Final = re.compile("[A-Za-z][\u200c\u200d\u00ad][A-Za-z]")
_FLAG: Final = re.compile("\U0001f3f4[\U000e0061-\U000e007a\U000e0030-\U000e0039]{2,6}\U000e007f")
_GAP: Final = re.compile(r"(?:[ \t\u00a0\u2000-\u200a\u3000]{120,}|(?:[^\S\n]*\n){25,})")
_MIXED_WORD: Final = re.compile(r"[^\W\d_]{2,}")


@lru_cache(maxsize=256)
def normalize(text: str) -> str:
    """Return a text as a model reads it: Latin letters, nothing invisible, single spaces."""
    seen = _NO_CHARACTER.sub("", text[:MAX_CHARS])
    for _ in range(_MAX_ESCAPES):
        if "&" in seen:
            seen = html.unescape(seen)
    seen = _tags_read(seen)
    seen = _INVISIBLE.sub("", unicodedata.normalize("NFKC", seen))
    seen = _OVERLAYS.sub("", seen).translate(_SMALL_CAPITALS)
    seen = _REGIONAL.sub(_regional_letters, seen.translate(_ENCLOSED))
    seen = _CONTROL.sub(lambda match: " " if match[0] in "\x0b\x0c\x85" else "", seen)
    seen = _MIXED_WORD.sub(_latin_word, seen)
    return re.sub(r"[^\S\n]+", " ", seen)


def hidden_kinds(text: str) -> list[str]:
    """Return descriptions of how a text hides something; empty if it does not."""
    part = _FLAG.sub("", text[:MAX_CHARS])
    kinds: list[str] = []
    if _TAGS.search(part):
        kinds.append("invisible characters (Unicode tags)")
    if _MORE_SELECTORS.search(part):
        kinds.append("data hidden in variation selectors")
    if _BIDI.search(part):
        kinds.append("bidirectional control characters")
    if _ZERO_WIDTH.search(part.removeprefix("\ufeff")) or _JOINED_LATIN.search(part):
        kinds.append("zero-width characters")
    if _CONTROL.search(part):
        kinds.append("control characters")
    if _PRIVATE.search(part):
        kinds.append("private-use characters")
    if (gap := _GAP.search(part)) and part[gap.end() :].strip():
        kinds.append("text hidden after a large blank space")
    mixed = next((m[0] for m in _MIXED_WORD.finditer(part) if _mixes(m[0])), None)
    if mixed is not None:
        kinds.append(f"letters of another alphabet in the word {mixed[:40]!r}")
    return kinds


def skeleton(name: str) -> str:
    """Return a name without invisible differences, so that names that look alike are equal."""
    seen = _INVISIBLE.sub("", unicodedata.normalize("NFKC", name)).translate(_LOOK_ALIKE)
    folded = "".join(
        char
        for char in unicodedata.normalize("NFKD", seen.casefold())
        if char.isalnum() or char in "|$"
    )
    return folded.translate(_SAME_SHAPE).replace("rn", "m").replace("vv", "w")


def _regional_letters(match: re.Match[str]) -> str:
    return "".join(chr(ord(char) - 0x1F1E6 + ord("a")) for char in match[0])


def _latin_word(match: re.Match[str]) -> str:
    """Replace look-alike letters in a word that mixes Latin and other letters."""
    word = match[0]
    return word.translate(_LOOK_ALIKE) if _mixes(word) or _fakes(word) else word


def _mixes(word: str) -> bool:
    if word.isascii():
        return False
    latin = any(char.isascii() for char in word)
    # Scientific units and symbols (µm, Ωm, Δt, λ1) mix Greek and Latin, but are short.
    return latin and len(word) > 2 and any(char in _FAKES for char in word)


def _fakes(word: str) -> bool:
    """Whether every letter of a word is a look-alike: `сору` in Cyrillic."""
    return not word.isascii() and len(word) > 3 and word.translate(_LOOK_ALIKE).isascii()


_FAKES: Final = frozenset(chr(code) for code in _LOOK_ALIKE) - {"ı"}
"""Letters that do not occur in words with Latin ones; Turkish has one that does."""


def _tags_read(text: str) -> str:
    """Replace tag characters by the letters that models read."""
    return _TAGS.sub(lambda match: chr(ord(match[0]) - 0xE0000), text)
