"""Suggests existing tool keys for one that does not exist."""

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from functools import lru_cache
from heapq import nlargest
from itertools import pairwise

_MAX_COMPARED = 32
"""Names compared letter by letter (chosen: bounds time)."""
_MIN_LIKENESS = 0.5
"""Similarity in [0, 1], where 1 is equal (chosen: below half, a name is not what was meant)."""
_MAX_CHARS = 200
"""Characters (chosen: above the longest names of tools)."""
_BITS = 256
"""Bits of a set of letter pairs (chosen: pairs that share a bit only add candidates)."""
_SEPARATORS = re.compile(r"[\W_]+")


def nearest(key: str, keys: Iterable[str], *, limit: int = 3) -> list[str]:
    """Return up to `limit` of `keys`, most similar first, without dissimilar ones.

    Case and separators are ignored (`GitHub__createIssue` is `github:create_issue`), and a bare
    name is compared with bare names.

    Args:
        key: The key that does not exist; any text.
        keys: Keys `server:tool`, or exposed names, that this caller may see.
        limit: Largest number of suggestions, at least 1.
    """
    requested = _plain(key[:_MAX_CHARS])
    if not requested:
        return []
    grams = _grams(requested)
    close = nlargest(_MAX_COMPARED, ((_overlap(grams, candidate), candidate) for candidate in keys))
    scored = [(_likeness(requested, candidate), candidate) for _, candidate in close]
    best = sorted(
        (pair for pair in scored if pair[0] >= _MIN_LIKENESS), key=lambda p: (-p[0], p[1])
    )
    return [candidate for _, candidate in best[:limit]]


def _plain(text: str) -> str:
    return _SEPARATORS.sub("", text.casefold())


def _overlap(requested: int, candidate: str) -> float:
    whole, name = _both_grams(candidate)
    return max(
        (requested & whole).bit_count() / (requested | whole).bit_count(),
        (requested & name).bit_count() / (requested | name).bit_count(),
    )


def _likeness(requested: str, candidate: str) -> float:
    """Similarity in [0, 1]; equal names rank before keys that are equal in another spelling."""
    whole, name = _plain(candidate), _plain(_name(candidate))
    if requested == whole:
        return 1.0
    return max(
        SequenceMatcher(None, requested, whole, autojunk=False).ratio(),
        0.98 * SequenceMatcher(None, requested, name, autojunk=False).ratio(),
    )


@lru_cache(maxsize=16_384)
def _both_grams(candidate: str) -> tuple[int, int]:
    """Letter pairs of the key and of the bare name as bits, fast to compare with thousands."""
    whole = candidate[:_MAX_CHARS]
    return _grams(_plain(whole)), _grams(_plain(_name(whole)))


def _name(candidate: str) -> str:
    """The tool's own name in `server:tool` or `server__tool`."""
    return candidate.partition(":")[2] or candidate.partition("__")[2]


def _grams(plain: str) -> int:
    padded = f"^{plain}$"
    bits = 0
    for pair in pairwise(padded):
        bits |= 1 << (ord(pair[0]) * 31 + ord(pair[1])) % _BITS
    return bits
