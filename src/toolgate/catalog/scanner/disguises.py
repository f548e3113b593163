"""Text that people overlook and models read: leetspeak, spaced letters, marks inside words."""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

from toolgate.catalog.scanner.normalize import MAX_CHARS

_APART: Final = re.compile(r"(?<!\w)(?:[^\W\d_][ \u00a0.·*_-]{1,4}){4,}[^\W\d_](?!\w)")
"""Five or more spaced letters, each a word of its own."""

_MOST_APART: Final = 10
"""Number of spaced letters that no honest text has: `a b c d` and initials are shorter (chosen;
none of 9,000 real tools has as many)."""

_FEWEST_DIFFERENT: Final = 5
"""Different letters that words of this length have; rulers and patterns have fewer (chosen)."""

_BETWEEN: Final = re.compile(r"[ \u00a0.·*_-]+")

_APART_BY_ANYTHING: Final = re.compile(
    r"(?<![^\W_])(?:[^\W_][^A-Za-z0-9\n]{1,4}){4,}[^\W_](?![^\W_])"
)
"""The same with digits, and any characters in between, such as emoji; matches honest lists, too."""
_ANY_BETWEEN: Final = re.compile(r"[\W_]+")

_APART_BY_LINES: Final = re.compile(r"(?<!\S)(?:\S[ \t]*\n[ \t\n]{0,9}){8,}+(?:\S(?!\S))?")
"""Nine or more lines of a single letter."""
_WORD_PER_LINE: Final = re.compile(r"(?:^|(?<=\n))(?:\S{1,30}[ \t]*\n){5,}\S{1,30}")
"""Six or more lines of a single word."""

_MARKED: Final = re.compile(r"[^\W_][*`~'’^]+[^\W_]")
_MARKS: Final = re.compile(r"[*`~'’^]+")
_RUN_TOGETHER: Final = re.compile(r"(?<![A-Za-z])[A-Za-z][a-z]+(?:_?[A-Z][a-z]+|_[a-z]+){3,}")
"""Four or more words without spaces: `Ignore_all_previous`, `IgnoreAllPrevious`."""
_SEAM: Final = re.compile(r"_|(?<=[a-z])(?=[A-Z])")
_JOINED_WORDS: Final = re.compile(r"(?<!\S)[\w'’~/]+(?:[+.~|,;:=_-]+[\w'’~/]+){5,}")
"""Six or more words with a mark in place of each blank: `Ignore+all+previous`."""
_JOINTS: Final = re.compile(r"(?<=\w)[+~|,;:=_-]+|(?<=\w)\.(?=\w)")

_IN_WORD_MARKUP: Final = re.compile(
    r"(?:</?[A-Za-z]{1,10}\s{0,3}/?>|<!--[^<>]{0,20}-->){1,4}(?=[^\W_]|\s<)"
)
"""Tags and comments that a browser does not show, where a word goes on."""

_TURNED: Final = str.maketrans("ɐqɔpǝɟƃɥᴉɾʞlɯuodbɹʇnʌʍʎ", "abcdefghijklmnopqrtuvwy")
"""Letters that look like others upside down."""
_TURNED_HINT: Final = re.compile("[ɐɔǝɟƃɥᴉɾʞɯɹʇʌʍʎ]")
_FEWEST_TURNED: Final = 4
"""Different turned letters of a text that is upside down; phonetics have fewer (chosen)."""

_MAX_ESCAPES: Final = 3
"""Percent-encodings inside each other that are resolved (chosen)."""
_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]{2}")

_LEET_WORD: Final = re.compile(r"(?<![\w@$])[\w@$!|]{2,20}(?![\w@$])")
_LEET_HINT: Final = re.compile(r"[A-Za-z][013457@$!|]+[A-Za-z]")
_LEET: Final = str.maketrans({"0": "o", "3": "e", "4": "a", "5": "s", "7": "t", "@": "a", "$": "s"})
_ONE_AS_I: Final = str.maketrans({"1": "i", "!": "i", "|": "i"})
_ONE_AS_L: Final = str.maketrans({"1": "l", "!": "l", "|": "l"})
_FEWEST_LEET: Final = 2
"""Number of words with digits, escapes or markup inside from which they may be a disguise; a single
`sha1` is not."""


