"""Splits texts into words and terms, in the same way for tools and requests.

Identifiers (`create_issue`, `createIssue`, `create-issue`, `base64`) are split and also kept
whole, letters are folded (case, width, accents), and words are stemmed: Latin ones as English,
Cyrillic, Greek, Arabic and some others by their own rules. Scripts without spaces between words
give overlapping pairs of characters, so that a request in Chinese finds a description in
Chinese.
"""

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import Stemmer

IGNORED = frozenset(
    """
    a an the and or of to in on at by for from with as is are was were be been it its this that
    these those i me my we us our you your he she they them their can could would should will
    shall may might do does did have has had please want need like get give tell show help using
    use what which who how when where why if then so also any some all about into out up more
    most 的 了 是 我 你 他 她 们 请 在 和 与 或 吗 呢 吧 把 给 这 那 帮 想
    """.split()  # noqa: SIM905 - ninety quoted words are harder to read
)
"""Words of a request that say nothing about the tool. A tool's own text keeps them: in a name
such as `get_help` they have a meaning. This is the list that was evaluated, plus a few Chinese
words."""

_NOISE = IGNORED & frozenset(
    "a an the and or of to in on at by for from with as is are be it this that".split()  # noqa: SIM905
)
"""Words that are ignored in tools' texts, except in names."""

