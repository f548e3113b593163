"""The cutoff below which an answer says that nothing fits, adjusted by usage.

Calibration sets the same cutoff for everybody. It should be lower for a caller whose weak hits
turn out right, and higher for one who marks good-looking hits as wrong. It moves within fixed
bounds, rises only after several marks, and returns to the calibrated value without new marks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

LOWEST, HIGHEST = -0.08, 0.04
"""Bounds of the adjustment, as a cosine; chosen."""

_STEP = 0.01
"""Step of the adjustment, as a cosine; chosen."""
_MISSED = 5.0
"""Cost of a fitting tool below the cutoff; a wrong tool above it costs 1; chosen."""

_STAY = 1.0
"""Cost of each step away from the calibrated cutoff, in wrong tools; chosen."""


class JudgedSearch(NamedTuple):
    """A search whose answer is known to have fitted or not."""

    margin: float
    """Distance of its best tool above the calibrated cutoff, as a cosine; negative below it."""

    fitted: bool
    """Whether one of its tools ran successfully or was marked right; otherwise its best one was
    marked wrong."""

    model: str
    """Identity of the embedder that gave the vectors."""

    weight: float = 1.0
    """How much it counts when it is new, in [0, 1]."""

    at_s: float = 0.0
    """Time of the judgement, in seconds since 1970."""


@dataclass(frozen=True)
class PersonalCutoff:
    """The cutoff of one caller in one project."""

    judged: Sequence[JudgedSearch] = ()
    """The judged searches of the caller."""

    now_s: float = 0.0
    """The current time, in seconds since 1970."""

    half_life_s: float = math.inf
    """Seconds after which a judgement counts half."""

    def shift(self, model: str) -> float:
        """Return the shift from the calibrated cutoff, between `LOWEST` and `HIGHEST`."""
        # Margins of different embedders are on different scales.
        searches = [search for search in self.judged if search.model == model]
        if not searches:
            return 0.0
        steps = range(round(LOWEST / _STEP), round(HIGHEST / _STEP) + 1)
        fitted = np.array([search.fitted for search in searches], np.bool_)
        margins = np.array([search.margin for search in searches], np.float64)
        weights = np.array([search.weight for search in searches], np.float64)
        ages_s = self.now_s - np.array([search.at_s for search in searches], np.float64)
        weights *= 0.5 ** (np.maximum(ages_s, 0.0) / self.half_life_s)
        weights[fitted] *= _MISSED
        lines = np.array([step * _STEP for step in steps], np.float64)
        is_wrong = (margins < lines[:, np.newaxis]) == fitted
        distances = np.abs(np.array(steps)) * _STAY
        costs = dict(zip(steps, is_wrong @ weights + distances, strict=True))
        # Of equally cheap cutoffs, the one nearest to the calibrated cutoff; rounding hides
        # floating-point noise.
        return round(min(steps, key=lambda step: (round(costs[step], 6), abs(step))) * _STEP, 2)
