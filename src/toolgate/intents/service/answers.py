"""What is answered: an enriched prompt, rules for short actions, advice about a call."""

from dataclasses import dataclass
from typing import Final, Literal

from toolgate.base.token_estimate import estimate_tokens
from toolgate.intents import NONE, Detection
from toolgate.intents.rules import PASS_THROUGH, GivenRules
from toolgate.types import Json

__all__ = ["RUNNERS_UP", "Advice", "Enrichment", "Knowledge"]

RUNNERS_UP: Final = 3
"""Other intents that are named."""


@dataclass(frozen=True, kw_only=True)
class Enrichment:
    """The answer to a request."""

    text: str
    """The enriched prompt, or `PASS_THROUGH`."""

    detection: Detection
    """What the request is about."""

    rules: tuple[GivenRules, ...] = ()
    """The rules in the text, best first."""

    left_out: tuple[GivenRules, ...] = ()
    """Rules that belong to the request too and are over the budget."""

    no_longer_valid: tuple[str, ...] = ()
    """Intents whose rules were given earlier in the conversation and do not count any more."""

    @property
    def tokens(self) -> int:
        """Estimated tokens of the text."""
        return estimate_tokens(self.text)

    def structured(self) -> Json:
        """`intent confidence stage runners_up question`, for programs."""
        found = self.detection
        others = [
            {"intent": each.intent, "confidence": round(each.confidence, 4)}
            for each in found.candidates
            if each.intent not in {found.intent, NONE}
        ]
        return {
            "intent": found.intent,
            "confidence": round(found.confidence, 4),
            "stage": found.stage,
            "runners_up": others[:RUNNERS_UP],
            "question": found.question or None,
        }

    def report(self) -> Json:
        """All of it, as REST and the command line give it."""
        found = self.detection
        return {
            "text": self.text,
            "pass_through": self.text == PASS_THROUGH,
            **self.structured(),
            "intents": list(found.intents),
            "reason": found.reason,
            "tool": found.tool,
            "arguments": dict(found.arguments),
            "rules": [_about(each) for each in self.rules],
            "left_out": [_about(each) for each in self.left_out],
            "no_longer_valid": list(self.no_longer_valid),
            "tokens": self.tokens,
        }


@dataclass(frozen=True, kw_only=True)
class Knowledge:
    """The answer to short actions."""

    text: str
    """The rules for them."""

    found: tuple[tuple[str, str, float], ...]
    """Query, intent and confidence."""

    rules: tuple[GivenRules, ...] = ()
    """The rules in the text, best first."""

    left_out: tuple[GivenRules, ...] = ()
    """Rules that are over the budget."""

    @property
    def tokens(self) -> int:
        """Estimated tokens of the text."""
        return estimate_tokens(self.text)

    def structured(self) -> Json:
        """`found`: query, intent and confidence of each."""
        return {
            "found": [
                {"query": query[:200], "intent": intent, "confidence": round(confidence, 4)}
                for query, intent, confidence in self.found
            ]
        }

    def report(self) -> Json:
        """All of it, as REST and the command line give it."""
        return {
            "text": self.text,
            **self.structured(),
            "rules": [_about(each) for each in self.rules],
            "left_out": [_about(each) for each in self.left_out],
            "tokens": self.tokens,
        }


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What a model is told about a call that does not go with what was asked for."""

    text: str
    """The right rules and tools, and what to do."""

    withheld: bool
    """Whether the call should not run: it belongs to another topic. The same call again runs."""

    tool: str
    """Key of the tool."""

    intent: str
    """What the last request is about, judged again."""

    reason: Literal["outside", "arguments"]
    """What was wrong with the call."""


def _about(rules: GivenRules) -> Json:
    return {
        "intent": rules.intent,
        "pack": rules.pack,
        "confidence": round(rules.confidence, 4),
        "tokens": rules.tokens,
        "shortened": rules.shortened,
        "unknown_variables": list(rules.unknown),
    }
