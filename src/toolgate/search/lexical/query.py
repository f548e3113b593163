"""Parses the words of a request for the index, and computes how much of it tools cover."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolgate.search.lexical.state import LexicalState
from toolgate.search.lexical.stop_words import stop_words_of
from toolgate.search.lexical.thesaurus import related_terms
from toolgate.search.lexical.translation import in_english
from toolgate.search.tokenizer import (
    IGNORED,
    fold,
    is_noise,
    term_of,
    terms,
    words_of_request,
)

QUERY_CHARS = 4_000
"""Most characters of a query that are searched; chosen."""
QUERIES = 32
"""Most queries of a request that are searched; chosen."""
_SHORT = 8
"""Most words of a request whose missing words are listed; chosen."""
_RELATED_TOOLS = 5_000
"""Most tools with a related word for which it is searched: limits the work for one request in a
large catalog, where such a word is uninformative; chosen."""
_OWN_LANGUAGE = 0.3
"""Share of a request that a tool must cover in the original language to make a translation
unnecessary; chosen."""
_QUERY_TERMS = 256
"""Most terms of a request that are searched: limits the work for one request; chosen."""
WORDS_REMEMBERED = 20_000
"""Most words of requests whose terms are cached; chosen."""


class RelatedWords(NamedTuple):
    """Other names for what a word of a request names."""

    word: str
    """The word as written."""
    number: int
    """Number of its term; -1 if no tool has it."""
    others: tuple[tuple[int, float], ...]
    """Numbers of other terms, and the weight of each relative to the word itself."""


class ParsedQuery(NamedTuple):
    """The words of one request, as the index knows them."""

    terms: dict[int, str]
    """Words as written, by the number of their term."""
    unknown: tuple[str, ...] = ()
    """Words, as written, whose terms no tool has."""
    only_common: bool = False
    """Whether it has words, but only uninformative ones."""
    n_words: int = 0
    """Number of all its words, including uninformative ones."""
    max_score: float = 0.0
    """The highest score that a tool could have for it."""
    related: tuple[RelatedWords, ...] = ()
    """Words that have related words."""


def parse_query(state: LexicalState, text: str) -> ParsedQuery:
    """Return the words of a request that count."""
    numbers: dict[int, str] = {}
    unknown: dict[str, str] = {}
    common, small = False, stop_words_of(text)
    every = words_of_request(text)
    rarity = (state.index.df if state.index else _NO_DF).data
    number_of = state.vocabulary.get
    terms_known = len(rarity)
    for word in every:
        if small and fold(word) in small:
            common = True
            continue
        telling, has_common = _telling(word)
        common = common or has_common
        for term in telling:
            if len(numbers) + len(unknown) < _QUERY_TERMS:
                # States share the vocabulary, and a later one may have added words: only the
                # numbers below the size of this index are known here.
                number = number_of(term, terms_known)
                if number < terms_known and rarity[number]:
                    numbers.setdefault(number, word)
                else:
                    unknown.setdefault(term, word)
    telling_any = bool(numbers or unknown)
    max_score = (
        state.index.max_score(list(numbers), len(unknown)) if state.index and telling_any else 0.0
    )
    related = _related(text, numbers, unknown, number_of, rarity) if terms_known else ()
    return ParsedQuery(
        numbers, tuple(unknown.values()), common and not telling_any, len(every), max_score, related
    )


def _related(
    text: str,
    numbers: Mapping[int, str],
    unknown: Mapping[str, str],
    number_of: Callable[[str, int], int],
    rarity: memoryview,
) -> tuple[RelatedWords, ...]:
    """Return the words of a request that have related words in tools."""
    by_term = related_terms(text)
    if not by_term:
        return ()
    terms_known = len(rarity)
    asked = {term_of(word): (number, word) for number, word in numbers.items()}
    asked |= {term: (-1, word) for term, word in unknown.items()}
    related: list[RelatedWords] = []
    for term, weights in by_term.items():
        if term not in asked:
            continue
        known = ((number_of(other, terms_known), weight) for other, weight in weights.items())
        others = tuple(
            (number, weight)
            for number, weight in known
            if number < terms_known
            and 0 < rarity[number] <= _RELATED_TOOLS
            and number not in numbers
        )
        if others:
            number, word = asked[term]
            related.append(RelatedWords(word, number, others))
    return tuple(related)


@lru_cache(maxsize=WORDS_REMEMBERED)
def _telling(word: str) -> tuple[tuple[str, ...], bool]:
    """Return the informative terms of a word, and whether it has uninformative ones."""
    every = terms(word)
    if word.lower() in IGNORED:
        return (), bool(every)
    telling = tuple(term for term in every if term not in IGNORED and not is_noise(term))
    return telling, len(telling) < len(every)


_NO_DF = np.zeros(0, np.int64)


def coverage(state: LexicalState, asked: ParsedQuery) -> NDArray[np.float32]:
    """Return the share of the request that each slot covers, in [0, 1)."""
    if state.index is None or not (asked.terms or asked.related):
        return np.zeros(state.size, np.float32)
    # The BM25 score divided by the highest possible score of this request: 1 would be every word,
    # in fields of any weight, repeated endlessly.
    scores = state.index.scores(asked.terms, asked.related)
    scores /= asked.max_score
    return scores


class RequestReading(NamedTuple):
    """A parsed request and what tools cover of it."""

    asked: ParsedQuery
    """Its words, or those of its translation if these match better."""
    shares: NDArray[np.float32]
    """Share of it that each slot covers, in the original language or in English, in [0, 1)."""
    translated: float | None
    """Weight of its translation, in [0, 1]; None if it has none."""


def read_request(state: LexicalState, text: str) -> RequestReading:
    """Parse a request, and its English translation if it is in another language."""
    asked = parse_query(state, text)
    shares = coverage(state, asked)
    translation = in_english(text)
    if translation is None:
        return RequestReading(asked, shares, None)
    # The better tools match in the language of the request, the less the translation counts.
    # Characters of texts without spaces are in several terms each, so that a tool covers half as
    # much of them.
    best = float(shares.max(initial=0.0)) * (1 if translation.is_spaced else 2)
    counts = translation.share * (1 - min(1.0, best / _OWN_LANGUAGE))
    english = parse_query(state, translation.all_meanings)
    translated = coverage(state, english)
    translated *= np.float32(counts)
    if translated.max(initial=0.0) > shares.max(initial=0.0):
        asked = english
    return RequestReading(asked, np.maximum(shares, translated), counts)


def missing_words_notice(
    state: LexicalState, asked: ParsedQuery, allowed: NDArray[np.bool_] | None
) -> str:
    """List the words of a short request that no visible tool has; long requests get no notice."""
    if state.index is None or len(asked.terms) + len(asked.unknown) > _SHORT:
        return ""
    # Words of hidden tools count as missing: a notice must not reveal that they exist.
    hidden = (word for number, word in asked.terms.items() if not state.index.has(number, allowed))
    other_words = {
        related.word
        for related in asked.related
        if any(state.index.has(number, allowed) for number, _ in related.others)
    }
    missing = ", ".join(
        repr(word[:40])
        for word in dict.fromkeys((*asked.unknown, *hidden))
        if word not in other_words
    )
    return f"Weak match: no tool here mentions {missing}." if missing else ""


def no_match_notice(asked: ParsedQuery) -> str:
    """Explain why there are no hits at all."""
    if asked.terms or asked.unknown:
        return (
            "Nothing fits: no tool here has any of these words. "
            "Say it in other words, or name the kind of thing that is needed."
        )
    if asked.only_common:
        return "Nothing fits: the query has only common words. Say what the tool should do."
    return "Nothing fits: the query has no words. Say in a few words what the tool should do."
