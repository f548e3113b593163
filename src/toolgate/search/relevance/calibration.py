"""Relevance: how likely a tool helps, fitted on labelled requests by `training/calibrate.py`.

Two logistic models. The first is about a hit: how near it is to the request in meaning and words,
how far behind the best one, and how many others are as good. The second is about a request: whether
its best hit is near enough that anything fits at all: nearer than what tools do in general. A
request of few words comes near to something by chance, so it has to come nearer, or to find its
words; and among more tools one is nearer by chance.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

__all__ = [
    "COMPETITORS",
    "Calibration",
    "CutoffModel",
    "Evidence",
    "brevity",
    "chance",
    "mostly",
    "read_calibration",
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
_MOST_WORDS = 0.5
"""Up to this share, words that a tool has say nothing: most tools have some of them; chosen."""


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

    @property
    def telling(self) -> float:
        """Share of the request's words that say something, in [0, 1]."""
        return self.words / max(1, self.words, self.n_words)


@dataclass(frozen=True, kw_only=True)
class CutoffModel:
    """Where nothing fits, as a cosine."""

    ahead: float
    """What `Evidence.ahead` counts; the cosine has the rest. 0 to 1."""
    cut: float
    """What the best hit of a long request needs in a catalog without tools."""
    short: float
    """How much more one needs that is as short as can be."""
    brief: float
    """How much more each unit of `brevity` needs."""
    size: float
    """How much more each unit of `chance` needs."""
    word_share: float
    """How much each unit of `mostly` takes back."""

    def margin(self, evidence: Evidence, cosine: float) -> float:
        """How far the best hit is above the line."""
        near = cosine
        if evidence.ahead is not None:
            near += self.ahead * (evidence.ahead - cosine)
        return near - (
            self.cut
            + self.short * shortness(evidence.words)
            + self.brief * brevity(evidence.n_words)
            + self.size * chance(evidence.tools)
            - self.word_share * mostly(evidence.word_share)
        )


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Two logistic models for the bundled embedder; the weights are of the file."""

    bias: float
    """Intercept."""
    cosine: float
    """Weight of the cosine."""
    cosine_squared: float
    """Weight of its square."""
    behind: float
    """Weight of how far a tool is behind the best."""
    gap: float
    """Weight of the lead over the next tool."""
    rivals: float
    """Weight of the number of tools that are nearly as good."""
    covered: float
    """Of the square root of it."""
    short: float
    """Weight of the shortness of a request."""
    telling: float
    """Weight of words that few tools have."""
    line: CutoffModel
    """The cutoff below which nothing fits."""
    line_alone: CutoffModel
    """The same where nobody knows how far ahead of other tools the nearest one is."""

    def relevance(self, evidence: Evidence) -> float:
        """Probability in (0, 1) that the tool helps; without a cosine a guess from its words."""
        if evidence.cosine is None:
            # A hyperbola: steep at the start, since a few rare words already say much.
            guess = evidence.covered * (1 + _HALF) / (evidence.covered + _HALF)
            return min(_MOST, max(_LEAST, guess))
        # Logistic regression, fitted by training/calibrate.py on requests whose tools are known.
        logit = (
            self.bias
            + self.cosine * evidence.cosine
            + self.cosine_squared * evidence.cosine**2
            + self.behind * evidence.behind
            + self.gap * evidence.gap
            + self.rivals * evidence.rivals
            + self.covered * math.sqrt(evidence.covered)
            + self.short * shortness(evidence.words)
            + self.telling * evidence.telling
        )
        return min(_MOST, max(_LEAST, 1 / (1 + math.exp(-logit))))

    def margin(self, evidence: Evidence) -> float:
        """How far the best hit is above the line of "nothing fits"; negative when below it.

        A cosine; without one a share of words.
        """
        if evidence.cosine is None:
            return evidence.covered - _WORDS_CUT
        line = self.line_alone if evidence.ahead is None else self.line
        return line.margin(evidence, evidence.cosine)


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


def mostly(word_share: float) -> float:
    """How much more than half of what a request says a tool has, in [0, 0.5]."""
    return max(0.0, word_share - _MOST_WORDS)


def read_calibration(path: Path = _FILE) -> Calibration:
    """The fitted weights that come with the package."""
    fitted = json.loads(path.read_text(encoding="utf-8"))
    return Calibration(
        **fitted["hits"], line=_cutoff(fitted["line"]), line_alone=_cutoff(fitted["line_alone"])
    )


def _cutoff(weights: dict[str, float]) -> CutoffModel:
    """A cutoff as the file has it; the file calls the share of words `found`."""
    named = {("word_share" if name == "found" else name): value for name, value in weights.items()}
    return CutoffModel(**named)
