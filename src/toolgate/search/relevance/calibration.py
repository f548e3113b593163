"""Relevance: how likely a tool helps, fitted on labelled requests by `training/calibrate.py`.

Two logistic models. The first is about a hit: how near it is to the request in meaning and words,
how far behind the best one, and how many others are as good. The second is about a request: whether
its best hit is near enough that anything fits at all: nearer than what tools do in general. A
request of few words comes near to something by chance, so it has to come nearer, or to find its
words; and among more tools one is nearer by chance.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

__all__ = [
    "COMPETITORS",
    "NAMED",
    "Calibration",
    "Evidence",
    "Fit",
    "FitModel",
    "best_fit",
    "brevity",
    "chance",
    "hit_evidence",
    "read_calibration",
    "request_evidence",
    "rivals_of",
    "shortness",
]

_FILE = Path(__file__).with_name("calibration.json")
_MOST = 0.99
"""The highest probability: nothing but an exact name is certain; chosen."""
_LEAST = 0.0001
"""The lowest probability; chosen."""
_HALF = 0.1
"""Share of words at which relevance is 0.55 where there is no cosine; chosen."""
_WORDS_CUT = 0.02
"""Share of words below which nothing fits, without a cosine; chosen."""
COMPETITORS = 30
"""Best tools that are compared with each other; chosen."""
NAMED = 3
"""Best tools whose names say whether anything fits a request; chosen."""
_RIVAL_HEAT = 4.0
"""A tool whose score is 0.27 less than the best counts a third; chosen."""
_USUAL_GAP = 0.6
"""How far the score of a tool that has nothing to do with the request is behind the best. It stands
for the tools that a small catalog lacks: among three tools, one is the best by far for any request;
chosen.
"""
_SHORT_WORDS = 5.0
"""With so many words more that say something, a request is a third as short; chosen."""
_BRIEF_WORDS = 5.0
"""With so many words more of any kind, a request is a third as brief; chosen."""
_BRIEFEST = 5
"""Words of the briefest request; a single one that a tool has may well be enough; chosen."""


class Evidence(NamedTuple):
    """What speaks for a hit; a tuple, since each search makes one for every hit."""

    cosine: float | None
    """Best cosine of the request or one of its clauses; None without a vector."""

    covered: float
    """Best share of the words of the request or one of its clauses, in [0, 1)."""

    gap: float = 0.0
    """How far its score is behind the best one, in [0, 1]."""

    rivals: float = 0.0
    """How many tools have about the score of the best, from `rivals_of`."""

    word_share: float = 0.0
    """Share of what the request's words say that the tool has, in [0, 1]."""

    words: int = 0
    """Words of the request that say something."""

    n_words: int = 0
    """All its words."""

    behind: float = 0.0
    """How far its cosine is behind the nearest one, in [0, 2]."""

    tools: int = 0
    """How many tools were searched."""

    ahead: float | None = None
    """How much nearer the nearest tool is than what tools do in general; None: nobody knows."""

    named: float = 0.0
    """Share of what the request's words say that the tool's name says, in these words or others for
    the same thing, in [0, 1]."""

    name_share: float = 0.0
    """Share of what the tool's name says that the request says likewise, in [0, 1]."""

    best_named: float = 0.0
    """The highest `named` of the best hits."""

    best_name_share: float = 0.0
    """The highest `name_share` of the best hits."""

    highest: float = 0.0
    """The highest cosine of all hits."""

    own: float = 0.0
    """Cosine of the best hit to the request as it is, not moved towards typical requests."""

    most_covered: float = 0.0
    """The highest `covered` of the best hits."""

    @property
    def telling(self) -> float:
        """Share of the request's words that say something, in [0, 1]."""
        return self.words / max(1, self.words, self.n_words)


Fit = Literal["good", "unsure", "none"]
"""Whether anything fits a request: something does, perhaps, nothing."""


def best_fit(fits: Iterable[Fit]) -> Fit:
    """The best of several; `none` of none."""
    given = frozenset(fits)
    for fit in _FITS:
        if fit in given:
            return fit
    return "none"


_FITS: Final[tuple[Fit, ...]] = ("good", "unsure", "none")


