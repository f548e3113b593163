"""Relevance: how likely a tool helps, fitted on labelled requests by `training/calibrate.py`.

There are two logistic models. The first rates a hit: how similar it is to the request in meaning
and words, how far it is behind the best one, and how many others are as good. The second rates a
request: whether its best hit is so similar that anything fits, compared with what tools do in
general. A request of few words is similar to something by chance, so it needs more similarity or
a match of its words; and the more tools there are, the more similar the best one is by chance.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from toolgate.search.relevance.typical_requests import KindMatch

_FILE = Path(__file__).with_name("calibration.json")
_MOST = 0.99
"""The highest probability: only an exact name is certain; chosen."""
_LEAST = 0.0001
"""The lowest probability; chosen."""
_HALF = 0.1
"""Share of words for which relevance is 0.55 without a cosine; chosen."""
_WORDS_CUT = 0.02
"""Share of words below which nothing fits, without a cosine; chosen."""
COMPETITORS = 30
"""Number of best tools that are compared with each other; chosen."""
_RIVAL_HEAT = 4.0
"""Decay of a rival's weight: one with a score 0.27 below the best counts a third; chosen."""
_USUAL_GAP = 0.6
"""Assumed distance of an unrelated tool's score from the best. Such tools stand in for those
that a small catalog lacks: among three tools, one is by far the best for any request; chosen."""
_BEST_DECAY = 8.0
"""Decay of how much it says for a hit that something fits: one with a score 0.12 below the best
counts a third; chosen."""
_SHORT_WORDS = 5.0
"""Number of additional informative words that reduce the shortness of a request to a third;
chosen."""
_BRIEF_WORDS = 5.0
"""Number of additional words of any kind that reduce the brevity of a request to a third;
chosen."""
_BRIEFEST = 5
"""Number of words up to which brevity is the same; a single word that a tool has may be enough;
chosen."""


class Evidence(NamedTuple):
    """Evidence for a hit; a tuple for speed, since each search creates one per hit."""

    cosine: float | None
    """Highest cosine of the request or one of its clauses; None without a vector."""

    covered: float
    """Largest covered share of the words of the request or one of its clauses, in [0, 1)."""

    gap: float = 0.0
    """Distance of its score from the best one, in [0, 1]."""

    rivals: float = 0.0
    """How many tools have about the best score, from `rivals_of`."""

    word_share: float = 0.0
    """Share of the request's words that the tool has, weighted by information, in [0, 1]."""

    words: int = 0
    """Number of informative words of the request."""

    n_words: int = 0
    """Number of all words of the request."""

    behind: float = 0.0
    """Distance of its cosine from the highest one, in [0, 2]."""

    tools: int = 0
    """Number of tools that were searched."""

    ahead: float | None = None
    """Lead of the most similar tool over the background texts, as a cosine; None without these."""

    named: float = 0.0
    """Share of the request's words that the tool's name has, directly or as related words, in
    [0, 1]."""

    name_share: float = 0.0
    """Share of the tool's name that the request has, directly or as related words, in [0, 1]."""

    highest: float = 0.0
    """The highest cosine of all hits."""

    own: float = 0.0
    """Cosine of the best hit to the original request, not moved towards typical requests."""

    most_covered: float = 0.0
    """The highest `covered` of the best hits."""

    kinds: KindMatch | None = None
    """Whether the best tools are of the kinds that the request wants; None if that is unknown."""

    @property
    def telling(self) -> float:
        """Share of the request's words that are informative, in [0, 1]."""
        return self.words / max(1, self.words, self.n_words)


Fit = Literal["good", "unsure", "none"]
"""Whether anything fits a request: yes, perhaps, no."""


def best_fit(fits: Iterable[Fit]) -> Fit:
    """Return the best of several fits; `none` if there are none."""
    given = frozenset(fits)
    for fit in _FITS:
        if fit in given:
            return fit
    return "none"


_FITS: Final[tuple[Fit, ...]] = ("good", "unsure", "none")


class Judgement(NamedTuple):
    """What the evidence for a hit says."""

    relevance: float
    """Probability in (0, 1) that the tool helps; without a cosine, a guess."""
    margin: float
    """Its distance above the cutoff for "nothing fits", negative below it: as a cosine; without
    one, as a share of words."""


