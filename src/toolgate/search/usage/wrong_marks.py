"""Tools that callers marked wrong: each caller's own marks, and what several callers agree on.

A tool that one caller marked wrong would otherwise fall behind tools that fit worse, for everybody
in the project.
"""

from collections import OrderedDict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolgate.search.relevance.usage_votes import UsageWeights

_REQUESTS = 1_000
"""Most requests with marks in memory, those marked last; chosen."""


class _Mark(NamedTuple):
    """How wrong a caller found a tool for a request, at a time; 0 or less: not wrong."""

    value: float
    at_s: float


class WrongMarks:
    """The wrong marks of one project, for one model."""

    def __init__(self, dim: int, *, half_life_s: float) -> None:
        self._dim = dim
        self._half_life_s = half_life_s
        self._marks: OrderedDict[bytes, dict[tuple[str, str], _Mark]] = OrderedDict()
        """Marks by tool and caller, by vector of the request."""
        self._callers: set[str] = set()

    def __len__(self) -> int:
        return len(self._marks)

    def has(self, caller_id: str) -> bool:
        """Return whether a caller has made marks, so that its answers may differ from others'."""
        return caller_id in self._callers

    def add(self, vector: bytes, key: str, caller_id: str, signal: float, at_s: float) -> None:
        """Add the outcome of a tool for a request; a positive signal takes a mark back."""
        length = float(np.linalg.norm(np.frombuffer(vector, "<f2").astype(np.float32)))
        # A vector of another model, or one that half precision flattened or overflowed.
        if len(vector) != 2 * self._dim or not 0.1 < length < np.inf:
            return
        if signal < 0:
            self._callers.add(caller_id)
        elif (key, caller_id) not in self._marks.get(vector, {}):
            return
        marks = self._marks.setdefault(vector, {})
        old = marks.get((key, caller_id), _Mark(0.0, at_s))
        last = max(old.at_s, at_s)
        value = self._faded(old, last) - self._faded(_Mark(signal, at_s), last)
        marks[key, caller_id] = _Mark(max(0.0, value), last)
        self._marks.move_to_end(vector)
        if len(self._marks) > _REQUESTS:
            self._marks.popitem(last=False)

    def votes_against(
        self, vector: NDArray[np.float32], weights: UsageWeights, now_s: float, caller_id: str
    ) -> dict[str, float]:
        """Return how wrong tools are for a request of a caller, in (0, 1], by key.

        The caller's own marks count, and those on which two callers agree.
        """
        if len(vector) != self._dim:
            return {}
        rows = np.frombuffer(b"".join(self._marks), "<f2").astype(np.float32)
        cosines = rows.reshape(-1, self._dim) @ vector
        trusts = (cosines - weights.trust_from) / (weights.trust_full - weights.trust_from)
        by_tool: dict[str, dict[str, float]] = {}
        for trust, marks in zip(np.clip(trusts, 0, 1).tolist(), self._marks.values(), strict=True):
            for (key, marker), mark in marks.items() if trust else ():
                share = trust * min(1.0, self._faded(mark, now_s))
                by_caller = by_tool.setdefault(key, {})
                by_caller[marker] = max(by_caller.get(marker, 0.0), share)
        against = {
            key: max(by_caller.get(caller_id, 0.0), *sorted(by_caller.values())[-2:-1], 0.0)
            for key, by_caller in by_tool.items()
        }
        return {key: share for key, share in against.items() if share > 0}

    def _faded(self, mark: _Mark, now_s: float) -> float:
        return mark.value * 0.5 ** (max(0.0, now_s - mark.at_s) / self._half_life_s)
