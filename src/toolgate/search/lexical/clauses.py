"""The steps of a request, by rules: sentences, lines and words such as "then" part them."""

import re

from toolgate.search.lexical.stop_words import stop_words_of

__all__ = ["clauses_of", "readable_share"]

_CUT = re.compile(
    r"(?=[\s。！？；,atfn])"  # what any of these begins with: elsewhere only this is looked at
    r"(?:(?<=[.!?;])\s+|[\r\n]+|[。！？；]+"
    r"|\b(?:and then|after that|then|finally|next|as well as|also)\b[, ]*|,\s+and\s+)",
    re.IGNORECASE,
)
_HINTS = ("then", "after that", "finally", "next", "as well as", "also", "\n", "\r")
"""What a text of plain letters has where `_CUT` finds anything but a sentence or `, and`."""
_SHORTEST = 3
"""Words of a clause; chosen."""
_FOREIGN = 0.5
"""What a model for English makes of other languages in Latin letters: words that they share, and
noise. Of 0.75, 0.5, 0.35 and 0.2 the highest that loses nothing to words alone
(tests/search/test_languages.py); requests over English tools gain as much with each of them."""


def clauses_of(text: str, limit: int) -> list[str]:
    """The clauses of a request, at most `limit`; none where there are fewer than two."""
    if not _may_have_several(text):
        return []
    parts = (part.strip(" ,.;:-\t") for part in _CUT.split(text))
    clauses = [part for part in parts if len(part.split()) >= _SHORTEST][:limit]
    return clauses if len(clauses) > 1 else []


def _may_have_several(text: str) -> bool:
    """Whether it is worth looking where to cut: a fraction of the time of looking."""
    if not text.isascii():
        return True
    plain = text.lower()
    return (
        any(map(plain.__contains__, _HINTS))
        or any(map(plain[:-1].__contains__, ".!?;"))
        or ("," in plain and "and" in plain)
    )


def readable_share(text: str) -> float:
    """How far a model for English can read a text, in [0, 1].

    The share of its letters that are Latin; half of that where the language is another one.
    """
    share = 1.0
    if not text.isascii():
        letters = [letter for letter in text if letter.isalpha()]
        share = sum(map(_is_latin, letters)) / len(letters) if letters else 1.0
    return share * _FOREIGN if share and stop_words_of(text) else share


def _is_latin(letter: str) -> bool:
    return letter < "\u0250" or "\u1e00" <= letter < "\u1f00"  # the second has most of Vietnamese