def has_letters_set_apart(text: str) -> bool:
    """Whether a text spells words out letter by letter, as no honest one does."""
    for run in _APART.finditer(text[:MAX_CHARS]):
        letters = _BETWEEN.sub("", run[0])
        if len(letters) >= _MOST_APART and len(set(letters)) >= _FEWEST_DIFFERENT:
            return True
    return False


def undisguised_texts(text: str) -> Iterator[tuple[str, str]]:
    """Yield what a model may read in a text, as `(description of the disguise, text)`.

    Yields nothing for a text without a disguise. Honest texts have web addresses with `%20` and
    names like `s3`, so a disguise alone means nothing: what counts is the text without it.
    """
    part = text[:MAX_CHARS]
    if "%" in part and len(_ESCAPE.findall(part)) >= _FEWEST_LEET:
        plain = part
        for _ in range(_MAX_ESCAPES):
            plain = unquote(plain)
        yield "in percent-encoding", plain
    if len(_IN_WORD_MARKUP.findall(part)) >= _FEWEST_LEET:
        part = _IN_WORD_MARKUP.sub("", part)
        yield "with markup inside words", part
    if _APART_BY_ANYTHING.search(part):
        part = _APART_BY_ANYTHING.sub(_joined, part)
        yield "in spaced letters", part
    if _APART_BY_LINES.search(part):
        yield "in lines of a letter", _APART_BY_LINES.sub(_joined, part)
    if _WORD_PER_LINE.search(part):
        lines = _WORD_PER_LINE.sub(lambda match: match[0].replace("\n", " "), part)
        yield "in lines of a word", lines
    if len(set(_TURNED_HINT.findall(part))) >= _FEWEST_TURNED:
        yield "upside down", part.translate(_TURNED)
        yield "upside down", part.translate(_TURNED)[::-1]
    if _JOINED_WORDS.search(part):
        spaced = _JOINED_WORDS.sub(lambda match: _JOINTS.sub(" ", match[0]), part)
        yield "with marks in place of blanks", spaced
    if len(_MARKED.findall(part)) >= _FEWEST_LEET:
        yield "with marks inside words", _MARKS.sub("", part)
    if _RUN_TOGETHER.search(part):
        yield "without blanks", _RUN_TOGETHER.sub(lambda match: _SEAM.sub(" ", match[0]), part)
    if _LEET_HINT.search(part):
        words = [match[0] for match in _LEET_WORD.finditer(part) if _is_leet(match[0])]
        if len(words) >= _FEWEST_LEET:
            for ones in (_ONE_AS_I, _ONE_AS_L):
                plain = _LEET_WORD.sub(lambda match, ones=ones: _plain_word(match[0], ones), part)
                yield "with digits in place of letters", plain


def _joined(match: re.Match[str]) -> str:
    """Remove the separators of spaced letters; the longest ones become spaces."""
    shortest = min(len(between) for between in _ANY_BETWEEN.findall(match[0]) or [""])
    return _ANY_BETWEEN.sub(lambda between: " " if len(between[0]) > shortest else "", match[0])


def _is_leet(word: str) -> bool:
    return bool(_LEET_HINT.search(word)) or (
        any(char.isalpha() for char in word) and any(char in "013457@$" for char in word)
    )


def _plain_word(word: str, ones: dict[int, str]) -> str:
    if not any(char.isalpha() for char in word):
        return word
    # Twice, a one is an L: `a11`. A single one may be an I or an L: `ma1n`, `ema1l`.
    doubled = re.sub(r"[1!|]{2,}", lambda match: "l" * len(match[0]), word)
    return doubled.translate(_LEET).translate(ones)
