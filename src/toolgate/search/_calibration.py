"""Relevance: how likely a tool helps, fitted on labelled requests by `training/calibrate.py`."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Calibration", "Evidence", "read_calibration"]

_FILE = Path(__file__).with_name("_relevance.json")
_MOST = 0.99
_LEAST = 0.0001


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What speaks for a tool."""

    cosine: float | None
    """Best cosine of the request or one of its clauses; None without a vector."""

    covered: float
    """Best share of the words of the request or one of its clauses, in [0, 1)."""

    place: float
    """Its score as a share of the best possible, in [0, 1]."""

    words: int
    """Words of the request that say something."""


@dataclass(frozen=True)
class Calibration:
    """A logistic model of relevance, one for hits with a cosine and one for those without."""

    vectors: Mapping[str, float]
    """Weights where there is a cosine."""

    by_words: Mapping[str, float]
    """Weights where there is none."""

    cut: float
    """Below this relevance the best hit does not fit."""

    def relevance(self, evidence: Evidence) -> float:
        """Probability in (0, 1) that the tool helps."""
        weights = self.by_words if evidence.cosine is None else self.vectors
        total = (
            weights["bias"]
            + weights.get("cosine", 0.0) * (evidence.cosine or 0.0)
            + weights["covered"] * evidence.covered
            + weights["place"] * evidence.place
            + weights["words"] * math.log1p(evidence.words)
        )
        return min(_MOST, max(_LEAST, 1 / (1 + math.exp(-total))))


def read_calibration(path: Path = _FILE) -> Calibration:
    """The fitted weights that come with the package."""
    found = json.loads(path.read_text(encoding="utf-8"))
    return Calibration(found["vectors"], found["words"], found["cut"])
