"""Fold texts to lower case without accents, with offsets back to the original."""

import unicodedata
from collections.abc import Sequence

_APOSTROPHES = "\u2018\u2019\u02bc\uff07"
_HYPHENS = "\u2010\u2011\u2212\uff0d"
_DASHES = "\u2012\u2014\u2015"


class _Letters(dict[str, str]):
    """Maps a character to lower case without accent: one character, or none for a mark."""

    def __missing__(self, letter: str) -> str:
        lower = letter.lower()
        plain = unicodedata.normalize("NFD", lower)[:1]
        if unicodedata.combining(letter):
            plain = ""
        elif not plain.isascii():
            plain = lower if len(lower) == 1 else letter
        if len(self) < 100_000:
            self[letter] = plain
        return plain


_LETTERS = _Letters()
_LETTERS.update(dict.fromkeys(_APOSTROPHES, "'"))
_LETTERS.update(dict.fromkeys(_HYPHENS, "-"))
_LETTERS.update(dict.fromkeys(_DASHES, "\u2013"))


class Folded:
    """A text in lower case without accents, with offsets back to the original."""

    __slots__ = ("_offsets", "source", "text")

    def __init__(self, source: str, text: str, offsets: Sequence[int] | None) -> None:
        self.source = source
        self.text = text
        self._offsets = offsets

    def start(self, at: int) -> int:
        """Return where the character at `at` begins in the source."""
        return at if self._offsets is None else self._offsets[at]

    def end(self, at: int) -> int:
        """Return where the piece that ends before `at` ends in the source, including its marks."""
        return at if self._offsets is None else self._offsets[at]


def fold(source: str) -> Folded:
    """Fold a text: lower case, no accents, one kind of apostrophe and hyphen."""
    if source.isascii():
        return Folded(source, source.lower(), None)
    letters = list(map(_LETTERS.__getitem__, source))
    text = "".join(letters)
    if len(text) == len(source):
        return Folded(source, text, None)
    offsets = [at for at, letter in enumerate(letters) if letter]
    offsets.append(len(source))
    return Folded(source, text, offsets)


def lowered(source: str) -> str:
    """Lowercase, trim and compose (NFC) a text, so that equal letters are equal."""
    if not source.isascii() and not unicodedata.is_normalized("NFC", source):
        source = unicodedata.normalize("NFC", source)
    return source.lower().strip()
