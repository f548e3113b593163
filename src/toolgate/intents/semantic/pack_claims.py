"""Decide which pack answers a message that several packs claim.

A confidence tells how likely a message is for a pack rather than for none. It does not tell
which of two packs is meant. That depends on the closeness of the message to the prompts of each,
and on the name of an intent in the message, if only its own prompts use that name: "list all
relations that start from the table employees" asks for relations.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Final

from toolgate.intents.base import Detection, StageRequest
from toolgate.intents.semantic.scores import logistic
from toolgate.intents.semantic.stage import CLEAR
from toolgate.intents.semantic.training import words_of
from toolgate.search import in_english

_NEAR: Final = 3.0
"""Weight of the log closeness relative to the log odds of the confidence (chosen)."""

_NAMED: Final = 2.0
"""Bonus for the name of an intent in the message (chosen)."""

_COMPARABLE: Final = 0.5
"""Factor that converts a lead in strength to log odds: confidences of independent models differ
by chance (chosen)."""

_USUAL: Final = 0.05
"""A name in this share of another intent's prompts or more tells nothing (chosen)."""

_WORD: Final = re.compile(r"\w+")

_SHORTEST_NAME: Final = 4
"""Smallest number of letters of a name that is distinct from other words (chosen)."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The answer of a pack that claims a message."""

    detection: Detection
    """The detection, with an intent."""

    closeness: float
    """Log closeness of the message to the prompts of that intent."""

    prompts: tuple[str, ...]
    """The prompts of that intent."""

    @property
    def strength(self) -> float:
        """Strength of the claim, not counting names."""
        sure = min(max(self.detection.confidence, 1e-6), 1 - 1e-6)
        return math.log(sure / (1 - sure)) + _NEAR * self.closeness

    @property
    def name(self) -> str:
        """The intent's name as a word."""
        return _as_one_word(words_of(self.detection.intent))

    def uses(self, word: str) -> bool:
        """Whether a word is common in the prompts."""
        return _share(word, self.prompts) >= _USUAL


def compare_claims(claims: Sequence[Claim], request: StageRequest) -> Detection:
    """Return the answer with the strongest claim, with a question if two are nearly as strong."""
    if len(claims) == 1:
        return claims[0].detection
    words = _words_in(request.text)
    scores = {id(claim): claim.strength for claim in claims}
    for claim in claims:
        others = [other for other in claims if other.detection.intent != claim.detection.intent]
        if claim.name in words and not any(other.uses(claim.name) for other in others):
            scores[id(claim)] += _NAMED
    ordered = sorted(claims, key=lambda claim: -scores[id(claim)])
    best = ordered[0].detection
    candidates = {
        candidate.intent: candidate
        for claim in reversed(ordered)
        for candidate in claim.detection.candidates
    }
    ranked = sorted(
        candidates.values(),
        key=lambda candidate: (candidate.intent != best.intent, -candidate.confidence),
    )
    best = replace(best, candidates=tuple(ranked))
    rival = next((claim for claim in ordered if claim.detection.intent != best.intent), None)
    if (
        rival is None
        or logistic(_COMPARABLE * (scores[id(ordered[0])] - scores[id(rival)])) >= CLEAR
    ):
        return best
    other = rival.detection
    if request.previous and request.previous[-1] in {best.intent, other.intent}:
        chosen = best if request.previous[-1] == best.intent else other
        return replace(chosen, candidates=tuple(ranked))
    question = f"Is this about {words_of(best.intent)} or about {words_of(other.intent)}?"
    reason = f"{best.intent!r} and {other.intent!r} are too close to tell."
    return replace(best, question=question, reason=reason)


def _words_in(text: str) -> frozenset[str]:
    """Return the words and word pairs of a message and of its English translation."""
    reading = in_english(text)
    return frozenset((*_words(text), *_words(reading.text if reading is not None else "")))


def _words(text: str) -> list[str]:
    """Return the words and word pairs of a text in the singular, as `_as_one_word` does."""
    words = [word.removesuffix("s") for word in _WORD.findall(text.lower().replace("_", " "))]
    pairs = [first + second for first, second in pairwise(words)]
    return [word for word in (*words, *pairs) if len(word) >= _SHORTEST_NAME]


@lru_cache(maxsize=256)
def _share(word: str, prompts: tuple[str, ...]) -> float:
    """Return the share of prompts that contain a word."""
    return sum(word in words for words in _words_of(prompts)) / max(len(prompts), 1)


@lru_cache(maxsize=64)
def _words_of(prompts: tuple[str, ...]) -> tuple[frozenset[str], ...]:
    """Return the words of each prompt; cached, since many words are looked for in them."""
    return tuple([frozenset(_words(prompt)) for prompt in prompts])


def _as_one_word(words: str) -> str:
    """Join words in the singular, so that "value lists" matches the intent VALUELISTS."""
    return "".join(word.removesuffix("s") for word in words.lower().split())
