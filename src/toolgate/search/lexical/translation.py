"""Translates requests from eight languages into English, word by word.

Tools are described in English, and the bundled model supports only English. A request is a few
words about everyday work and life, so that lists of such words (`translations`) cover most of
it; unknown words, especially names and values, stay unchanged.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Final, NamedTuple

import Stemmer

from toolgate.search.lexical.stop_words import STOP_WORDS
from toolgate.search.tokenizer import IGNORED, fold, fold_all, term_of, words_of_request

STEMMERS: Final = {
    "de": "german",
    "fr": "french",
    "es": "spanish",
    "pt": "portuguese",
    "it": "italian",
    "nl": "dutch",
}
"""Languages with spaces between words, and the names of their Snowball stemmers."""
_LANGUAGES: Final = ("en", *STEMMERS, "zh", "ja")
"""Languages with a dictionary; that of English only tells which words are English."""
DICTIONARIES: Final = Path(__file__).with_name("translations")
"""A file for each language, written by `training/translations.py`."""
SENSES: Final = ";"
"""Separates the meanings of an expression in a dictionary."""
_LONGEST: Final = 4
"""Most words of an expression; chosen."""
_LEAST_SHARE: Final = 0.4
"""Lowest share of the words that a language must know: languages share some words; chosen."""
_BY_STEM: Final = 0.7
"""How well a language knows a word of which it has the stem only; chosen."""
_SHORTEST_PART: Final = 3
"""Fewest letters of a part of a compound word; chosen."""
_HAN: Final = re.compile("[\u3400-\u9fff]")
_KANA: Final = re.compile("[\u3040-\u30ff]")
_KATAKANA: Final = re.compile("[\u30a1-\u30fa\u30fc]")
_LONG_KATAKANA: Final = 4
"""Letters of a loan word that may be part of another; chosen."""
_UNSPACED: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff]+")
_LINKS: Final = {"de": ("", "s", "es", "n", "en"), "nl": ("", "s", "e", "en")}
"""Linking letters between the parts of a compound word, by language."""


class EnglishReading(NamedTuple):
    """A request translated into English."""

    text: str
    """Usual English words for known expressions; everything else unchanged."""
    all_meanings: str
    """The same with further meanings of these expressions, among which a search may choose."""
    share: float
    """Share of the request that was understood, in (0, 1]."""
    is_spaced: bool
    """Whether its language has spaces between words."""


@lru_cache(maxsize=256)
def in_english(text: str) -> EnglishReading | None:
    """Translate a request into English; None if it is English or in an unsupported language."""
    if _KANA.search(text) or _HAN.search(text):
        return _from_unspaced(text, "ja" if _KANA.search(text) else "zh")
    words = words_of_request(text)
    if all(map(_is_english, words)):  # no other language can know more of them
        return None
    english, *others = map(sum, zip(*map(_understood, words), strict=True))
    best, language = max(zip(others, STEMMERS, strict=True))
    if best <= english or best < _LEAST_SHARE * len(words):
        return None
    parts = tuple(part for word in words for part in _parts_of_hyphenated(word, language))
    translation = _from_spaced(parts, language)
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
    languages = zip(("en", *STEMMERS), known, strict=True)
    return frozenset(language for language, count in languages if count == most)


class _Dictionary:
    """The English for expressions of a language.

    A file of sorted lines that is searched where it lies in memory: as dicts, all languages would
    take 20 MB of each process, and 0.5 s of its start.
    """

    def __init__(self, lines: bytes) -> None:
        """Create it from lines with a key, a tab and English, sorted by the bytes of their keys."""
        self._lines = lines

    def get(self, key: str) -> str | None:
        """Return the English for a key; None if it is unknown.

        Empty for a word that has a meaning only as part of an expression.
        """
        begin, sought = self._place(f"{key}\t")
        if not self._lines.startswith(sought, begin):
            return None
        return self._lines[begin + len(sought) : self._lines.index(b"\n", begin)].decode()

    def begins_longer(self, key: str) -> bool:
        """Whether longer expressions begin with the word of a key."""
        begin, sought = self._place(f"{key} ")
        return self._lines.startswith(sought, begin)

    def _place(self, prefix: str) -> tuple[int, bytes]:
        """Return where lines with a prefix begin, if there are any, and the prefix encoded."""
        sought, lines = prefix.encode(), self._lines
        low, high = 0, len(lines)
        while low < high:
            begin = lines.rfind(b"\n", 0, (low + high) // 2) + 1
            end = lines.index(b"\n", begin)
            if lines[begin:end] < sought:
                low = end + 1
            else:
                high = begin
        return low, sought

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield keys with their English."""
        for line in self._lines.decode().splitlines():
            key, _, english = line.partition("\t")
            yield key, english


@cache
def _dictionary(language: str) -> _Dictionary:
    return _Dictionary((DICTIONARIES / f"{language}.txt").read_bytes())


def are_languages_loaded() -> bool:
    """Whether `load_languages` has nothing left to do."""
    return _dictionary.cache_info().currsize == len(_LANGUAGES)


def load_languages() -> None:
    """Read the dictionaries of all languages, best done in a thread."""
    for language in _LANGUAGES:
        _dictionary(language)


