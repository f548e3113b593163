"""The answers of the intent service: enriched prompt, knowledge, advice about a call."""

from dataclasses import dataclass
from typing import Final, Literal

from toolgate.base.token_estimate import estimate_tokens
from toolgate.intents import NONE, Detection
from toolgate.intents.rules import PASS_THROUGH, RenderedRules
from toolgate.types import Json

# Chosen.
RUNNERS_UP: Final = 3
"""Number of other intents that are named."""


@dataclass(frozen=True, kw_only=True)
class Enrichment:
    """The answer to a request."""

    text: str
    """The enriched prompt, or `PASS_THROUGH`."""

    detection: Detection
    """The detected intent of the request."""

    rules: tuple[RenderedRules, ...] = ()
    """The rules in the text, best first."""

    notes: tuple[str, ...] = ()
    """Notes for the model, such as a question to ask if two intents are close."""

    given_before: tuple[str, ...] = ()
    """Intents of `rules` whose text the conversation already has, so that it is not repeated."""

    left_out: tuple[RenderedRules, ...] = ()
    """Other rules for the request, which exceed the budget."""

    no_longer_valid: tuple[str, ...] = ()
    """Intents whose rules were given earlier in the conversation and no longer apply."""

    @property
    def tokens(self) -> int:
        """Estimated tokens of the text."""
        return estimate_tokens(self.text)

    def structured(self) -> Json:
        """Return `intent confidence stage runners_up question`, for programs."""
        detection = self.detection
        runners_up = [
            {"intent": candidate.intent, "confidence": round(candidate.confidence, 4)}
            for candidate in detection.candidates
            if candidate.intent not in {detection.intent, NONE}
        ]
        return {
            "intent": detection.intent,
            "confidence": round(detection.confidence, 4),
            "stage": detection.stage,
            "runners_up": runners_up[:RUNNERS_UP],
            "question": detection.question or None,
        }

    def report(self) -> Json:
        """Return all of it, for REST and the command line."""
        detection = self.detection
        return {
            "text": self.text,
            "pass_through": self.text == PASS_THROUGH,
            **self.structured(),
            "intents": list(detection.intents),
            "reason": detection.reason,
            "tool": detection.tool,
            "arguments": dict(detection.arguments),
            "rules": [_rule_json(rule) for rule in self.rules],
            "left_out": [_rule_json(rule) for rule in self.left_out],
            "no_longer_valid": list(self.no_longer_valid),
            "given_before": list(self.given_before),
            "not_understood": list(detection.unread),
            "tokens": self.tokens,
        }


@dataclass(frozen=True, kw_only=True)
class Knowledge:
    """The answer to short actions."""

    text: str
    """The rules for the actions."""

    query_intents: tuple[tuple[str, str, float], ...]
    """Query, intent and confidence."""

    rules: tuple[RenderedRules, ...] = ()
    """The rules in the text, best first."""

    left_out: tuple[RenderedRules, ...] = ()
    """Rules that exceed the budget."""

    @property
    def tokens(self) -> int:
        """Estimated tokens of the text."""
        return estimate_tokens(self.text)

    def structured(self) -> Json:
        """Return `found`: query, intent and confidence of each."""
        return {
            "found": [
                {"query": query[:200], "intent": intent, "confidence": round(confidence, 4)}
                for query, intent, confidence in self.query_intents
            ]
        }

    def report(self) -> Json:
        """Return all of it, for REST and the command line."""
        return {
            "text": self.text,
            **self.structured(),
            "rules": [_rule_json(rule) for rule in self.rules],
            "left_out": [_rule_json(rule) for rule in self.left_out],
            "tokens": self.tokens,
        }


@dataclass(frozen=True, kw_only=True)
class Advice:
    """Advice to a model about a call that does not match the last request."""

    text: str
    """The right rules and tools, and what to do."""

    withheld: bool
    """Whether the call should not run since it belongs to another topic. If repeated, it runs."""

    tool: str
    """Key of the tool."""

    intent: str
    """The intent of the last request, detected again."""

    reason: Literal["outside", "arguments"]
    """What is wrong with the call."""


def _rule_json(rules: RenderedRules) -> Json:
    return {
        "intent": rules.intent,
        "pack": rules.pack,
        "confidence": round(rules.confidence, 4),
        "tokens": rules.tokens,
        "shortened": rules.shortened,
        "unknown_variables": list(rules.unknown),
    }
