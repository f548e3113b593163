"""Splits a request into steps by rules: at sentences, lines and words such as "then"."""

import re

from toolgate.search.lexical.stop_words import stop_words_of

_CUT = re.compile(
    r"(?=[\s。！？；,atfn])"  # what any of these begins with: elsewhere only this is looked at
    r"(?:(?<=[.!?;])\s+|[\r\n]+|[。！？；]+"
    r"|\b(?:and then|after that|then|finally|next|as well as|also)\b[, ]*|,\s+and\s+)",
    re.IGNORECASE,
)
_HINTS = ("then", "after that", "finally", "next", "as well as", "also", "\n", "\r")
"""One of these is in every ASCII text that `_CUT` splits, except at a sentence or at `, and`."""
_SHORTEST = 3
"""Fewest words of a clause; chosen."""
_FOREIGN = 0.5
"""Share that a model for English reads of other languages in Latin letters: common words, and
noise. The highest of 0.75, 0.5, 0.35 and 0.2 that is never worse than words alone
(tests/search/test_languages.py); requests over English tools gain equally with each of them."""


def clauses_of(text: str, limit: int) -> list[str]:
    """Return at most `limit` clauses of a request; empty if there are fewer than two."""
    if not _may_have_several(text):
        return []
    parts = (part.strip(" ,.;:-\t") for part in _CUT.split(text))
    clauses = [part for part in parts if len(part.split()) >= _SHORTEST][:limit]
    return clauses if len(clauses) > 1 else []


def _may_have_several(text: str) -> bool:
    """Return whether a text may have several clauses; much faster than splitting it."""
    if not text.isascii():
        return True
    plain = text.lower()
    return (
        any(map(plain.__contains__, _HINTS))
        or any(map(plain[:-1].__contains__, ".!?;"))
        or ("," in plain and "and" in plain)
    )


def readable_share(text: str) -> float:
    """Return how well a model for English can read a text, in [0, 1].

    This is the share of Latin letters, halved if the language is not English.
    """
    share = 1.0
    if not text.isascii():
        letters = [letter for letter in text if letter.isalpha()]
        share = sum(map(_is_latin, letters)) / len(letters) if letters else 1.0
    return share * _FOREIGN if share and stop_words_of(text) else share


def _is_latin(letter: str) -> bool:
    return letter < "\u0250" or "\u1e00" <= letter < "\u1f00"  # the second has most of Vietnamese
