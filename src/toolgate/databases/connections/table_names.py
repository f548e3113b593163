"""Table names as people write them: singular, with spaces."""

import re

__all__ = ["said_as", "singular", "words_of"]


def words_of(name: str) -> list[str]:
    """The words that a name is made of, in lower case: of `orderItems` as of `order_items`."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return [word for word in re.split(r"[\W_]+", split.casefold()) if word]


def singular(word: str) -> str:
    """A word without the ending of an English plural; rough, for both sides of a comparison."""
    if len(word) > 3 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 4 and word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    if len(word) > 2 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def said_as(name: str) -> tuple[str, ...]:
    """Other ways to say the name of a table: `order items` and `order item` for `order_items`."""
    *first, last = words_of(name) or [name]
    said = (" ".join([*first, last]), " ".join([*first, singular(last)]))
    return tuple(dict.fromkeys(item for item in said if item != name))