@lru_cache(maxsize=8_192)
def _is_english(word: str) -> bool:
    return fold(word) in IGNORED or _dictionary("en").get(term_of(word)) is not None


@lru_cache(maxsize=8_192)
def _understood(word: str) -> tuple[float, ...]:
    """Return how well English knows a word, then each language of `STEMMERS`, from 0 to 1.

    A language knows its stop words and the words of its dictionary; words that only have a stem of
    it count less, because related languages share many.
    """
    plain, *stems = fold_all((word, *(_stem_with_accents(word, code) for code in STEMMERS)))
    return (
        float(_is_english(word)),
        *(
            _known(plain, stem_of_word, language)
            for language, stem_of_word in zip(STEMMERS, stems, strict=True)
        ),
    )


def _known(plain: str, stem_of_word: str, language: str) -> float:
    if plain in STOP_WORDS[language] or _dictionary(language).get(plain):
        return 1.0
    return _BY_STEM if _dictionary(language).get(stem_of_word) is not None else 0.0


@lru_cache(maxsize=16_384)
def _usual(words: tuple[str, ...], language: str) -> str | None:
    """Return the English for consecutive words; None if they are unknown."""
    dictionary = _dictionary(language)
    as_written = dictionary.get(expression_key(fold_all(words)))
    stems = [stem(word, language) for word in words]
    return as_written or dictionary.get(expression_key(stems)) or None


def expression_key(words: Sequence[str]) -> str:
    """Return the key of an expression in a dictionary, from its stems or its folded words."""
    return " ".join(words)


@lru_cache(maxsize=20_000)
def stem(word: str, language: str) -> str:
    """Return the stem of a word of a language of `STEMMERS`, folded."""
    return fold(_stem_with_accents(word, language))


def _stem_with_accents(word: str, language: str) -> str:
    """Return the stem of a word: accents are part of the endings, but are not compared."""
    stemmer = Stemmer.Stemmer(STEMMERS[language], 0)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return stemmer.stemWord(word.lower())  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _from_spaced(words: tuple[str, ...], language: str) -> EnglishReading:
    small = STOP_WORDS[language]
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
    return _reading(english, understood / max(1, telling), is_spaced=True)


def _parts_of_hyphenated(word: str, language: str) -> Sequence[str]:
    """Return the parts of a word such as U-Bahn-Plan, or the word if it is a known one."""
    return word.split("-") if "-" in word and not _usual((word,), language) else (word,)


def _longest_expression(words: tuple[str, ...], language: str) -> tuple[str | None, int]:
    """Return the English for the longest known prefix, and its word count; else None and 1."""
    longest = len(words) if _begins_longer(words[0], language) else 1
    for length in range(longest, 0, -1):
        if usual := _usual(words[:length], language):
            return usual, length
    return None, 1


@lru_cache(maxsize=8_192)
def _begins_longer(word: str, language: str) -> bool:
    keys = (fold(word), stem(word, language))
    return any(map(_dictionary(language).begins_longer, keys))


@lru_cache(maxsize=4_096)
def _parts_of_compound(word: str, language: str) -> tuple[str, ...]:
    """Return the English for both parts of a compound word, the longest last part that is known.

    Empty if one is unknown.
    """
    for at in range(_SHORTEST_PART, len(word) - _SHORTEST_PART + 1):
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
            english += [] if usual in IGNORED else [usual]
            understood += chars
        at = run.end()
    english += words_of_request(text[at:])
    if not (english and understood):
        return None
    telling = sum(map(len, _UNSPACED.findall(text)))
    # Half of the characters of such a request are particles and endings.
    share = min(1.0, 2 * understood / telling)
    return _reading(english, share, is_spaced=False)


def _reading(english: Sequence[str], share: float, *, is_spaced: bool) -> EnglishReading:
    """Return the reading for the English of each expression, with its meanings."""
    meanings = [expression.split(SENSES) for expression in english]
    first = dict.fromkeys(meaning for meaning, *_ in meanings)
    every = dict.fromkeys(meaning for several in meanings for meaning in several)
    return EnglishReading(" ".join(first), " ".join(every), share, is_spaced)


def _longest_known(run: str, language: str) -> Iterator[tuple[str, int]]:
    """Yield the English for the longest known words from left to right, with their lengths."""
    dictionary, longest = _unspaced_dictionary(language)
    at = 0
    while at < len(run):
        for length in range(min(longest, len(run) - at), 0, -1):
            usual = dictionary.get(run[at : at + length])
            if usual and not _is_within_katakana(run, at, at + length):
                yield usual, length
                at += length
                break
        else:
            at += 1


def _is_within_katakana(run: str, begin: int, end: int) -> bool:
    """Whether a part of a text is only a piece of a longer word in Katakana, as of a loan word."""
    if end - begin >= _LONG_KATAKANA:
        return False
    return any(
        0 < at < len(run) and _KATAKANA.match(run[at - 1]) and _KATAKANA.match(run[at])
        for at in (begin, end)
    )


@cache
def _unspaced_dictionary(language: str) -> tuple[Mapping[str, str], int]:
    dictionary = dict(_dictionary(language).pairs())
    return dictionary, max(map(len, dictionary))
