"""The cutoff below which an answer says that nothing fits, moved by feedback from use.

Calibration draws the line for everybody. A person whose weak hits turn out right wants it lower,
one who marks good-looking hits wrong wants it higher. It moves within fixed bounds, it takes
several marks to raise it, and without news it goes back to where it was.
"""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["JudgedSearch", "PersonalCutoff"]

LOWEST, HIGHEST = -0.08, 0.04
"""How far the line may move, as a cosine; chosen."""

_STEP = 0.01
"""A cosine: how fine the cutoff moves; chosen."""
_MISSED = 5.0
"""What one fitting tool called weak costs, against one wrong tool that is not; chosen."""

_STAY = 1.0
"""What each step away from the calibrated line costs, in wrong tools; chosen."""


@dataclass(frozen=True)
class JudgedSearch:
    """A search of which it is known whether its answer fitted."""

    margin: float
    """How far its best tool was above the calibrated line, as a cosine; negative below it."""

    fitted: bool
    """A tool of it was executed with success or marked right; else its best one marked wrong."""

    weight: float
    """How much it counts today, in [0, 1]."""

    model: str
    """Identity of the embedder that gave the vectors."""


@dataclass(frozen=True)
class PersonalCutoff:
    """Where one person draws the line in one project."""

    judged: Sequence[JudgedSearch] = ()
    """What is known."""

    def shift(self, model: str) -> float:
        """How far the line moves from the calibrated one, between `LOWEST` and `HIGHEST`."""
        # Margins of different embedders are on different scales.
        searches = [search for search in self.judged if search.model == model]
        if not searches:
            return 0.0
        steps = range(round(LOWEST / _STEP), round(HIGHEST / _STEP) + 1)

        def cost(step: int) -> float:
            line = step * _STEP
            wrong = sum(
                search.weight * _MISSED if search.fitted else search.weight
                for search in searches
                if (search.margin < line) == search.fitted
            )
            return wrong + abs(step) * _STAY

        # Of equally cheap cutoffs the one nearest to the calibrated cutoff; rounding hides float
        # noise.
        return round(min(steps, key=lambda step: (round(cost(step), 6), abs(step))) * _STEP, 2)
