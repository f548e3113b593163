"""Suggests existing tool keys for one that does not exist."""

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from functools import lru_cache
from heapq import nlargest
from itertools import pairwise

__all__ = ["nearest"]

_LOOKED_AT = 32
_LEAST = 0.5
_LONGEST = 200
_BITS = 256
_SEPARATORS = re.compile(r"[\W_]+")


def nearest(key: str, keys: Iterable[str], *, most: int = 3) -> list[str]:
    """Up to `most` of `keys`, the nearest first; none that is hardly alike.

    Case and separators do not count (`GitHub__createIssue` is `github:create_issue`), and a bare
    name is compared with bare names.

    Args:
        key: What was asked for; any text.
        keys: Keys `server:tool`, or exposed names, that this caller may see.
        most: How many.
    """
    wanted = _plain(key[:_LONGEST])
    if not wanted:
        return []
    grams = _grams(wanted)
    close = nlargest(_LOOKED_AT, ((_overlap(grams, known), known) for known in keys))
    scored = [(_likeness(wanted, known), known) for _, known in close]
    best = sorted((pair for pair in scored if pair[0] >= _LEAST), key=lambda p: (-p[0], p[1]))
    return [known for _, known in best[:most]]


def _plain(text: str) -> str:
    return _SEPARATORS.sub("", text.casefold())


def _overlap(wanted: int, known: str) -> float:
    whole, name = _both_grams(known)
    return max(
        (wanted & whole).bit_count() / (wanted | whole).bit_count(),
        (wanted & name).bit_count() / (wanted | name).bit_count(),
    )


def _likeness(wanted: str, known: str) -> float:
    """How alike, in [0, 1]; equal names come before equal keys of another spelling."""
    whole, name = _plain(known), _plain(_name(known))
    if wanted == whole:
        return 1.0
    return max(
        SequenceMatcher(None, wanted, whole, autojunk=False).ratio(),
        0.98 * SequenceMatcher(None, wanted, name, autojunk=False).ratio(),
    )


@lru_cache(maxsize=16_384)
def _both_grams(known: str) -> tuple[int, int]:
    """Letter pairs of the key and of the bare name, as bits: quick to compare with thousands."""
    whole = known[:_LONGEST]
    return _grams(_plain(whole)), _grams(_plain(_name(whole)))


def _name(known: str) -> str:
    """The tool's own name in `server:tool` or `server__tool`."""
    return known.partition(":")[2] or known.partition("__")[2]


def _grams(plain: str) -> int:
    padded = f"^{plain}$"
    bits = 0
    for pair in pairwise(padded):
        bits |= 1 << (ord(pair[0]) * 31 + ord(pair[1])) % _BITS
    return bits
