"""A trained classifier of sentences: how similar one is to sentences that steer models.

Rules and signals match words; the classifier has learned, from thousands of sentences of both
kinds, what orders to a model look like. A sentence's score is the sum of two parts: a linear one,
with a weight for each of its words, word parts, pairs of words and traits; and a small neural
network, whose inputs are the traits and the sentence's vector from the bundled embedding table, so
that it also knows words that no training text contains. `python -m training.steering` creates it.
"""

import math
import re
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import combinations
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from toolgate.catalog.scanner.sentences import Sentence
from toolgate.catalog.scanner.signals import Signal
from toolgate.models.embedders import bundled_vectors

FEATURES: Final = 1 << 16
"""Number of weights; features with the same hash share one (chosen)."""

_MASK: Final = FEATURES - 1
_MOST_WORDS: Final = 120
"""Longest sentence in words; the rest is scored as another sentence (chosen)."""

FEWEST_WORDS: Final = 4
"""Shortest sentence in words that can give an order (chosen)."""

_DAMPING: Final = 30
"""Features added to the count of a sentence's features (chosen on held-out sentences)."""

_LEAST_LINEAR: Final = -0.7
"""Linear score, as a logit, below which the network is not asked, for speed: of 15,540 sentences
and pairs of real tools and of `steering_texts.jsonl`, none below it had a score of 0.9 with the
network, and two-thirds of those of real tools are below it (measured)."""

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


Place: TypeAlias = Literal["description", "parameter", "value"]
"""The place of a text: anywhere, the description of a parameter, or among values and labels."""

Vectors: TypeAlias = Callable[[Sequence[str]], NDArray[np.float32]]
"""Computes the vectors of sentences, one row for each."""


def traits(
    signals: Iterable[Signal], place: Place, *, is_first: bool, is_pair: bool
) -> frozenset[str]:
    """Return the traits of a sentence: its signals, their groups, and its position.

    Args:
        signals: Its signals.
        place: The place of its text.
        is_first: Whether it begins its text.
        is_pair: Whether it is two adjacent sentences.
    """
    present = {signal.id: signal.group for signal in signals}
    groups = Counter(present.values())
    several = (f"several {group}s" for group, count in groups.items() if count > 1)
    pairs = (f"{one} and {other}" for one, other in combinations(sorted(groups), 2))
    position = [place, *(["first"] if is_first else []), *(["pair"] if is_pair else [])]
    return frozenset((*present, *(f"a {group}" for group in groups), *several, *pairs, *position))


