"""Relevance: how likely a tool helps, fitted on labelled requests by `training/calibrate.py`.

Two logistic models. The first is about a hit: how near it is to the request, how far behind the
best one, at which rank, and how many others are as near. The second is about a request: whether
its best hit is near enough that anything fits at all; a request of few words comes near to
something by chance, so it has to come nearer.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["COMPETITORS", "Calibration", "Evidence", "crowd_of", "read_calibration"]

_FILE = Path(__file__).with_name("_relevance.json")
_MOST = 0.99
_LEAST = 0.0001
_HALF = 0.1
_WORDS_CUT = 0.02
COMPETITORS = 30
"""Best tools that are compared with each other."""
_HEAT = 15.0
"""Of the crowd: a tool that is 0.07 further away counts a third."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What speaks for a hit."""

    cosine: float | None
    """Best cosine of the request or one of its clauses; None without a vector."""

    covered: float
    """Best share of the words of the request or one of its clauses, in [0, 1)."""

    gap: float = 0.0
    """How far its score is behind the best one, in [0, 1]."""

    rank: int = 0
    """Its place, 0 is the best."""

    crowd: float = 0.0
    """How many tools are about as near, from `crowd_of`."""

    words: int = 0
    """Words of the request that say something."""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Two logistic models for the bundled embedder; the weights are of the file."""

    bias: float
    cosine: float
    gap: float
    rank: float
    crowd: float
    cut: float
    """Cosine that the best hit of a request without words would need to fit."""
    cut_covered: float
    """How much of that the square root of `covered` takes away."""
    cut_words: float
    """How much of that the logarithm of 1 + `words` takes away."""

    def relevance(self, evidence: Evidence) -> float:
        """Probability in (0, 1) that the tool helps; without a cosine a guess from its words."""
        if evidence.cosine is None:
            guess = evidence.covered * (1 + _HALF) / (evidence.covered + _HALF)
            return min(_MOST, max(_LEAST, guess))
        logit = (
            self.bias
            + self.cosine * evidence.cosine
            + self.gap * evidence.gap
            + self.rank * math.log1p(evidence.rank)
            + self.crowd * evidence.crowd
        )
        return min(_MOST, max(_LEAST, 1 / (1 + math.exp(-logit))))

    def margin(self, evidence: Evidence) -> float:
        """How far the best hit is above the line of "nothing fits"; negative when below it.

        A cosine; without one a share of words.
        """
        if evidence.cosine is None:
            return evidence.covered - _WORDS_CUT
        line = (
            self.cut
            - self.cut_covered * math.sqrt(evidence.covered)
            - self.cut_words * math.log1p(evidence.words)
        )
        return evidence.cosine - line


def crowd_of(cosines: Sequence[float]) -> float:
    """Logarithm of how many of the best tools are about as near as the nearest; 0 for one."""
    if not cosines:
        return 0.0
    nearest = max(cosines)
    return math.log(sum(math.exp(_HEAT * (each - nearest)) for each in cosines))


def read_calibration(path: Path = _FILE) -> Calibration:
    """The fitted weights that come with the package."""
    found = json.loads(path.read_text(encoding="utf-8"))
    return Calibration(**{name: found[name] for name in Calibration.__dataclass_fields__})
