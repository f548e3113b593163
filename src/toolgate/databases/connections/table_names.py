"""Table names as people write them: singular, with spaces."""

import re
from difflib import SequenceMatcher
from typing import Final

_ALIKE: Final = 0.6
"""Share of equal letters, in order, from which a name may be a changed form of another (chosen)."""


def words_of(name: str) -> list[str]:
    """The words of a name in lower case, for `orderItems` as for `order_items`."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return [word for word in re.split(r"[\W_]+", split.casefold()) if word]


def singular(word: str) -> str:
    """A word without English plural ending; approximate, for both sides of a comparison."""
    if len(word) > 3 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 4 and word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    if len(word) > 2 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def said_as(name: str) -> tuple[str, ...]:
    """Other forms of a table name: `order items` and `order item` for `order_items`."""
    *first, last = words_of(name) or [name]
    said = (" ".join([*first, last]), " ".join([*first, singular(last)]))
    return tuple(dict.fromkeys(item for item in said if item != name))


def is_alike(left: str, right: str) -> bool:
    """Whether one name may be a changed form of the other."""
    left, right = left.rpartition(".")[2].casefold(), right.rpartition(".")[2].casefold()
    if set(_long_words(left)) & set(_long_words(right)):
        return True
    return left in right or right in left or SequenceMatcher(None, left, right).ratio() >= _ALIKE


def _long_words(name: str) -> list[str]:
    return [word for word in re.split(r"[\W_]+", name) if len(word) > 2]
