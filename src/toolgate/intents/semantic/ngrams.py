"""Convert texts to vectors of words and character n-grams, robust against typing errors.

A text's features are its words, its pairs of neighbouring words, and the runs of 2 to 5
characters within each word and the blanks around it. Its start and end count as neighbours, since
requests begin and end with other words than reports. A text in another language has the features
of its translation word by word too, which it shares with English texts. Each is weighted by its
frequency in the text and its rarity among the prompts (TF-IDF with the logarithm of the count).
The many thousand features are folded into `COLUMNS` numbers by adding each, with a sign, to two
columns given by its hash (https://arxiv.org/abs/0902.2206): the similarity of two texts is
preserved up to a little noise, and only the frequency of each hash has to be stored, not a list of
features.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from toolgate.intents.semantic.readings import readable_texts

COLUMNS = 1024
"""Length of a text's vector. 2,048 gives no better results on clinc150, banking77 and hwu64."""

_BUCKETS = 2**20
"""Buckets of the rarity table (chosen): 4 MB as float32, few collisions among 10^5 features."""

# Chosen; limits the memory for hashes.
_BATCH = 512
"""Number of texts processed at once."""

# Chosen.
_LONGEST = 4_000
"""Characters of a text that are read."""

_REMEMBERED: Final = 8_192
"""Words in the cache after which it is emptied (chosen): about 4 MB."""

_TOKEN = re.compile(r"\w+|[^\w\s]")

Floats = NDArray[np.float32]
Hashes = NDArray[np.uint64]

FeatureCounts: TypeAlias = tuple[Hashes, NDArray[np.int64], NDArray[np.intp]]
"""The distinct features of some texts, the index of the text of each, and its count there."""

# Both constants are those of splitmix64: https://prng.di.unimi.it/splitmix64.c
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)
# The code point of a blank.
_BLANK = 32


def normalize_text(text: str) -> str:
    """Normalize a text: lower case, one blank between words and punctuation."""
    return " ".join(_words_of(text))


def _words_of(text: str) -> list[str]:
    """Return the words and signs of a text, in lower case."""
    return _TOKEN.findall(text[:_LONGEST].lower())


@dataclass(frozen=True, kw_only=True)
class NgramVectorizer:
    """Converts texts to rows, as learned from prompts."""

    rarity: NDArray[np.floating]
    """Shape (_BUCKETS,): the weight of a feature, 0 if no prompt has it."""

    def rows(self, texts: Sequence[str]) -> Floats:
        """Return shape (texts, COLUMNS); length about 1, or zeros if no feature is known."""
        return self.rows_of(count_features(texts), len(texts))

    def rows_of(self, parts: Sequence[FeatureCounts], n: int) -> Floats:
        """Return the rows of `n` texts that were counted before."""
        return folded_rows(self.rarity[:, None], parts, n)[:, 0]


def folded_rows(rarities: NDArray[np.floating], parts: Sequence[FeatureCounts], n: int) -> Floats:
    """Return the rows of `n` counted texts for several vectorizers at once.

    Args:
        rarities: Shape (_BUCKETS, vectorizers): the `rarity` of each.
        parts: The features of the texts, as by `count_features`.
        n: Number of texts.

    Returns:
        Shape (n, vectorizers, COLUMNS).
    """
    result = np.zeros((n, rarities.shape[1], COLUMNS), np.float32)
    for at, part in zip(range(0, n, _BATCH), parts, strict=True):
        size = min(_BATCH, n - at)
        result[at : at + size] = _folded(rarities, *part, size)
    return result


def _folded(
    rarities: NDArray[np.floating],
    features: Hashes,
    owners: NDArray[np.int64],
    counts: NDArray[np.intp],
    n: int,
) -> Floats:
    each = rarities.shape[1]
    frequency = 1 + np.log(counts.astype(np.float32))
    weights = rarities[_bucket(features)].astype(np.float32, copy=False) * frequency[:, None]
    # Each text has one row per vectorizer.
    rows: NDArray[np.int64] = np.add.outer(owners * each, np.arange(each, dtype=np.int64))
    lengths = np.sqrt(np.bincount(rows.ravel(), np.square(weights).ravel(), n * each))
    # Each feature goes into two columns; the factor sqrt(0.5) in each preserves its length.
    weights = weights / np.maximum(lengths, 1e-9)[rows] * np.float32(np.sqrt(0.5))
    result = np.zeros(n * each * COLUMNS, np.float64)
    rows *= COLUMNS
    # Two columns from disjoint bits of one hash: 10 bits of column and 1 of sign each.
    for half in (0, 20):
        bits = (features >> np.uint64(half)).astype(np.int64)[:, None]
        columns = rows + (bits & (COLUMNS - 1))
        signed = np.where(bits & COLUMNS, weights, -weights)
        result += np.bincount(columns.ravel(), signed.ravel(), len(result))
    return result.reshape(n, each, COLUMNS).astype(np.float32)


def fit_vectorizer(texts: Sequence[str]) -> NgramVectorizer:
    """Learn from prompts how rare each feature is."""
    return vectorizer_from_counts(count_features(texts), len(texts))


def vectorizer_from_counts(parts: Sequence[FeatureCounts], n: int) -> NgramVectorizer:
    """Learn the rarity of features from `n` texts that were counted before."""
    buckets = [np.zeros(0, np.int64), *(_bucket(features) for features, _, _ in parts)]
    seen, counts = np.unique(np.concatenate(buckets), return_counts=True)
    rarity = np.zeros(_BUCKETS, np.float32)
    # Smoothed inverse document frequency, as in scikit-learn: a feature of every prompt counts 1.
    rarity[seen] = np.log((1 + n) / (1 + counts)) + 1
    return NgramVectorizer(rarity=rarity)


