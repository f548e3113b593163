"""BM25 over the passages of one collection.

The store knows which passages contain a word and how many; splitting into words and weighing
them happens here, so that every database gives the same order.
"""

import math
import re
import unicodedata
from collections.abc import Collection, Sequence
from typing import Any, Final

import Stemmer

from toolgate.store import DocumentRepository

_K1: Final = 1.2
"""The usual value (Robertson and Zaragoza 2009, section 3.4)."""
_B: Final = 0.75
"""The usual value, from the same source."""
_MOST_TERMS: Final = 24
"""Words of a question that are searched, rarest first."""

_LOOKED_AT: Final = 250
"""Passages to score at least, if as many contain a word; those with rare words first."""

_WORD = re.compile(r"[^\W_]+")
_WIDE = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
"""Scripts without spaces between words: there, pairs of characters count as words."""

_LONGEST = 40
"""Characters of a word: longer ones are encoded data (chosen)."""
_COMMON_WORDS: Final = (
    "a an and are as at be been but by can could did do does for from had has have how i "
    "if in is it its me my no not of on or our should so such than that the their them "
    "then there these they this to was we were what when where which who why will with "
    "would you your "
)
_COMMON: Final = frozenset(re.findall(r"\w+", _COMMON_WORDS))


def words_of(text: str) -> list[str]:
    """Return the words of a text, case-folded and stemmed, in order, with repetitions."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(char for char in plain if not unicodedata.combining(char))
    words: list[str] = []
    for word in _WORD.findall(plain):
        if _WIDE.search(word):
            words += [word[at : at + 2] for at in range(max(1, len(word) - 1))]
        elif word not in _COMMON:
            words.append(word[:_LONGEST])
    library: Any = Stemmer  # objects are not thread-safe
    return library.Stemmer("english", 0).stemWords(words)


async def best_by_words(
    rows: DocumentRepository,
    collection_id: str,
    question: str,
    *,
    limit: int,
    documents: Collection[str] | None = None,
) -> list[tuple[int, float]]:
    """Return the passages that match a question's words, by number and score, best first."""
    terms = list(dict.fromkeys(words_of(question)))
    if not terms:
        return []
    counts = await rows.word_counts(collection_id, terms)
    there = sorted((term for term in terms if counts.having[term]), key=counts.having.__getitem__)
    there = there[:_MOST_TERMS]
    if not there:
        return []
    average = max(counts.words / max(counts.passages, 1), 1.0)
    weights = {
        term: math.log(1 + (counts.passages - n + 0.5) / (n + 0.5))
        for term in there
        for n in [counts.having[term]]
    }
    scores: dict[int, float] = {}
    for term in there:
        left = max(_LOOKED_AT, 4 * limit) - len(scores)
        if left <= 0:
            break
        for number, document, words in await rows.with_word(collection_id, term, limit=left):
            if number not in scores and (documents is None or document in documents):
                scores[number] = _score(words.split(" "), weights, average)
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:limit]


def _score(words: Sequence[str], weights: dict[str, float], average: float) -> float:
    whole = _K1 * (1 - _B + _B * len(words) / average)
    score = 0.0
    for word, weight in weights.items():
        often = words.count(word)
        score += weight * often * (_K1 + 1) / (often + whole)
    return score
