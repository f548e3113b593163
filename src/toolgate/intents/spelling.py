"""Find words that differ by one typing error."""

from collections.abc import Iterable, Sequence

# Letters (chosen).
LEAST_LETTERS = 5
"""Shorter words are too similar to other words."""


def is_near(word: str, expected: str) -> bool:
    """Whether `word` is `expected` with at most one letter wrong, missing, doubled or swapped."""
    if word == expected:
        return True
    shorter, longer = (word, expected) if len(word) <= len(expected) else (expected, word)
    if len(longer) - len(shorter) > 1 or len(expected) < LEAST_LETTERS:
        return False
    at = 0
    while at < len(shorter) and shorter[at] == longer[at]:
        at += 1
    if len(shorter) < len(longer):
        return shorter[at:] == longer[at + 1 :]
    if shorter[at + 1 :] == longer[at + 1 :]:
        return True
    swapped = shorter[at : at + 2] == longer[at : at + 2][::-1]
    return swapped and shorter[at + 2 :] == longer[at + 2 :]


def nearest_word(word: str, candidates: Iterable[str]) -> str | None:
    """Return the only candidate that `word` is near to; None if there is none, or more than one."""
    matches: Sequence[str] = [candidate for candidate in candidates if is_near(word, candidate)]
    if word in matches:
        return word
    return matches[0] if len(set(matches)) == 1 else None