@dataclass(frozen=True, kw_only=True)
class FitModel:
    """A logistic model of how likely anything fits a request."""

    weights: Mapping[str, float]
    """Weights, by the names of `request_evidence`."""
    none_below: float
    """Logit below which nothing fits a long request."""
    none_brief: Sequence[tuple[float, float]]
    """Increase of this cutoff per unit of `brevity` for catalogs of some `chance`, in ascending
    order; between them it is interpolated."""
    good_from: float
    """Logit from which something fits."""

    def margin(self, evidence: Evidence) -> float:
        """Return the distance above the cutoff for "nothing fits", as a cosine."""
        return self.margins([evidence], [self.logit(evidence)])[0]

    def margins(self, hits: Sequence[Evidence], logits: Sequence[float]) -> list[float]:
        """Return the margins of the hits of one request, given their logits."""
        line, per_cosine = self._line(hits[0]), self._per_cosine
        return [(logit - line) / per_cosine for logit in logits]

    def sure_margin(self, evidence: Evidence) -> float:
        """Return the margin from which something certainly fits the request."""
        return max(0.0, self.good_from - self._line(evidence)) / self._per_cosine

    def logit(self, evidence: Evidence) -> float:
        """Return how likely something fits, as a logit."""
        return self.logits([evidence])[0]

    def logits(self, hits: Sequence[Evidence]) -> list[float]:
        """Return the logits of the hits of one request, which differ only by `word_share`."""
        known = request_evidence(hits[0]._replace(word_share=0.0))
        shared = sum(weight * known[name] for name, weight in self.weights.items())
        weight = self.weights.get("word_share", 0.0)
        return [shared + weight * hit.word_share for hit in hits]

    def _line(self, evidence: Evidence) -> float:
        # With many tools, one is similar to a short request by chance.
        brief = interpolated(self.none_brief, chance(evidence.tools))
        return self.none_below + brief * brevity(evidence.n_words)

    @property
    def _per_cosine(self) -> float:
        # Increase of the logit per unit of cosine: `own` changes with the cosine.
        return sum(self.weights.get(name, 0.0) for name in ("cosine", "ahead", "own"))


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Two logistic models for the bundled embedder, with weights from the file."""

    hits: Mapping[str, float]
    """Weights, by the names of `hit_evidence`."""
    fit: FitModel
    """Model of whether anything fits."""
    fit_alone: FitModel
    """The same model without background texts and typical requests."""

    def judge(self, hits: Sequence[Evidence]) -> list[Judgement]:
        """Return the relevance and the margin of each hit of one request."""
        if not hits:
            return []
        model = self._fit_model(hits[0])
        logits = model.logits(hits)
        return [
            Judgement(_guess(hit.covered), hit.covered - _WORDS_CUT)
            if hit.cosine is None
            else Judgement(self._relevance(hit, logit), margin)
            for hit, logit, margin in zip(hits, logits, model.margins(hits, logits), strict=True)
        ]

    def _relevance(self, evidence: Evidence, fit: float) -> float:
        known = hit_evidence(evidence, fit)
        logit = sum(weight * known[name] for name, weight in self.hits.items())
        return min(_MOST, max(_LEAST, 1 / (1 + math.exp(-logit))))

    def fit_of(self, evidence: Evidence, margin: float) -> Fit:
        """Return whether anything fits, given the margin of the best hit."""
        if margin < 0:
            return "none"
        if evidence.cosine is None:
            return "good"
        return "good" if margin >= self._fit_model(evidence).sure_margin(evidence) else "unsure"

    def _fit_model(self, evidence: Evidence) -> FitModel:
        return self.fit_alone if evidence.ahead is None or evidence.kinds is None else self.fit


def _guess(covered: float) -> float:
    """Return the relevance of a tool without a cosine."""
    # A hyperbola: steep at the start, since a few rare words are strong evidence.
    return min(_MOST, max(_LEAST, covered * (1 + _HALF) / (covered + _HALF)))


def hit_evidence(evidence: Evidence, fit: float) -> dict[str, float]:
    """Return the inputs for the relevance of a hit, by name.

    Args:
        evidence: Evidence for the hit.
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
        # The logarithm of the probability that anything fits; the second form cannot overflow.
        "log_fit": min(0.0, fit) - math.log1p(math.exp(-abs(fit))),
        "best_fit": fit * math.exp(-_BEST_DECAY * evidence.gap),
    }


def request_evidence(evidence: Evidence) -> dict[str, float]:
    """Return the inputs for the fit of a request and its best hits, by name."""
    kinds = evidence.kinds or KindMatch(0.0, 0.0, 0.0, 0.0, 0.0)
    return {
        "bias": 1.0,
        "cosine": evidence.highest,
        "ahead": evidence.ahead or 0.0,
        "own": evidence.own,
        "covered": evidence.most_covered,
        "word_share": evidence.word_share,
        "short": shortness(evidence.words),
        "brief": brevity(evidence.n_words),
        "chance": chance(evidence.tools),
        "kind_served": kinds.served,
        "kind_near": kinds.near,
        "kind_agreement": kinds.agreement,
        "kind_lead": kinds.lead,
        "kind_everyday": kinds.everyday,
    }


def rivals_of(scores: Sequence[float]) -> float:
    """Return the logarithm of how many of the best tools have about the best score; 0 for one."""
    if not scores:
        return 0.0
    # A soft count: each score counts exp(-heat * its distance from the highest). The logarithm
    # prevents a catalog with hundreds of similar tools from outweighing all other evidence.
    highest = max(scores)
    there = sum(map(math.exp, [_RIVAL_HEAT * (score - highest) for score in scores]))
    lacking = max(0, COMPETITORS - len(scores)) * math.exp(-_RIVAL_HEAT * _USUAL_GAP)
    return math.log(there + lacking)


def shortness(words: int) -> float:
    """Return how short a request is by its informative words: 1 for none, near 0 for twenty."""
    return math.exp(-words / _SHORT_WORDS)


def brevity(n_words: int) -> float:
    """Return how brief a request is by all its words: 0.37 for up to five, near 0 for twenty."""
    return math.exp(-max(_BRIEFEST, n_words) / _BRIEF_WORDS)


def chance(tools: int) -> float:
    """Return by how many standard deviations the best tool exceeds the mean by chance."""
    # The expected maximum of n independent normal values is about sqrt(2 ln n).
    return math.sqrt(2 * math.log(max(1, tools)))


def interpolated(points: Sequence[tuple[float, float]], at: float) -> float:
    """Return the value between points in ascending order; beyond them, that of the nearest."""
    before, value = points[0]
    if at <= before:
        return value
    for after, following in points[1:]:
        if at < after:
            return value + (following - value) * (at - before) / (after - before)
        before, value = after, following
    return value


def read_calibration(path: Path = _FILE) -> Calibration:
    """Read the fitted weights that come with the package."""
    fitted = json.loads(path.read_text(encoding="utf-8"))
    return Calibration(
        hits=fitted["hits"],
        fit=FitModel(**fitted["fit"]),
        fit_alone=FitModel(**fitted["fit_alone"]),
    )
