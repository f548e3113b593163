"""Words that differ by a typing error."""

from collections.abc import Iterable, Sequence

__all__ = ["is_near", "nearest"]

LEAST_LETTERS = 5
"""Shorter words have too many neighbours that mean something else."""


def is_near(word: str, known: str) -> bool:
    """Whether `word` is `known` with at most one letter wrong, missing, doubled or swapped."""
    if word == known:
        return True
    shorter, longer = (word, known) if len(word) <= len(known) else (known, word)
    if len(longer) - len(shorter) > 1 or len(known) < LEAST_LETTERS:
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


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The only one of `known` that `word` is near to; None where there is none, or a choice."""
    found: Sequence[str] = [each for each in known if is_near(word, each)]
    if word in found:
        return word
    return found[0] if len(set(found)) == 1 else None