# A word: letters and digits, with the vowel signs that Python does not count as letters, joined by
# `_` or `-` inside. Each part counts, and so does the entire word.
_SIGNS = (
    "\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670"  # Hebrew, Arabic
    "\u0900-\u0963\u0966-\u0dff\u0e31-\u0e4e\u0eb1-\u0ece"  # Indic scripts, Thai, Lao
)
_WORD = re.compile(rf"(?:[^\W_]|[{_SIGNS}])+(?:[_\-](?:[^\W_]|[{_SIGNS}])+)*")
_ASCII_WORD = re.compile(r"[A-Za-z0-9]+(?:[_\-][A-Za-z0-9]+)*")
_PART = re.compile(
    r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\x00-\x7f]+"  # HTTPServer -> HTTP Server; v2 -> v 2
)
_ACCENT = re.compile("[\u0300-\u036f]")
_LETTERS = str.maketrans(
    {"ß": "ss", "ẞ": "SS", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O"}
    | {"ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ð": "d", "Ð": "D", "þ": "th", "Þ": "TH", "ı": "i"}
)
_LETTER = re.compile(f"[{''.join(map(chr, _LETTERS))}]")
_HAN = "\u2e80-\u2fdf\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_KANA = "\u3040-\u30ff\u31f0-\u31ff"
_HANGUL = "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"
_THAI_TO_KHMER = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_UNSPACED = re.compile(rf"[{_HAN}]+|[{_KANA}]+|[{_HANGUL}]+|[{_THAI_TO_KHMER}]+")
_HAN_RUN = re.compile(rf"[{_HAN}]+")

_LONGEST = 64
"""Most characters of a word that count; base64 blobs in descriptions are not words; chosen."""


def _stemmer(language: str) -> Callable[[str], str]:
    return Stemmer.Stemmer(language, 0).stemWord  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


_stem_english = _stemmer("english")
_STEMMED = (
    (re.compile("[\u0400-\u052f]+"), _stemmer("russian")),
    (re.compile("[\u0370-\u03ff\u1f00-\u1fff]+"), _stemmer("greek")),
    (re.compile("[\u0600-\u06ff]+"), _stemmer("arabic")),
    (re.compile("[\u0900-\u097f]+"), _stemmer("hindi")),
    (re.compile("[\u0b80-\u0bff]+"), _stemmer("tamil")),
    (re.compile("[\u0530-\u058f]+"), _stemmer("armenian")),
)
"""Scripts and the stemmer of the most common language of each: the rules for Russian also work
nearly as well for Ukrainian. Latin has only the English one, since the language of a tool's name
is unknown."""
_HEBREW = re.compile("[\u05d0-\u05ea]{4,}")
_HEBREW_PREFIX = frozenset("והבלמשכ")  # and, the, in, to, from, that, as: written into the word
_stemmer_lock = threading.Lock()  # a Stemmer object is not safe to share between threads
_terms_of_word: dict[str, tuple[str, ...]] = {}
_KNOWN_MOST = 200_000
"""Most words whose terms are cached before the cache is cleared; chosen."""


def fold(text: str) -> str:
    """Remove differences of case, width and accents."""
    if text.isascii():
        return text.lower()
    return _unaccented(text).casefold()


def fold_all(texts: Iterable[str]) -> tuple[str, ...]:
    """Fold each text, as `fold` does."""
    return tuple([fold(text) for text in texts])


def split_identifier(name: str) -> list[str]:
    """Split a name into its words as written: `createIssue_v2` gives create, Issue, v, 2."""
    return [part for word in words(name) for part in _parts(word)]


def words(text: str) -> list[str]:
    """Return the words of a text as written; joined words stay whole."""
    return (_ASCII_WORD if text.isascii() else _WORD).findall(text)


@lru_cache(maxsize=64)
def words_of_request(request: str) -> tuple[str, ...]:
    """Return the words of a request; cached, since several parts of a search need them."""
    return tuple(words(request))


def terms(word: str) -> tuple[str, ...]:
    """Return the terms of a word: its stemmed parts, and the whole if it has several."""
    stems = _terms_of_word.get(word)
    if stems is None:
        if len(_terms_of_word) >= _KNOWN_MOST:
            _terms_of_word.clear()
        read = _stems_of if word.isascii() else _analyse
        stems = _terms_of_word[word] = tuple(dict.fromkeys(read(word[:_LONGEST])))
    return stems


def term_of(word: str) -> str:
    """Return the term of a word; for a joined word, that of the whole."""
    every = terms(word)
    return every[-1] if every else ""


def terms_of(words: Iterable[str]) -> tuple[str, ...]:
    """Return the term of each word, as `term_of` does."""
    return tuple([term_of(word) for word in words])


def is_noise(term: str) -> bool:
    """Return whether a term in a tool's prose is meaningless: an article, or a single letter."""
    return term in _NOISE or (len(term) == 1 and term.isascii())


def _stems_of(word: str) -> Iterator[str]:
    """Yield the same terms as `_analyse` for an ASCII word."""
    parts = [part.lower() for part in _PART.findall(word)]
    yield from map(_stem_of_part, parts)
    if len(parts) > 1:
        yield _stem("".join(parts))


def _analyse(word: str) -> Iterator[str]:
    parts = _parts(word)
    for part in parts:
        plain = fold(part)
        if plain.isascii():
            yield _stem(plain)
        else:
            yield from _unspaced(plain)
    if len(parts) > 1:
        whole = "".join(fold(part) for part in parts)
        if whole.isascii():
            yield _stem(whole)


def _parts(word: str) -> list[str]:
    # Accented Latin letters belong to their word: accents are removed before it is split.
    return _PART.findall(word if word.isascii() else _unaccented(word))


def _unaccented(text: str) -> str:
    if _LETTER.search(text):  # rare, and looked for in a fraction of the time of replacing them
        text = text.translate(_LETTERS)
    bare = _ACCENT.sub("", unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFC", bare)


def _stem(word: str) -> str:
    with _stemmer_lock:
        return _stem_english(word)


@lru_cache(maxsize=50_000)
def _stem_of_part(part: str) -> str:
    return _stem(part)


def _unspaced(text: str) -> Iterator[str]:
    """Yield the terms of a word with letters beyond ASCII."""
    at = 0
    for run in _UNSPACED.finditer(text):
        if run.start() > at:
            yield from _spaced(text[at : run.start()])
        yield from _grams(run.group())
        at = run.end()
    if at < len(text):
        yield from _spaced(text[at:])


def _spaced(word: str) -> Iterator[str]:
    """Yield the stem of a word; for Hebrew, the word itself and the word without its prefix."""
    for script, stem in _STEMMED:
        if script.fullmatch(word):
            with _stemmer_lock:
                yield fold(stem(word)) or word
            return
    yield word
    if _HEBREW.fullmatch(word) and word[0] in _HEBREW_PREFIX:
        yield word[1:]


def _grams(run: str) -> Iterator[str]:
    if _HAN_RUN.fullmatch(run):
        yield from run
    elif len(run) <= 2:
        yield run
    for at in range(len(run) - 1):
        yield run[at : at + 2]