def count_features(texts: Sequence[str]) -> list[FeatureCounts]:
    """Return the features of texts, for callers that need them more than once."""
    return [_counted(texts[at : at + _BATCH]) for at in range(0, len(texts), _BATCH)]


def _bucket(features: Hashes) -> NDArray[np.int64]:
    # The upper 20 bits, since `_BUCKETS` is 2**20.
    return (features >> np.uint64(44)).astype(np.int64)


def _counted(texts: Sequence[str]) -> FeatureCounts:
    """Return the distinct features of texts, the index of the text of each, and its count there."""
    features, owners = _features([_framed_words(text) for text in texts])
    # Sorting makes equal features of a text adjacent, so that runs are counts.
    if len(texts) == 1:
        features.sort()
    else:
        order = np.lexsort((features, owners))
        features, owners = features[order], owners[order]
    new = np.ones(len(features), np.bool_)
    new[1:] = (features[1:] != features[:-1]) | (owners[1:] != owners[:-1])
    starts = np.flatnonzero(new)
    return features[starts], owners[starts], np.diff(starts, append=len(features))


def _framed_words(text: str) -> list[str]:
    """Return the words of a text between two marks, then those of its English translation."""
    words = _words_of(text)
    if not words:
        return words
    (english,) = readable_texts([text])
    translated = _words_of(english) if english != text else []
    return [_MARK, *words, _MARK, *translated]


def _features(texts: Sequence[Sequence[str]]) -> tuple[Hashes, NDArray[np.int64]]:
    """Return a hash for each occurrence of a feature in texts of words, and its text's index."""
    words = [word for text in texts for word in text]
    hashed = _hashed_words(words)
    within = [hashed[word][0] for word in words]
    of_word = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    hashes = np.array([hashed[word][1] for word in words], np.uint64)
    beside = of_word[:-1] == of_word[1:]
    pairs = _mixed(_mixed(hashes[:-1] * _MIX + hashes[1:])[beside])
    owners = [np.repeat(of_word, [len(part) for part in within]), of_word[:-1][beside]]
    return np.concatenate([*within, pairs]), np.concatenate(owners)


_MARK: Final = ""
"""Stands for the start and the end of a text: it has no features but those of pairs."""

_MARKED: Final = {_MARK: (np.zeros(0, np.uint64), np.uint64(1))}

_HASHED: Final[dict[str, tuple[Hashes, np.uint64]]] = {}
"""Words with hashes of what is in them and of their own: messages repeat the same words."""


def _hashed_words(words: Sequence[str]) -> Mapping[str, tuple[Hashes, np.uint64]]:
    """Return, for each word, hashes of its features and the hash that pairs are made of."""
    known = {word: _HASHED[word] for word in words if word in _HASHED}
    known.update(_MARKED)
    unknown = [word for word in dict.fromkeys(words) if word not in known]
    if unknown:
        known.update(_newly_hashed(unknown))
        if len(_HASHED) > _REMEMBERED:
            _HASHED.clear()
        _HASHED.update((word, known[word]) for word in unknown[:_REMEMBERED])
    return known


def _newly_hashed(words: Sequence[str]) -> Mapping[str, tuple[Hashes, np.uint64]]:
    # One number per character, so that runs of characters are runs of the array.
    signs = np.frombuffer(f" {' '.join(words)} ".encode("utf-32-le", "replace"), np.uint32)
    owner = np.repeat(np.arange(len(words)), [len(word) + 1 for word in words])
    owner = np.append(owner, len(words) - 1)
    blank = signs == _BLANK
    hashed = (signs.astype(np.uint64) + np.uint64(1)) * _STEP
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(blank)])
    parts: list[Hashes] = []
    owners: list[NDArray[np.int64]] = []
    run = hashed
    for width in range(2, 6):
        if len(signs) < width:
            break
        run = _mixed(run[:-1] * _MIX + hashed[width - 1 :])
        # Blanks only at the ends: the run is within one word.
        inner = before[width - 1 : len(signs)] - before[1 : len(signs) - width + 2]
        whole = inner == 0
        parts.append((run + np.uint64(width))[whole])
        # A blank belongs to the word after it, so use a character of the word.
        inside = np.where(blank[: len(run)], owner[1 : len(run) + 1], owner[: len(run)])
        owners.append(inside[whole])
    own = _word_hashes(hashed, blank)
    features = _mixed(np.concatenate([*parts, own]))
    owner = np.concatenate([*owners, np.arange(len(words))])
    order = np.argsort(owner, kind="stable")
    split = np.split(features[order], np.cumsum(np.bincount(owner))[:-1])
    # Copies, so that the cache does not keep the arrays of all words of a training.
    return {word: (part.copy(), hash_) for word, part, hash_ in zip(words, split, own, strict=True)}


def _word_hashes(hashed: Hashes, blank: NDArray[np.bool_]) -> Hashes:
    """Return a hash for each word, of its characters and their positions."""
    gaps = np.flatnonzero(blank)
    starts, ends = gaps[:-1] + 1, gaps[1:]
    places = np.arange(len(hashed)) - np.repeat(gaps, np.diff(np.append(gaps, len(hashed))))
    placed = _mixed(hashed * (2 * places.astype(np.uint64) + np.uint64(3)))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(placed, dtype=np.uint64)])
    return _mixed(sums[ends] - sums[starts] + np.uint64(7))


def _mixed(hashes: Hashes) -> Hashes:
    """Mix hashes so that each bit depends on every other (the end of splitmix64)."""
    hashes = (hashes ^ (hashes >> np.uint64(30))) * _MIX
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashes ^ (hashes >> np.uint64(31))
