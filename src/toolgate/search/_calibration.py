"""Relevance: how likely a tool helps, fitted on labelled requests by `training/calibrate.py`."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Calibration", "Evidence", "read_calibration"]

_FILE = Path(__file__).with_name("_relevance.json")
_MOST = 0.99
_LEAST = 0.0001
_HALF = 0.1
_WORDS = 0.1
_WORDS_CUT = 0.02


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What speaks for a tool."""

    cosine: float | None
    """Best cosine of the request or one of its clauses; None without a vector."""

    covered: float
    """Best share of the words of the request or one of its clauses, in [0, 1)."""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A logistic model of relevance for the bundled embedder."""

    bias: float
    """Of the model."""

    cosine: float
    """Weight of the cosine."""

    cut: float
    """Below this cosine the best hit does not fit."""

    def relevance(self, evidence: Evidence) -> float:
        """Probability in (0, 1) that the tool helps; without a cosine a guess from its words."""
        if evidence.cosine is None:
            guess = evidence.covered * (1 + _HALF) / (evidence.covered + _HALF)
            return min(_MOST, max(_LEAST, guess))
        by_meaning = 1 / (1 + math.exp(-self.bias - self.cosine * evidence.cosine))
        # Words tell apart what meaning puts near zero, and hardly change the rest.
        both = by_meaning + (1 - by_meaning) * _WORDS * evidence.covered
        return min(_MOST, max(_LEAST, both))

    def fits(self, evidence: Evidence) -> bool:
        """Whether the best hit is good enough to say nothing."""
        if evidence.cosine is None:
            return evidence.covered >= _WORDS_CUT
        return evidence.cosine >= self.cut


def read_calibration(path: Path = _FILE) -> Calibration:
    """The fitted weights that come with the package."""
    found = json.loads(path.read_text(encoding="utf-8"))
    return Calibration(**{name: found[name] for name in ("bias", "cosine", "cut")})
