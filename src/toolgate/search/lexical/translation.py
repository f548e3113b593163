"""Translates requests from eight languages into English, word by word.

Tools are described in English, and the bundled model supports only English. A request is a few
words about everyday work with software, so that a list of such words (`thesaurus.txt`) covers
most of it; unknown words, especially names and values, stay unchanged.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Final, NamedTuple

import Stemmer

from toolgate.search.lexical.stop_words import small_words_of
from toolgate.search.lexical.thesaurus import load_concepts
from toolgate.search.tokenizer import IGNORED, fold, fold_all, term_of, words_of_request

__all__ = [
    "EnglishReading",
    "are_languages_loaded",
    "in_english",
    "languages_of",
    "load_languages",
]

_STEMMERS: Final = {
    "de": "german",
    "fr": "french",
    "es": "spanish",
    "pt": "portuguese",
    "it": "italian",
    "nl": "dutch",
}
"""Languages with spaces between words, and the names of their Snowball stemmers."""
_LONGEST: Final = 4
"""Most words of an expression; chosen."""
_LEAST_SHARE: Final = 0.4
"""Lowest share of the words that a language must know: languages share some words; chosen."""
_SHORTEST_PART: Final = 3
"""Fewest letters of a part of a compound word; chosen."""
_HAN: Final = re.compile("[\u3400-\u9fff]")
_KANA: Final = re.compile("[\u3040-\u30ff]")
_UNSPACED: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff]+")
_LINKS: Final = {"de": ("", "s", "es", "n", "en"), "nl": ("", "s", "e", "en")}
"""Linking letters between the parts of a compound word, by language."""


class EnglishReading(NamedTuple):
    """A request translated into English."""

    text: str
    """Usual English words for known expressions; everything else unchanged."""
    share: float
    """Share of the request that was understood, in (0, 1]."""
    is_spaced: bool = True
    """Whether its language has spaces between words."""


@lru_cache(maxsize=256)
def in_english(text: str) -> EnglishReading | None:
    """Translate a request into English; None if it is English or in an unsupported language."""
    if _KANA.search(text) or _HAN.search(text):
        return _from_unspaced(text, "ja" if _KANA.search(text) else "zh")
    words = words_of_request(text)
    if not words:
        return None
    english, *others = map(sum, zip(*map(_understood, words), strict=True))
    best, language = max(zip(others, _STEMMERS, strict=True))
    if best <= english or best < _LEAST_SHARE * len(words):
        return None
    translation = _from_spaced(words, language)
    return translation if translation.text else None


def languages_of(text: str) -> frozenset[str]:
    """Return the languages that know most words of a text, as codes such as `fr`.

    Several if they know equally many; empty if none of the supported ones knows enough.
    """
    if _KANA.search(text):
        return frozenset({"ja"})
    if _HAN.search(text):
        return frozenset({"zh", "ja"})
    words = words_of_request(text)
    known = list(map(sum, zip(*map(_understood, words), strict=True)))
    most = max(known, default=0)
    if not most or most < _LEAST_SHARE * len(words):
        return frozenset()
    languages = zip(("en", *_STEMMERS), known, strict=True)
    return frozenset(language for language, count in languages if count == most)


def are_languages_loaded() -> bool:
    """Whether `load_languages` has nothing left to do."""
    return _words_known.cache_info().currsize == len(_STEMMERS)


def load_languages() -> None:
    """Read the words of all languages: 50 ms of work, best done in a thread."""
    _english_terms()
    for language in _STEMMERS:
        _words_known(language)


@cache
def _english_terms() -> frozenset[str]:
    return frozenset(
        expression[0]
        for concept in load_concepts()
        for expression in concept.english
        if len(expression) == 1
    )


@lru_cache(maxsize=8_192)
def _understood(word: str) -> tuple[bool, ...]:
    """Return whether English has a word, then for each language of `_STEMMERS` whether it has.

    A language has its stop words and thesaurus words.
    """
    plain = fold(word)
    return (
        plain in IGNORED or term_of(word) in _english_terms(),
        *(
            plain in small or _stem(word, language) in stems
            for language in _STEMMERS
            for small, stems in [_words_known(language)]
        ),
    )


@cache
def _words_known(language: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the stop words of a language, and the stems of its thesaurus words."""
    stems = frozenset(word for expression in _dictionary(language) for word in expression)
    return small_words_of(language), stems


@cache
def _dictionary(language: str) -> Mapping[tuple[str, ...], str]:
    """Return the usual English for each expression of a language, folded and as stems."""
    stemmed: dict[tuple[str, ...], str] = {}
    written: dict[tuple[str, ...], str] = {}
    for concept in load_concepts():
        for text in concept.others[language]:
            words = words_of_request(text)
            stemmed.setdefault(tuple(_stem(word, language) for word in words), concept.usual)
            written.setdefault(fold_all(words), concept.usual)
    # A word as written in the list goes before one with the same stem: Ordner, ordnen.
    return {**stemmed, **written}


@cache
def _lengths(language: str) -> Mapping[str, int]:
    """Return the length of the longest expression that begins with each word of a dictionary."""
    lengths: dict[str, int] = {}
    for expression in _dictionary(language):
        first = next(iter(expression), "")
        lengths[first] = max(len(expression), lengths.get(first, 0))
    return lengths


def _usual(words: Sequence[str], language: str) -> str | None:
    """Return the English for consecutive words; None if they are unknown."""
    dictionary = _dictionary(language)
    as_written = dictionary.get(fold_all(words))
    return as_written or dictionary.get(tuple(_stem(word, language) for word in words))


@lru_cache(maxsize=20_000)
def _stem(word: str, language: str) -> str:
    stemmer = Stemmer.Stemmer(_STEMMERS[language], 0)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    # Stemmed with accents, which are part of the endings, and compared without them.
    return fold(stemmer.stemWord(word.lower()))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def _from_spaced(words: Sequence[str], language: str) -> EnglishReading:
    small = small_words_of(language)
    english: list[str] = []
    understood = telling = at = 0
    while at < len(words):
        usual, length = _longest_expression(words[at : at + _LONGEST], language)
        if length == 1 and fold(words[at]) in small:
            # A stop word is no form of a longer word with its stem: no, nó; een, eenheid.
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
    """Return the English for the longest known prefix, and its word count; else None and 1."""
    lengths, first = _lengths(language), words[0]
    longest = max(lengths.get(fold(first), 0), lengths.get(_stem(first, language), 0))
    for length in range(min(longest, len(words)), 0, -1):
        if usual := _usual(words[:length], language):
            return usual, length
    return None, 1


def _parts_of_compound(word: str, language: str) -> tuple[str, ...]:
    """Return the English for both parts of a compound word; empty if one is unknown."""
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
    """Yield the English for the longest known words from left to right, with their lengths."""
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
