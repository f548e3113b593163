"""Reads requests in eight languages as English ones, word by word.

Tools are described in English, and the bundled model reads nothing else. A request is a few words
about everyday work with software, so a list of such words (`thesaurus.txt`) says most of it; what
it does not know, names and values above all, stays as it is.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Final, NamedTuple

import Stemmer

from toolgate.search.lexical.stop_words import small_words_of
from toolgate.search.lexical.thesaurus import load_concepts
from toolgate.search.tokenizer import IGNORED, fold, fold_all, terms_of, words_of_request

__all__ = ["EnglishReading", "in_english"]

_STEMMERS: Final = {
    "de": "german",
    "fr": "french",
    "es": "spanish",
    "pt": "portuguese",
    "it": "italian",
    "nl": "dutch",
}
"""Languages with blanks between their words, and the names of their Snowball stemmers."""
_LONGEST: Final = 4
"""Words of the longest expression; chosen."""
_LEAST_SHARE: Final = 0.4
"""Share of the words that a language has to know: others share some; chosen."""
_SHORTEST_PART: Final = 3
"""Letters of a part of a compound word; chosen."""
_HAN: Final = re.compile("[\u3400-\u9fff]")
_KANA: Final = re.compile("[\u3040-\u30ff]")
_UNSPACED: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff]+")
_LINKS: Final = {"de": ("", "s", "es", "n", "en"), "nl": ("", "s", "e", "en")}
"""What languages put between the parts of a compound word."""


class EnglishReading(NamedTuple):
    """A request read as an English one."""

    text: str
    """Usual English words for what was understood, and all else as it is."""
    share: float
    """Share of the request that was understood, in (0, 1]."""
    is_spaced: bool = True
    """Whether its language puts blanks between words."""


@lru_cache(maxsize=256)
def in_english(text: str) -> EnglishReading | None:
    """A request in English; None where it is English, or in a language that nothing is known of."""
    if _KANA.search(text) or _HAN.search(text):
        return _from_unspaced(text, "ja" if _KANA.search(text) else "zh")
    words = words_of_request(text)
    if not words:
        return None
    folded, known_terms = fold_all(words), _english_terms()
    english = sum(
        plain in IGNORED or term in known_terms
        for plain, term in zip(folded, terms_of(words), strict=True)
    )
    best, language = max((_understood(words, folded, code), code) for code in _STEMMERS)
    if best <= english or best < _LEAST_SHARE * len(words):
        return None
    translation = _from_spaced(words, language)
    return translation if translation.text else None


@cache
def _english_terms() -> frozenset[str]:
    return frozenset(
        expression[0]
        for concept in load_concepts()
        for expression in concept.english
        if len(expression) == 1
    )


def _understood(words: Sequence[str], folded: Sequence[str], language: str) -> int:
    """How many words are of a language: small words, and those of the thesaurus."""
    small, stems = _words_known(language)
    return sum(
        plain in small or _stem(word, language) in stems
        for word, plain in zip(words, folded, strict=True)
    )


@cache
def _words_known(language: str) -> tuple[frozenset[str], frozenset[str]]:
    """The small words of a language, and the stems of those in the thesaurus."""
    stems = frozenset(word for expression in _dictionary(language) for word in expression)
    return small_words_of(language), stems


@cache
def _dictionary(language: str) -> Mapping[tuple[str, ...], str]:
    """The usual English expression for each expression of a language, folded and as stems."""
    stemmed: dict[tuple[str, ...], str] = {}
    written: dict[tuple[str, ...], str] = {}
    for concept in load_concepts():
        for text in concept.others[language]:
            words = words_of_request(text)
            stemmed.setdefault(tuple(_stem(word, language) for word in words), concept.usual)
            written.setdefault(fold_all(words), concept.usual)
    # What is written in the list goes before what only has the same stem: Ordner, ordnen.
    return {**stemmed, **written}


def _usual(words: Sequence[str], language: str) -> str | None:
    """English for some words that stand beside each other."""
    dictionary = _dictionary(language)
    as_written = dictionary.get(fold_all(words))
    return as_written or dictionary.get(tuple(_stem(word, language) for word in words))


@lru_cache(maxsize=20_000)
def _stem(word: str, language: str) -> str:
    stemmer = Stemmer.Stemmer(_STEMMERS[language], 0)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    # Stemmed with its accents, which belong to the endings, and compared without them.
    return fold(stemmer.stemWord(word.lower()))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def _from_spaced(words: Sequence[str], language: str) -> EnglishReading:
    small = small_words_of(language)
    english: list[str] = []
    understood = telling = at = 0
    while at < len(words):
        usual, length = _longest_expression(words[at : at + _LONGEST], language)
        if length == 1 and fold(words[at]) in small:
            # A small word is no form of a longer one that has its stem: no, nó; een, eenheid.
            at += 1
            continue
        parts = (usual,) if usual else ()
        word, at = words[at], at + length
        if word.isdecimal():
            english.append(word)
        elif usual in IGNORED:
            continue
        else:
            if not parts and language in _LINKS:
                parts = _parts_of_compound(word, language)
            english += parts or (word,)
            telling += 1
            understood += bool(parts)
    return EnglishReading(" ".join(dict.fromkeys(english)), understood / max(1, telling))


def _longest_expression(words: Sequence[str], language: str) -> tuple[str | None, int]:
    """English for the longest expression that begins here, and its words; None and 1: unknown."""
    for length in range(len(words), 0, -1):
        if usual := _usual(words[:length], language):
            return usual, length
    return None, 1


def _parts_of_compound(word: str, language: str) -> tuple[str, ...]:
    """English for the two parts of a compound word; nothing where one is unknown."""
    for at in range(len(word) - _SHORTEST_PART, _SHORTEST_PART - 1, -1):
        if (last := _usual((word[at:],), language)) is None:
            continue
        for link in _LINKS[language]:
            begin = word[: at - len(link)]
            if word[:at].endswith(link) and (first := _usual((begin,), language)):
                return (first, last)
    return ()


def _from_unspaced(text: str, language: str) -> EnglishReading | None:
    english: list[str] = []
    understood = 0
    at = 0
    for run in _UNSPACED.finditer(text):
        english += words_of_request(text[at : run.start()])
        for usual, chars in _longest_known(run.group(), language):
            english += () if usual in IGNORED else (usual,)
            understood += chars
        at = run.end()
    english += words_of_request(text[at:])
    if not (english and understood):
        return None
    telling = sum(map(len, _UNSPACED.findall(text)))
    # Half of the characters of such a request are particles and endings.
    share = min(1.0, 2 * understood / telling)
    return EnglishReading(" ".join(dict.fromkeys(english)), share, is_spaced=False)


def _longest_known(run: str, language: str) -> Iterator[tuple[str, int]]:
    """English for the longest known words from left to right, with their characters."""
    dictionary, longest = _unspaced_dictionary(language)
    at = 0
    while at < len(run):
        for length in range(min(longest, len(run) - at), 0, -1):
            if usual := dictionary.get(run[at : at + length]):
                yield usual, length
                at += length
                break
        else:
            at += 1


@cache
def _unspaced_dictionary(language: str) -> tuple[Mapping[str, str], int]:
    dictionary: dict[str, str] = {}
    for concept in load_concepts():
        for word in concept.others[language]:
            dictionary.setdefault(word, concept.usual)
    return dictionary, max(map(len, dictionary))