@dataclass(frozen=True, kw_only=True)
class FitModel:
    """How likely it is that anything fits a request: a logistic model."""

    weights: Mapping[str, float]
    """By the names of `request_evidence`."""
    none_below: float
    """Logit below which nothing fits a long request."""
    none_brief: float
    """What each unit of `brevity` adds to that."""
    none_brief_tools: float
    """What each unit of `brevity` adds to it for each unit of `chance` between these two."""
    least_chance: float
    """`chance` of the smallest catalog that phrases were fitted on."""
    most_chance: float
    """The same of the largest."""
    good_from: float
    """Logit from which something does."""

    def margin(self, evidence: Evidence) -> float:
        """How far the request is above the line of "nothing fits", as a cosine."""
        return (self.logit(evidence) - self._line(evidence)) / self._per_cosine

    def sure_margin(self, evidence: Evidence) -> float:
        """The margin from which something surely fits the request."""
        return max(0.0, self.good_from - self._line(evidence)) / self._per_cosine

    def logit(self, evidence: Evidence) -> float:
        """How likely something fits."""
        known = request_evidence(evidence)
        return sum(weight * known[name] for name, weight in self.weights.items())

    def _line(self, evidence: Evidence) -> float:
        # Among many tools one is near a short request by chance.
        size = min(self.most_chance, max(self.least_chance, chance(evidence.tools)))
        brief = self.none_brief + self.none_brief_tools * size
        return self.none_below + brief * brevity(evidence.n_words)

    @property
    def _per_cosine(self) -> float:
        # What a tool gains that is nearer by one: `own` moves along with the cosine.
        return sum(self.weights.get(name, 0.0) for name in ("cosine", "ahead", "own"))


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Two logistic models for the bundled embedder; the weights are of the file."""

    hits: Mapping[str, float]
    """Weights of what `hit_evidence` gives."""
    fit: FitModel
    """Whether anything fits."""
    fit_alone: FitModel
    """The same where nobody knows how far ahead of other texts the nearest tool is."""

    def relevance(self, evidence: Evidence) -> float:
        """Probability in (0, 1) that the tool helps; without a cosine a guess from its words."""
        if evidence.cosine is None:
            # A hyperbola: steep at the start, since a few rare words already say much.
            guess = evidence.covered * (1 + _HALF) / (evidence.covered + _HALF)
            return min(_MOST, max(_LEAST, guess))
        known = hit_evidence(evidence, self._fit_model(evidence).logit(evidence))
        logit = sum(weight * known[name] for name, weight in self.hits.items())
        return min(_MOST, max(_LEAST, 1 / (1 + math.exp(-logit))))

    def margin(self, evidence: Evidence) -> float:
        """How far the best hit is above the line of "nothing fits"; negative when below it.

        A cosine; without one a share of words.
        """
        if evidence.cosine is None:
            return evidence.covered - _WORDS_CUT
        return self._fit_model(evidence).margin(evidence)

    def fit_of(self, evidence: Evidence, shift: float) -> Fit:
        """Whether anything fits; `shift` moves both lines, as a cosine."""
        margin = self.margin(evidence) - shift
        if margin < 0:
            return "none"
        if evidence.cosine is None:
            return "good"
        return "good" if margin >= self._fit_model(evidence).sure_margin(evidence) else "unsure"

    def _fit_model(self, evidence: Evidence) -> FitModel:
        return self.fit_alone if evidence.ahead is None else self.fit


def hit_evidence(evidence: Evidence, fit: float) -> dict[str, float]:
    """What the relevance of a hit is computed from, by name.

    Args:
        evidence: What speaks for it.
        fit: How likely anything fits the request, as a logit.
    """
    cosine = evidence.cosine or 0.0
    short = shortness(evidence.words)
    return {
        "bias": 1.0,
        "cosine": cosine,
        "cosine_squared": cosine**2,
        "behind": evidence.behind,
        "gap": evidence.gap,
        "rivals": evidence.rivals,
        "covered": math.sqrt(evidence.covered),
        "named": evidence.named,
        "name_share": evidence.name_share,
        "short": short,
        "short_named": short * evidence.named,
        "short_name_share": short * evidence.name_share,
        "telling": evidence.telling,
        "fit": fit,
        "no_fit": min(0.0, fit),
    }


def request_evidence(evidence: Evidence) -> dict[str, float]:
    """What is known of a request and its best hits, by name."""
    short = shortness(evidence.words)
    return {
        "bias": 1.0,
        "cosine": evidence.highest,
        "ahead": evidence.ahead or 0.0,
        "own": evidence.own,
        "covered": evidence.most_covered,
        "word_share": evidence.word_share,
        "named": evidence.best_named,
        "name_share": evidence.best_name_share,
        "short": short,
        "short_named": short * evidence.best_named,
        "short_name_share": short * evidence.best_name_share,
        "brief": brevity(evidence.n_words),
        "chance": chance(evidence.tools),
    }


def rivals_of(scores: Sequence[float]) -> float:
    """Logarithm of how many of the best tools have about the highest score; 0 for one."""
    if not scores:
        return 0.0
    # A soft count: each score counts exp(-heat * its distance from the highest). The logarithm
    # keeps a catalog with hundreds of similar tools from outweighing all other evidence.
    highest = max(scores)
    there = sum(map(math.exp, [_RIVAL_HEAT * (score - highest) for score in scores]))
    lacking = max(0, COMPETITORS - len(scores)) * math.exp(-_RIVAL_HEAT * _USUAL_GAP)
    return math.log(there + lacking)


def shortness(words: int) -> float:
    """How short a request is that has so many telling words: 1 for none, near 0 for twenty."""
    return math.exp(-words / _SHORT_WORDS)


def brevity(n_words: int) -> float:
    """How brief a request of so many words is: 0.37 for up to five, near 0 for twenty."""
    return math.exp(-max(_BRIEFEST, n_words) / _BRIEF_WORDS)


def chance(tools: int) -> float:
    """How far the best of so many is above the mean by chance, in standard deviations."""
    # The highest of n independent normal values is expected at about sqrt(2 ln n).
    return math.sqrt(2 * math.log(max(1, tools)))


def read_calibration(path: Path = _FILE) -> Calibration:
    """The fitted weights that come with the package."""
    fitted = json.loads(path.read_text(encoding="utf-8"))
    return Calibration(
        hits=fitted["hits"],
        fit=FitModel(**fitted["fit"]),
        fit_alone=FitModel(**fitted["fit_alone"]),
    )
