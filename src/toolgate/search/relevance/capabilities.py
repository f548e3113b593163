"""What a tool can do, guessed from its words by a list that is data (`capabilities.json`).

Each rule gives its capabilities to tools whose name or description has one of its words, in any
form of the word: one of `with` beside it where the rule has some, and none of `without`, since who
adds numbers creates nothing.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

from toolgate.search.tokenizer import split_identifier, terms, words
from toolgate.types import json_array, json_object

__all__ = ["capabilities_of"]

_FILE = Path(__file__).with_name("capabilities.json")
_READ_CHARS = 2_000
"""Characters of a description that are read; chosen."""


def capabilities_of(name: str, description: str) -> tuple[str, ...]:
    """Capabilities in the order of the list, each once."""
    text = " ".join((*split_identifier(name), description[:_READ_CHARS]))
    text_terms = {term for word in words(text) for term in terms(word)}
    return tuple(
        dict.fromkeys(
            capability
            for rule in _rules()
            if not text_terms.isdisjoint(rule.words)
            if text_terms.isdisjoint(rule.without)
            if not rule.beside or not text_terms.isdisjoint(rule.beside)
            for capability in rule.capabilities
        )
    )


@dataclass(frozen=True)
class _CapabilityRule:
    """Words as terms, and what they give."""

    words: frozenset[str]
    beside: frozenset[str]
    without: frozenset[str]
    capabilities: tuple[str, ...]


@cache
def _rules() -> tuple[_CapabilityRule, ...]:
    rules = [json_object(rule) for rule in json_array(json.loads(_FILE.read_text("utf-8")))]
    return tuple(
        _CapabilityRule(
            words=_terms(rule, "words"),
            beside=_terms(rule, "with"),
            without=_terms(rule, "without"),
            capabilities=tuple(_texts(rule, "capabilities")),
        )
        for rule in rules
    )


def _terms(rule: dict[str, object], name: str) -> frozenset[str]:
    return frozenset(term for word in _texts(rule, name) for term in terms(word))


def _texts(rule: dict[str, object], name: str) -> list[str]:
    return cast("list[str]", rule.get(name, []))
