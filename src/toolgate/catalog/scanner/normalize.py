"""Converts a text to what a model reads, whatever hides it.

A model reads letters of other alphabets that look like Latin ones, letters with something
invisible in between, entities and Base64. Rules are written for plain text, so text is
normalized first, and what had to be removed is reported: hiding text is a finding in itself.
"""

import base64
import binascii
import html
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

__all__ = ["MAX_CHARS", "decoded_parts", "hidden_kinds", "normalize", "skeleton"]

MAX_CHARS: Final = 200_000
"""Characters of a text that are read; definitions of real tools have less than a tenth of it."""

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
_GAP: Final = re.compile(r"(?:[ \t\u00a0\u2000-\u200a\u3000]{120,}|(?:\s*\n){25,})")
_MIXED_WORD: Final = re.compile(r"[^\W\d_]{2,}")

_BASE64: Final = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/_-]{24,}={0,2}")
_HEX: Final = re.compile(r"(?<![0-9A-Fa-f])(?:[0-9A-Fa-f]{2}[ :]?){16,}")
_ESCAPES: Final = re.compile(
    r"(?:\\u00[0-9a-fA-F]{2}|\\x[0-9a-fA-F]{2}|&#x?[0-9a-fA-F]+;|%[0-9A-Fa-f]{2}){8,}"
)
# Share of letters and spaces from which decoded bytes count as text (chosen).
_READABLE: Final = 0.85
_ROT13: Final = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "nopqrstuvwxyzabcdefghijklmNOPQRSTUVWXYZABCDEFGHIJKLM",
)

_TURNED: Final = tuple(
    word.translate(_ROT13) for word in ("ignore", "disregard", "instructions", "password", "secret")
)
_TURNED_OFTEN: Final = re.compile(
    r"\b(?:"
    + "|".join(
        word.translate(_ROT13)
        for word in ("the", "and", "this", "that", "with", "from", "user", "before", "tool", "last")
    )
    + r")\b"
)
"""Words of any English sentence in ROT13; only encoded text has three of them."""

_BACKWARDS: Final = tuple(
    word[::-1] for word in ("instructions", "previous", "disregard", "passwords", "conversation")
)


@lru_cache(maxsize=256)
def normalize(text: str) -> str:
    """Return a text as a model reads it: Latin letters, nothing invisible, single spaces."""
    seen = _tags_read(html.unescape(text[:MAX_CHARS]))
    seen = _INVISIBLE.sub("", unicodedata.normalize("NFKC", seen))
    seen = _OVERLAYS.sub("", seen).translate(_SMALL_CAPITALS)
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


def decoded_parts(text: str) -> Iterator[tuple[str, str]]:
    """Yield readable text that is encoded in a text, as `(encoding, text)`."""
    part = text[:MAX_CHARS]
    for match in _BASE64.finditer(part):
        raw = match[0].rstrip("=").replace("-", "+").replace("_", "/")
        try:
            content = base64.b64decode(raw + "=" * (-len(raw) % 4))
        except (binascii.Error, ValueError):
            continue
        if decoded := _readable(content):
            yield "Base64", decoded
    for match in _HEX.finditer(part):
        if decoded := _readable(bytes.fromhex(re.sub(r"[ :]", "", match[0]))):
            yield "hexadecimal", decoded
    for match in _ESCAPES.finditer(part):
        decoded = html.unescape(unquote(match[0]))
        decoded = re.sub(r"\\(?:u00|x)([0-9a-fA-F]{2})", lambda m: chr(int(m[1], 16)), decoded)
        if _readable(decoded.encode(errors="replace")):
            yield "escape sequences", decoded
    lowered = part.lower()
    if any(word in lowered for word in _TURNED) or len(set(_TURNED_OFTEN.findall(lowered))) >= 3:
        yield "ROT13", part.translate(_ROT13)
    if any(word in lowered for word in _BACKWARDS):
        yield "reversed text", part[::-1]


def skeleton(name: str) -> str:
    """Return a name without invisible differences, so that names that look alike are equal."""
    seen = _INVISIBLE.sub("", unicodedata.normalize("NFKC", name)).translate(_LOOK_ALIKE)
    folded = "".join(
        char
        for char in unicodedata.normalize("NFKD", seen.casefold())
        if char.isalnum() or char in "|$"
    )
    return folded.translate(_SAME_SHAPE).replace("rn", "m").replace("vv", "w")


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


def _readable(content: bytes) -> str:
    """Return bytes as text, if they are words and not a key, a picture or a hash."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    words = re.findall(r"[A-Za-z]{2,}", text)
    letters = sum(char.isalpha() or char.isspace() for char in text)
    return text if len(words) >= 3 and letters >= _READABLE * len(text) else ""
