"""Cache of answers to recent requests: the same words, the same tools, the same rights.

The cache key has everything that an answer depends on: the state of the index (a version of the
catalog and its vectors), the texts, the options, the mask with each of its entries, and what was
learned from use so far. A change of any of them is a cache miss.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import replace
from time import monotonic

import numpy as np

from toolgate.search.base import SearchAnswer, SearchRequest


class AnswerCache:
    """The latest answers of one search."""

    def __init__(
        self, *, max_entries: int, ttl_s: float, clock: Callable[[], float] = monotonic
    ) -> None:
        """Create a cache of `max_entries` answers, each valid for `ttl_s` seconds."""
        self._max_entries = max_entries
        self._ttl_s = ttl_s
        self._clock = clock
        self._state: object = None
        self._answers: OrderedDict[Hashable, tuple[float, SearchAnswer]] = OrderedDict()

    def key_of(self, request: SearchRequest) -> Hashable | None:
        """Return what an answer depends on besides the index; None if it must not be cached."""
        learned = request.learned
        # Without learned usage nothing changes between two searches. Learned usage that has no
        # version cannot be compared, so its answers are not cached.
        version = 0 if learned is None else getattr(learned, "version", None)
        if version is None or not self._max_entries:
            return None
        mask = request.mask
        return (
            tuple(map(_plain, request.queries)),
            " ".join(request.context.split()),
            request.limit,
            request.servers,
            request.threshold,
            request.project_id,
            request.recent,
            tuple(sorted(request.priors.items())),
            version,
            # A digest in place of the mask, which has one byte per tool. The length is part of the
            # key, because packing pads the bits.
            None
            if mask is None
            else (len(mask), hashlib.blake2b(np.packbits(mask).tobytes(), digest_size=16).digest()),
        )

    def get(self, state: object, key: Hashable | None) -> SearchAnswer | None:
        """Return the cached answer for this state of the index; None if there is none."""
        # Compared by identity: an index creates a new state object for each change.
        if key is None or state is not self._state:
            return None
        entry = self._answers.get(key)
        if entry is None or self._clock() >= entry[0]:
            return None
        self._answers.move_to_end(key)
        return entry[1]

    def put(self, state: object, key: Hashable | None, answer: SearchAnswer) -> None:
        """Cache an answer; drop answers of other states."""
        if key is None:
            return
        if state is not self._state:
            self._state = state
            self._answers.clear()
        # The duration is that of the original search; an answer from the cache gets its own.
        self._answers[key] = self._clock() + self._ttl_s, replace(answer, duration_ms=0.0)
        self._answers.move_to_end(key)
        while len(self._answers) > self._max_entries:
            self._answers.popitem(last=False)


def _plain(query: str) -> str:
    """Collapse the white space of a query; line breaks separate its steps and stay."""
    if "\n" not in query and "\r" not in query:
        return " ".join(query.split())
    lines = (" ".join(line.split()) for line in query.replace("\r", "\n").split("\n"))
    return "\n".join(filter(None, lines))
