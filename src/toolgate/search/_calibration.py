"""Relevance: how likely a tool helps, fitted on labelled requests by `training/calibrate.py`.

Two logistic models. The first is about a hit: how near it is to the request in meaning and words,
how far behind the best one, and how many others are as good. The second is about a request: whether
its best hit is near enough that anything fits at all. A request of few words comes near to
something by chance, so it has to come nearer, or to find its words; and where many tools are as
near as the best, the best is less likely to be the one.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "COMPETITORS",
    "Calibration",
    "Evidence",
    "crowd_of",
    "read_calibration",
    "rivals_of",
    "shortness",
]

_FILE = Path(__file__).with_name("_relevance.json")
_MOST = 0.99
_LEAST = 0.0001
_HALF = 0.1
_WORDS_CUT = 0.02
COMPETITORS = 30
"""Best tools that are compared with each other."""
_CROWD_HEAT = 15.0
"""A tool whose cosine is 0.07 less than the best counts a third."""
_RIVAL_HEAT = 4.0
"""A tool whose score is 0.27 less than the best counts a third."""
_USUAL_COSINE = 0.15
"""What a tool often has that has nothing to do with the request."""
_USUAL_GAP = 0.6
"""How far its score is behind the best. Both stand for the tools that a small catalog lacks: among
three tools, one is the best by far for any request."""
_SHORT_WORDS = 5.0
"""With so many words more, a request is a third as short."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What speaks for a hit."""

    cosine: float | None
    """Best cosine of the request or one of its clauses; None without a vector."""

    covered: float
    """Best share of the words of the request or one of its clauses, in [0, 1)."""

    gap: float = 0.0
    """How far its score is behind the best one, in [0, 1]."""

    crowd: float = 0.0
    """How many tools are about as near in meaning as the best, from `crowd_of`."""

    rivals: float = 0.0
    """How many tools have about the score of the best, from `rivals_of`."""

    found: float = 0.0
    """Share of what the request's words say that the tool has, in [0, 1]."""

    words: int = 0
    """Words of the request that say something."""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Two logistic models for the bundled embedder; the weights are of the file."""

    bias: float
    cosine: float
    gap: float
    rivals: float
    covered: float
    """Of the square root of it."""
    short: float
    cut: float
    """Cosine that the best hit of a long request needs to fit, when no other is as near."""
    cut_short: float
    """How much more one needs that is as short as can be."""
    cut_found: float
    """How much of that is taken back where the tool has all of its words."""
    cut_crowd: float
    """How much more each unit of `crowd` needs."""

    def relevance(self, evidence: Evidence) -> float:
        """Probability in (0, 1) that the tool helps; without a cosine a guess from its words."""
        if evidence.cosine is None:
            guess = evidence.covered * (1 + _HALF) / (evidence.covered + _HALF)
            return min(_MOST, max(_LEAST, guess))
        logit = (
            self.bias
            + self.cosine * evidence.cosine
            + self.gap * evidence.gap
            + self.rivals * evidence.rivals
            + self.covered * math.sqrt(evidence.covered)
            + self.short * shortness(evidence.words)
        )
        return min(_MOST, max(_LEAST, 1 / (1 + math.exp(-logit))))

    def margin(self, evidence: Evidence) -> float:
        """How far the best hit is above the line of "nothing fits"; negative when below it.

        A cosine; without one a share of words.
        """
        if evidence.cosine is None:
            return evidence.covered - _WORDS_CUT
        short = shortness(evidence.words)
        line = (
            self.cut
            + (self.cut_short - self.cut_found * evidence.found) * short
            + self.cut_crowd * evidence.crowd
        )
        return evidence.cosine - line


def crowd_of(cosines: Sequence[float]) -> float:
    """Logarithm of how many of the best tools are about as near as the nearest; 0 for one."""
    highest = max(cosines, default=0.0)
    return _about_as(cosines, _CROWD_HEAT, min(highest, _USUAL_COSINE))


def rivals_of(scores: Sequence[float]) -> float:
    """Logarithm of how many of the best tools have about the highest score; 0 for one."""
    return _about_as(scores, _RIVAL_HEAT, max(scores, default=0.0) - _USUAL_GAP)


def shortness(words: int) -> float:
    """How short a request of so many words is: 1 for none, near 0 for twenty."""
    return math.exp(-words / _SHORT_WORDS)


def _about_as(values: Sequence[float], heat: float, usual: float) -> float:
    if not values:
        return 0.0
    highest = max(values)
    there = sum(map(math.exp, [heat * (each - highest) for each in values]))
    lacking = max(0, COMPETITORS - len(values)) * math.exp(heat * (usual - highest))
    return math.log(there + lacking)


def read_calibration(path: Path = _FILE) -> Calibration:
    """The fitted weights that come with the package."""
    found = json.loads(path.read_text(encoding="utf-8"))
    return Calibration(**{name: found[name] for name in Calibration.__dataclass_fields__})
