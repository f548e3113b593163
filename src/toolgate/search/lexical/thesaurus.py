"""Synonyms: a folder is a directory, a bug is an issue.

Tools and requests use different words. The thesaurus (`thesaurus.txt`) has concepts of everyday
work with software, each with its English expressions.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final, TypeAlias

from toolgate.search.tokenizer import IGNORED, is_noise, terms_of, words_of_request

_RELATED: Final = 0.5
"""Weight of a related word, against 1 for the word itself. Of 0.2, 0.35, 0.5 and 0.7 the one
with the best first hits on short requests over 642 tools, without loss on long ones."""
_PART: Final = 0.7
"""Total weight of the words of a related expression of several words, relative to a single word;
chosen."""
_REMEMBERED: Final = 256
"""Most requests whose related words are cached; chosen."""

Expression: TypeAlias = tuple[str, ...]
"""The terms of one or more consecutive words."""

Concept: TypeAlias = tuple[Expression, ...]
"""Synonymous expressions, the usual one first."""


@cache
def load_concepts() -> tuple[Concept, ...]:
    """Return the concepts that come with Toolgate."""
    path = files("toolgate.search.lexical").joinpath("thesaurus.txt")
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(
        tuple(terms_of(words_of_request(text)) for text in line.split(","))
        for line in lines
        if line and not line.startswith("#")
    )


@lru_cache(maxsize=_REMEMBERED)
def related_terms(text: str) -> Mapping[str, Mapping[str, float]]:
    """Return related terms and their weights for the words of a request, by term.

    The last word of an expression of several words stands for the entire expression.
    """
    related: dict[str, dict[str, float]] = {}
    for expression in _expressions_in(words_of_request(text)):
        weights = related.setdefault(expression[-1], {})
        for term, weight in _related_to(expression).items():
            weights[term] = max(weight, weights.get(term, 0.0))
    return related


def _expressions_in(words: Sequence[str]) -> Iterator[Expression]:
    """Yield the longest expressions of the thesaurus in a request, from left to right."""
    by_expression, longest = _index()
    every = terms_of(words)
    at = 0
    while at < len(every):
        for length in range(min(longest, len(every) - at), 0, -1):
            expression = every[at : at + length]
            is_telling = length > 1 or words[at].lower() not in IGNORED
            if is_telling and expression in by_expression:
                yield expression
                at += length
                break
        else:
            at += 1


@cache
def _index() -> tuple[Mapping[Expression, Sequence[Concept]], int]:
    """Return the concepts by English expression, and the word count of the longest one."""
    by_expression: dict[Expression, list[Concept]] = {}
    for concept in load_concepts():
        for expression in concept:
            by_expression.setdefault(expression, []).append(concept)
    return by_expression, max(map(len, by_expression))


@lru_cache(maxsize=_REMEMBERED * 16)
def _related_to(expression: Expression) -> Mapping[str, float]:
    weights: dict[str, float] = {}
    for concept in _index()[0][expression]:
        for other in concept:
            telling = [term for term in other if term not in IGNORED and not is_noise(term)]
            if other == expression or not telling:
                continue
            weight = _RELATED if len(telling) == 1 else _RELATED * _PART / len(telling)
            for term in telling:
                weights[term] = max(weight, weights.get(term, 0.0))
    return weights
