"""A trained classifier of sentences: how similar one is to sentences that steer models.

Rules and signals match words; the classifier has learned, from thousands of sentences of both
kinds, which words and signals occur together in orders to a model. It is linear: the score of a
sentence is the sum of the weights of its words, of word parts and pairs, and of its signals.
`python -m training.steering` creates its weights.
"""

import math
import re
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import chain, combinations
from typing import Final, NamedTuple

import numpy as np

from toolgate.catalog.scanner.sentences import Sentence
from toolgate.catalog.scanner.signals import Signal

__all__ = [
    "FEATURES",
    "FEWEST_WORDS",
    "Classifier",
    "ScoredSentence",
    "damping",
    "feature_ids",
    "load_classifier",
    "signal_features",
]

FEATURES: Final = 1 << 16
"""Number of weights; features with the same hash share one (chosen)."""

_MASK: Final = FEATURES - 1
_MOST_WORDS: Final = 120
"""Longest sentence in words; the rest is scored as another sentence (chosen)."""

FEWEST_WORDS: Final = 4
"""Shortest sentence in words that can give an order (chosen)."""

_DAMPING: Final = 30
"""Features added to the count of a sentence's features (chosen on held-out sentences)."""

_CLASSES: Final = (
    ("://", re.compile(r"\b(?:https?|wss?|ftp|s3)://\S+"), " anurl "),
    ("@", re.compile(r"(?<![\w.+-])[\w.+-]++@[\w-]++\.[\w.-]+"), " amailaddress "),
    (".", re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"), " anurl "),
    ("~/", re.compile(r"~/\.?\w[\w./-]*"), r" ahomefile \g<0> "),
    ("/etc/", re.compile(r"/etc/\w+"), r" ahomefile \g<0> "),
    (".env", re.compile(r"(?<!\w)\.env\b"), r" ahomefile \g<0> "),
    ("0", re.compile(r"\b0x[0-9a-f]{12,}\b|\b[a-z]{2}\d{14,}\b"), " anaccount "),
)
"""Values that differ between texts and mean the same: addresses, personal files, accounts. Each
with a substring that every text with it contains, for speed."""

_NUMBER: Final = re.compile(r"\d+")

_WORD: Final = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_]+(?:['’][^\W_]+)?|<!--|-->|[<>`\[\]!:;]"
)
"""A word; a single character in scripts that are written without spaces."""


def _words(sentence: str) -> list[str]:
    text = sentence.lower()
    for needed, pattern, name in _CLASSES:
        if needed in text:
            text = pattern.sub(name, text)
    words: list[str] = []
    third = second = last = ""
    for word in _WORD.findall(_NUMBER.sub("0", text)):
        # An immediate repetition, as in long lists of numbers, adds no information.
        if word not in (last, second, third):
            words.append(word)
        third, second, last = second, last, word
    return words


def _hash(word: str) -> int:
    return zlib.crc32(word.encode("utf-8", "surrogatepass"))


def _word_ids(word: str) -> list[int]:
    """Return the features of a single word: the word, and its parts of four letters."""
    ids = [_hash(word) & _MASK]
    if len(word) > 4:
        marked = f"<{word}>"
        ids += [_hash(f"#{marked[at : at + 4]}") & _MASK for at in range(len(marked) - 3)]
    return ids


def _pair_ids(hashes: Sequence[int]) -> list[int]:
    """Return the features of adjacent words, of words with one in between, and of three words."""
    nexts, others = hashes[1:], hashes[2:]
    return [
        *((one * 31 + two) & _MASK for one, two in zip(hashes, nexts, strict=False)),
        *((one * 131 + three + 7) & _MASK for one, three in zip(hashes, others, strict=False)),
        *(
            (one * 961 + two * 37 + three + 13) & _MASK
            for one, two, three in zip(hashes, nexts, others, strict=False)
        ),
    ]


def feature_ids(sentence: str) -> list[int]:
    """Return the features of a plain sentence, repeated as often as they occur."""
    words = _words(sentence)[:_MOST_WORDS]
    return [
        *(feature for word in words for feature in _word_ids(word)),
        *_pair_ids([_hash(word) for word in words]),
    ]


def damping(count: int) -> float:
    """Return the factor for the sum of `count` weights: a few words alone are no evidence."""
    return 1 / math.sqrt(count + _DAMPING)


def signal_features(signals: Iterable[Signal]) -> frozenset[str]:
    """Return the features of a sentence's signals: which ones, and of which groups."""
    present = {signal.id: signal.group for signal in signals}
    groups = Counter(present.values())
    several = (f"several {group}s" for group, count in groups.items() if count > 1)
    pairs = (f"{one} and {other}" for one, other in combinations(sorted(groups), 2))
    return frozenset((*present, *(f"a {group}" for group in groups), *several, *pairs))


@dataclass(frozen=True, kw_only=True)
class ScoredSentence:
    """A sentence, or two adjacent ones, with its score."""

    text: str
    """The normalized text."""

    score: float
    """Confidence that it steers a model; 0 to 1."""


class _Window(NamedTuple):
    """The parts of a sentence's score."""

    text: str
    total: float
    features: int
    words: int
    signals: tuple[Signal, ...]


class Classifier:
    """Scores sentences."""

    def __init__(
        self, weights: Sequence[float], bias: float, signal_weights: Mapping[str, float]
    ) -> None:
        """Create a classifier.

        Args:
            weights: `FEATURES` weights, of words and pairs of words by hash.
            bias: Score of a sentence without features, as a logit.
            signal_weights: Weights of the features that `signal_features` returns.
        """
        self._weights = weights
        self._bias = bias
        self._signal_weights = signal_weights
        self._word_sums = lru_cache(maxsize=32_768)(self._sum_of_word)

    def most_steering(self, sentences: Iterable[Sentence]) -> ScoredSentence | None:
        """Return the sentence, or adjacent pair, with the highest score; None without words."""
        best_logit, best, before = -math.inf, "", None
        for window in chain.from_iterable(map(self._windows, sentences)):
            if window.words >= FEWEST_WORDS:
                logit = self._logit(window.total, window.features, window.signals)
                if logit > best_logit:
                    best_logit, best = logit, window.text
            if before is not None and before.words + window.words >= FEWEST_WORDS:
                logit = self._logit(
                    before.total + window.total,
                    before.features + window.features,
                    before.signals + window.signals,
                )
                if logit > best_logit:
                    best_logit, best = logit, f"{before.text} {window.text}"
            before = window
        if not best:
            return None
        return ScoredSentence(text=best, score=1 / (1 + math.exp(-max(-50.0, best_logit))))

    def _logit(self, total: float, count: int, signals: tuple[Signal, ...]) -> float:
        logit = self._bias + total * damping(count)
        if signals:
            weights = self._signal_weights
            logit += sum(weights.get(name, 0.0) for name in signal_features(signals))
        return logit

    def _windows(self, sentence: Sentence) -> Iterator[_Window]:
        """Yield the sentence with the weights of its features; several parts if it is very long."""
        words = _words(sentence.text)
        for begin in range(0, len(words), _MOST_WORDS):
            part = words[begin : begin + _MOST_WORDS]
            sums = [self._word_sums(word) for word in part]
            pairs = _pair_ids([word_hash for _, _, word_hash in sums])
            total = sum(word_total for word_total, _, _ in sums)
            total += sum(map(self._weights.__getitem__, pairs))
            count = sum(word_count for _, word_count, _ in sums) + len(pairs)
            yield _Window(
                text=sentence.text,
                total=total,
                features=count,
                words=len(part),
                signals=sentence.signals,
            )

    def _sum_of_word(self, word: str) -> tuple[float, int, int]:
        """Return the sum of a word's weights, their number, and the hash of the word."""
        ids = _word_ids(word)
        return sum(self._weights[feature] for feature in ids), len(ids), _hash(word)


@lru_cache(maxsize=1)
def load_classifier() -> Classifier:
    """Return the classifier that ships with Toolgate."""
    path = files("toolgate.catalog.scanner").joinpath("classifier.npz")
    with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        scaled = stored["weights"].astype(np.float32) * float(stored["scale"])
        # A list of floats takes eight times the memory.
        weights = array("f", scaled.astype(np.float32).tobytes())
        names, values = stored["signals"].tolist(), stored["signal_weights"].tolist()
        signal_weights = dict(zip(names, values, strict=True))
        return Classifier(weights, float(stored["bias"]), signal_weights)
