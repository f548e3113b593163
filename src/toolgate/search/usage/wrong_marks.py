"""Tools that callers marked wrong: each caller's own marks, and what several callers agree on.

A tool that one caller marked wrong would otherwise fall behind tools that fit worse, for everybody
in the project.
"""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolgate.search.relevance.usage_votes import UsageWeights

_MARKS = 1_000
"""Most marks in memory, those made last. Chosen: a search compares its request with those of all
marks, which takes 1 ms for as many, and they take 1 MB."""
_FULL = 2.0
"""Largest value of a mark, that of one rating: rating a tool right once takes it back."""


class _MarkedTool(NamedTuple):
    """A tool that a caller marked wrong for a request."""

    vector: bytes
    """Vector of the request, float16, little-endian."""
    key: str
    """The tool."""
    caller_id: str


class _Mark(NamedTuple):
    """How wrong a caller found a tool for a request, at a time."""

    value: float
    at_s: float


class WrongMarks:
    """The wrong marks of one project, for one model.

    Belongs to one event loop; a search in another thread sees a previous state.
    """

    def __init__(self, dim: int, *, half_life_s: float) -> None:
        self._dim = dim
        self._half_life_s = half_life_s
        self._marks: dict[_MarkedTool, _Mark] = {}
        """Those made last are at the end; none has the value 0."""

    def requests(self) -> Collection[bytes]:
        """Return the vectors of the requests with marks."""
        return {marked.vector for marked in self._marks}

    def has(self, caller_id: str) -> bool:
        """Return whether a caller has marks, so that its answers may differ from others'."""
        return any(marked.caller_id == caller_id for marked in self._marks)

    def add(self, vector: bytes, key: str, caller_id: str, signal: float, at_s: float) -> None:
        """Add the outcome of a tool for a request; a positive signal takes a mark back."""
        length = float(np.linalg.norm(np.frombuffer(vector, "<f2").astype(np.float32)))
        # A vector of another model, or one that half precision flattened or overflowed.
        if len(vector) != 2 * self._dim or not 0.1 < length < np.inf:
            return
        marked = _MarkedTool(vector, key, caller_id)
        old = self._marks.pop(marked, _Mark(0.0, at_s))
        last = max(old.at_s, at_s)
        value = self._faded(old, last) - self._faded(_Mark(signal, at_s), last)
        if value > 0:
            self._marks[marked] = _Mark(min(_FULL, value), last)
            if len(self._marks) > _MARKS:
                del self._marks[next(iter(self._marks))]

    def votes_against(
        self, vector: NDArray[np.float32], weights: UsageWeights, now_s: float, caller_id: str
    ) -> dict[str, float]:
        """Return how wrong tools are for a request of a caller, in (0, 1], by key.

        The caller's own marks count, and those on which two callers agree.
        """
        # Copied, since marks may be added while a search runs in another thread.
        marks = list(self._marks.items())
        if not marks or len(vector) != self._dim:
            return {}
        rows = np.frombuffer(b"".join(marked.vector for marked, _ in marks), "<f2")
        cosines = rows.astype(np.float32).reshape(-1, self._dim) @ vector
        trusts = (cosines - weights.trust_from) / (weights.trust_full - weights.trust_from)
        by_tool: dict[str, dict[str, float]] = {}
        for (marked, mark), trust in zip(marks, np.clip(trusts, 0, 1).tolist(), strict=True):
            if trust:
                share = trust * min(1.0, self._faded(mark, now_s))
                by_caller = by_tool.setdefault(marked.key, {})
                by_caller[marked.caller_id] = max(by_caller.get(marked.caller_id, 0.0), share)
        against = {
            key: max(by_caller.get(caller_id, 0.0), *sorted(by_caller.values())[-2:-1], 0.0)
            for key, by_caller in by_tool.items()
        }
        return {key: share for key, share in against.items() if share > 0}

    def _faded(self, mark: _Mark, now_s: float) -> float:
        return mark.value * 0.5 ** (max(0.0, now_s - mark.at_s) / self._half_life_s)
