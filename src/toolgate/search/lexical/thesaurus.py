"""Words that people use for the same thing: a folder is a directory, a bug is an issue.

A tool says it in one way and a request in another. The thesaurus (`thesaurus.txt`) has concepts of
everyday work with software, each with its English expressions and those of eight other languages.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final, NamedTuple, TypeAlias

from toolgate.search.tokenizer import IGNORED, is_noise, terms_of, words_of_request

__all__ = ["LANGUAGES", "Concept", "Expression", "load_concepts", "related_terms"]

LANGUAGES: Final = ("en", "de", "fr", "es", "pt", "zh", "ja", "it", "nl")
"""Columns of the file (ISO 639-1)."""

_RELATED: Final = 0.5
"""What a related word counts, against 1 for the word itself. Of 0.2, 0.35, 0.5 and 0.7 the best
first hits on short requests over 642 tools, with no loss on long ones."""
_PART: Final = 0.7
"""What the words of a related expression of several words count together, against a single word;
chosen."""
_REMEMBERED: Final = 256
"""Requests whose related words are remembered; chosen."""

Expression: TypeAlias = tuple[str, ...]
"""The terms of one or more words that stand beside each other."""


class Concept(NamedTuple):
    """Expressions for the same thing."""

    usual: str
    """The usual English one, as it is written."""
    english: tuple[Expression, ...]
    """All English ones, as terms."""
    others: Mapping[str, tuple[str, ...]]
    """Those of other languages as they are written, by language."""


@cache
def load_concepts() -> tuple[Concept, ...]:
    """The concepts that come with Toolgate."""
    path = files("toolgate.search.lexical").joinpath("thesaurus.txt")
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(map(_concept, (line for line in lines if line and not line.startswith("#"))))


def _concept(line: str) -> Concept:
    columns = [
        tuple(filter(None, (word.strip() for word in column.split(","))))
        for column in line.split("|")
    ]
    english = columns[0]
    return Concept(
        usual=english[0],
        english=tuple(terms_of(words_of_request(text)) for text in english),
        others=dict(zip(LANGUAGES[1:], columns[1:], strict=True)),
    )


@lru_cache(maxsize=_REMEMBERED)
def related_terms(text: str) -> Mapping[str, Mapping[str, float]]:
    """For the words of a request, as terms, what else the same thing is called, with its weight.

    Of an expression of several words the last one stands for all.
    """
    related: dict[str, dict[str, float]] = {}
    for expression in _expressions_in(words_of_request(text)):
        weights = related.setdefault(expression[-1], {})
        for term, weight in _related_to(expression).items():
            weights[term] = max(weight, weights.get(term, 0.0))
    return related


def _expressions_in(words: Sequence[str]) -> Iterator[Expression]:
    """The longest expressions of the thesaurus in a request, from left to right."""
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
    """The concepts of each English expression, and the words of the longest."""
    by_expression: dict[Expression, list[Concept]] = {}
    for concept in load_concepts():
        for expression in concept.english:
            by_expression.setdefault(expression, []).append(concept)
    return by_expression, max(map(len, by_expression))


@lru_cache(maxsize=_REMEMBERED * 16)
def _related_to(expression: Expression) -> Mapping[str, float]:
    weights: dict[str, float] = {}
    for concept in _index()[0][expression]:
        for other in concept.english:
            telling = [term for term in other if term not in IGNORED and not is_noise(term)]
            if other == expression or not telling:
                continue
            weight = _RELATED if len(telling) == 1 else _RELATED * _PART / len(telling)
            for term in telling:
                weights[term] = max(weight, weights.get(term, 0.0))
    return weights