@dataclass(frozen=True, kw_only=True)
class ScoredSentence:
    """A sentence, or two adjacent ones, with its score."""

    text: str
    """The normalized text."""

    score: float
    """Confidence that it steers a model; 0 to 1."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """A neural network with one hidden layer, which adds to the linear score."""

    traits: Sequence[str]
    """Names of the traits that it reads."""

    of_vector: NDArray[np.float32]
    """Weights of the vector's numbers: shape `(dim, hidden)`."""

    of_traits: NDArray[np.float32]
    """Weights of the traits: shape `(len(traits), hidden)`."""

    hidden_bias: NDArray[np.float32]
    """What is added to each hidden unit."""

    out: NDArray[np.float32]
    """Weights of the hidden units."""

    def scores(
        self, vectors: NDArray[np.float32], indicators: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return the part of the logit of each row of vectors and of indicators of traits."""
        hidden = vectors @ self.of_vector
        hidden += indicators @ self.of_traits
        hidden += self.hidden_bias
        scores: NDArray[np.float32] = np.maximum(hidden, 0) @ self.out
        return scores


class _Part(NamedTuple):
    """A sentence, or a part of a very long one, with the sums of its weights."""

    text: str
    total: float
    features: int
    words: int
    signals: tuple[Signal, ...]
    is_first: bool


class _Window(NamedTuple):
    """What is scored: a sentence or two adjacent ones."""

    text: str
    linear: float
    traits: frozenset[str]


class Classifier:
    """Scores sentences."""

    def __init__(
        self,
        weights: Sequence[float],
        bias: float,
        trait_weights: Mapping[str, float],
        network: Network,
        vectors: Vectors = bundled_vectors,
    ) -> None:
        """Create a classifier.

        Args:
            weights: `FEATURES` weights, of words and pairs of words by hash.
            bias: Score of a sentence without features, as a logit.
            trait_weights: Weights of what `traits` returns.
            network: The network.
            vectors: Computes the vectors that the network was trained with.
        """
        self._weights = weights
        self._bias = bias
        self._trait_weights = trait_weights
        self._network = network
        self._columns = {name: at for at, name in enumerate(network.traits)}
        self._vectors = vectors
        self._word_sums = lru_cache(maxsize=32_768)(self._sum_of_word)

    def most_steering(
        self, sentences: Iterable[Sentence], place: Place = "description"
    ) -> ScoredSentence | None:
        """Return the sentence, or adjacent pair, with the highest score; None without words.

        Args:
            sentences: The sentences of a text, in order.
            place: The place of the text.
        """
        windows = list(self._windows(sentences, place))
        if not windows:
            return None
        likely = [window for window in windows if window.linear >= _LEAST_LINEAR]
        if likely:
            logits = self._logits(likely)
            best = int(np.argmax(logits))
            window, logit = likely[best], float(logits[best])
        else:
            window = max(windows, key=lambda window: window.linear)
            logit = window.linear
        score = 1 / (1 + math.exp(-max(-50.0, logit)))
        return ScoredSentence(text=window.text, score=score)

    def _logits(self, windows: Sequence[_Window]) -> NDArray[np.float32]:
        indicators = np.zeros((len(windows), len(self._columns)), np.float32)
        for row, window in zip(indicators, windows, strict=True):
            for name in window.traits:
                if (column := self._columns.get(name)) is not None:
                    row[column] = 1
        vectors = self._vectors([window.text for window in windows])
        linear = np.array([window.linear for window in windows], np.float32)
        return linear + self._network.scores(vectors, indicators)

    def _windows(self, sentences: Iterable[Sentence], place: Place) -> Iterator[_Window]:
        """Yield sentences and pairs of adjacent ones, if they have enough words."""
        before: _Part | None = None
        for part in self._parts(sentences):
            if part.words >= FEWEST_WORDS:
                yield self._window([part], place)
            # The same sentence again says no more, but would count twice as evidence.
            if (
                before is not None
                and before.text.strip() != part.text.strip()
                and before.words + part.words >= FEWEST_WORDS
            ):
                yield self._window([before, part], place)
            before = part

    def _window(self, parts: Sequence[_Part], place: Place) -> _Window:
        names = traits(
            (signal for part in parts for signal in part.signals),
            place,
            is_first=parts[0].is_first,
            is_pair=len(parts) > 1,
        )
        linear = self._bias + sum(self._trait_weights.get(name, 0.0) for name in names)
        total = sum(part.total for part in parts)
        linear += total * damping(sum(part.features for part in parts))
        return _Window(text=" ".join(part.text for part in parts), linear=linear, traits=names)

    def _parts(self, sentences: Iterable[Sentence]) -> Iterator[_Part]:
        """Yield sentences with the sums of their weights; several parts of very long ones."""
        for at, sentence in enumerate(sentences):
            words = _words(sentence.text)
            for begin in range(0, len(words), _MOST_WORDS):
                part = words[begin : begin + _MOST_WORDS]
                sums = [self._word_sums(word) for word in part]
                pairs = _pair_ids([word_hash for _, _, word_hash in sums])
                total = sum(word_total for word_total, _, _ in sums)
                total += sum(map(self._weights.__getitem__, pairs))
                yield _Part(
                    text=sentence.text if len(words) <= _MOST_WORDS else " ".join(part),
                    total=total,
                    features=sum(word_count for _, word_count, _ in sums) + len(pairs),
                    words=len(part),
                    signals=sentence.signals,
                    is_first=at == 0 and begin == 0,
                )

    def _sum_of_word(self, word: str) -> tuple[float, int, int]:
        """Return the sum of a word's weights, their number, and the hash of the word."""
        ids = _word_ids(word)
        return sum(self._weights[feature] for feature in ids), len(ids), _hash(word)


@lru_cache(maxsize=1)
def load_classifier(vectors: Vectors = bundled_vectors) -> Classifier:
    """Return the classifier that ships with Toolgate.

    Args:
        vectors: Computes the vectors of sentences; others than the bundled ones are for tests.
    """
    path = files("toolgate.catalog.scanner").joinpath("classifier.npz")
    with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        scaled = stored["weights"].astype(np.float32) * float(stored["scale"])
        # A list of floats takes eight times the memory.
        weights = array("f", scaled.astype(np.float32).tobytes())
        names = stored["traits"].tolist()
        network = Network(
            traits=names,
            of_vector=stored["of_vector"].astype(np.float32),
            of_traits=stored["of_traits"].astype(np.float32),
            hidden_bias=stored["hidden_bias"].astype(np.float32),
            out=stored["out"].astype(np.float32),
        )
        trait_weights = dict(zip(names, stored["trait_weights"].tolist(), strict=True))
        return Classifier(weights, float(stored["bias"]), trait_weights, network, vectors)
