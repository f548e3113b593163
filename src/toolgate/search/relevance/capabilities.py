"""Guesses what a tool can do from its words, with rules from a file (`capabilities.json`).

Each rule assigns its capabilities to tools whose name or description has one of its words, in
any form. If a rule has `with` or `without`, one of the `with` words must also be there, and no
`without` word: a tool that adds numbers does not create anything.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

from toolgate.search.tokenizer import split_identifier, terms, words
from toolgate.types import json_array, json_object

_FILE = Path(__file__).with_name("capabilities.json")
_READ_CHARS = 2_000
"""Most characters of a description that are read; chosen."""


def capabilities_of(name: str, description: str) -> tuple[str, ...]:
    """Return the capabilities in the order of the list, each once."""
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
    """The terms of a rule and the capabilities that it assigns."""

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
