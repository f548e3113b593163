"""The words of a request as the index knows them, and how much of a request tools cover."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolgate.search.lexical.state import LexicalState
from toolgate.search.lexical.stop_words import stop_words_of
from toolgate.search.tokenizer import (
    IGNORED,
    fold,
    is_noise,
    terms,
    words_of_request,
)

__all__ = [
    "QUERIES",
    "QUERY_CHARS",
    "WORDS_REMEMBERED",
    "ParsedQuery",
    "coverage",
    "missing_words_notice",
    "no_match_notice",
    "parse_query",
]

QUERY_CHARS = 4_000
"""Characters of a query that are searched; chosen."""
QUERIES = 32
"""Queries of a request that are searched; chosen."""
_SHORT = 8
"""Words of a request up to which missing words are named; chosen."""
_QUERY_TERMS = 256
"""Terms of a request that are searched: bounds the work for one request; chosen."""
WORDS_REMEMBERED = 20_000
"""Words of requests whose terms are remembered; chosen."""


class ParsedQuery(NamedTuple):
    """The words of one request, as the index knows them."""

    terms: dict[int, str]
    """The word as it was written, by the number of its term."""
    unknown: tuple[str, ...] = ()
    """Words, as they were written, of terms that no tool has."""
    only_common: bool = False
    """Whether it has words, but none that says anything."""
    n_words: int = 0
    """All its words, those that say nothing too."""
    max_score: float = 0.0
    """The highest score that a tool could have for it."""


def parse_query(state: LexicalState, text: str) -> ParsedQuery:
    """The words of a request that count."""
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
        state.index.max_score(list(numbers), len(unknown)) if state.index and numbers else 0.0
    )
    return ParsedQuery(
        numbers, tuple(unknown.values()), common and not telling_any, len(every), max_score
    )


@lru_cache(maxsize=WORDS_REMEMBERED)
def _telling(word: str) -> tuple[tuple[str, ...], bool]:
    """The terms of a request's word that say something, and whether others say nothing."""
    every = terms(word)
    if word.lower() in IGNORED:
        return (), bool(every)
    telling = tuple(term for term in every if term not in IGNORED and not is_noise(term))
    return telling, len(telling) < len(every)


_NO_DF = np.zeros(0, np.int64)


def coverage(state: LexicalState, asked: ParsedQuery) -> NDArray[np.float32]:
    """Share of the request that each place covers, in [0, 1)."""
    if state.index is None or not asked.terms:
        return np.zeros(state.size, np.float32)
    # BM25F over the highest score that this request could have: 1 would be every word, in fields
    # of any weight, repeated without end.
    scores = state.index.scores(asked.terms)
    scores /= asked.max_score
    return scores


def missing_words_notice(
    state: LexicalState, asked: ParsedQuery, allowed: NDArray[np.bool_] | None
) -> str:
    """Which words of a short request no visible tool has; long requests tell a story."""
    if state.index is None or len(asked.terms) + len(asked.unknown) > _SHORT:
        return ""
    # Words of hidden tools count as missing: a notice must not tell that they are somewhere.
    hidden = (word for number, word in asked.terms.items() if not state.index.has(number, allowed))
    missing = ", ".join(repr(word[:40]) for word in dict.fromkeys((*asked.unknown, *hidden)))
    return f"Weak match: no tool here mentions {missing}." if missing else ""


def no_match_notice(asked: ParsedQuery) -> str:
    """Why there is no hit at all."""
    if asked.terms or asked.unknown:
        return (
            "Nothing fits: no tool here has any of these words. "
            "Say it in other words, or name the kind of thing that is needed."
        )
    if asked.only_common:
        return "Nothing fits: the query has only common words. Say what the tool should do."
    return "Nothing fits: the query has no words. Say in a few words what the tool should do."
