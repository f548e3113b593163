"""The steps of a request, by rules: sentences, lines and words such as "then" part them."""

import re

__all__ = ["clauses_of", "readable_share"]

_CUT = re.compile(
    r"(?<=[.!?;])\s+|[\r\n]+|[。！？；]+"
    r"|\b(?:and then|after that|then|finally|next|as well as|also)\b[, ]*|,\s+and\s+",
    re.IGNORECASE,
)
_SHORTEST = 3
"""Words of a clause."""


def clauses_of(text: str, most: int) -> list[str]:
    """The clauses of a request, at most `most`; none where there are fewer than two."""
    parts = (part.strip(" ,.;:-\t") for part in _CUT.split(text))
    found = [part for part in parts if len(part.split()) >= _SHORTEST][:most]
    return found if len(found) > 1 else []


def readable_share(text: str) -> float:
    """Share of a text's letters that a model for Latin script can read, in [0, 1]."""
    if text.isascii():
        return 1.0
    letters = [letter for letter in text if letter.isalpha()]
    return sum(letter < "\u0250" for letter in letters) / len(letters) if letters else 1.0
