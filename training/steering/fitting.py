"""Fits the two parts of the classifier together: the linear one and the network."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from toolgate.catalog.scanner.classifier import (
    FEATURES,
    FEWEST_WORDS,
    Classifier,
    Network,
    Place,
    damping,
    feature_ids,
    traits,
)
from toolgate.catalog.scanner.sentences import Sentence
from toolgate.models.embedders import bundled_vectors

FOLDS: Final = 5

Floats = NDArray[np.float64]

# Chosen by cross-validation.
_EPOCHS: Final = 8
_BATCH: Final = 256
_RATE: Final = 0.2
_DECAY: Final = 1e-5
_TRAIT_RATE: Final = 0.05
_TRAIT_DECAY: Final = 1e-4
_FIRST_SQUARE: Final = 1e-3
_HIDDEN: Final = 64
_NETWORK_RATE: Final = 2e-3
_NETWORK_DECAY: Final = 0.02
_FITS: Final = 3
_VECTOR_SCALE: Final = 8.0
"""Factor for the vectors, whose numbers are small, so that the network learns from them faster."""
_DROPPED: Final = 0.2
"""Share of the inputs and of the hidden units of the network that are left out in a step."""
_COMMON_SHARE: Final = 0.6
"""Share of the examples of public catalogs and of composed ones that each epoch uses."""
_SMOOTHING: Final = 0.01
"""Share of the label that is unknown."""
_COMMON_WEIGHT: Final = 1.0
"""Highest weight of these examples; the others are used in each epoch."""


@dataclass
class Examples:
    """Sentences as features, with their labels."""

    texts: list[str] = field(default_factory=list[str])
    ids: list[NDArray[np.int32]] = field(default_factory=list[NDArray[np.int32]])
    traits: list[frozenset[str]] = field(default_factory=list[frozenset[str]])
    labels: list[float] = field(default_factory=list[float])
    """1 for sentences that steer, 0 for others."""
    weights: list[float] = field(default_factory=list[float])
    folds: list[int] = field(default_factory=list[int])
    """The fold of the cross-validation to which it belongs; -1: none."""

    def add_text(
        self,
        sentences: Sequence[Sentence],
        labels: float | Sequence[float],
        *,
        place: Place = "description",
        follows: bool = False,
        weight: float = 1.0,
        fold: int = -1,
    ) -> None:
        """Add the sentences of a text, each alone and with the next one, except very short ones.

        Args:
            sentences: The sentences.
            labels: One label for all, or one per sentence.
            place: The place of the text.
            follows: Whether other sentences come before them.
            weight: Weight of each.
            fold: Their fold.
        """
        given = [labels] * len(sentences) if isinstance(labels, int | float) else labels
        labelled = list(zip(sentences, given, strict=True))
        for at, (sentence, label) in enumerate(labelled):
            for part in ([(sentence, label)], labelled[at : at + 2])[: 1 + (at + 1 < len(given))]:
                text = " ".join(of.text for of, _ in part)
                if len(text.split()) < FEWEST_WORDS and text.isascii():
                    continue
                self.texts.append(text)
                self.ids.append(np.array(feature_ids(text), np.int32))
                self.traits.append(
                    traits(
                        (signal for of, _ in part for signal in of.signals),
                        place,
                        is_first=at == 0 and not follows,
                        is_pair=len(part) > 1,
                    )
                )
                self.labels.append(max(label for _, label in part))
                self.weights.append(weight)
                self.folds.append(fold)


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A fitted classifier with linear weights of eight bits."""

    packed: NDArray[np.int8]
    scale: float
    bias: float
    trait_weights: dict[str, float]
    network: Network

    @property
    def classifier(self) -> Classifier:
        """Return it as the classifier that the scanner uses."""
        weights = (self.packed * self.scale).tolist()
        return Classifier(weights, self.bias, self.trait_weights, self.network)

    def save(self, path: Path) -> None:
        """Write the file that `load_classifier` reads."""
        np.savez_compressed(
            path,
            weights=self.packed,
            scale=np.float32(self.scale),
            bias=np.float32(self.bias),
            traits=np.array(list(self.trait_weights)),
            trait_weights=np.array(list(self.trait_weights.values()), np.float32),
            of_vector=self.network.of_vector.astype(np.float16),
            of_traits=self.network.of_traits.astype(np.float16),
            hidden_bias=self.network.hidden_bias.astype(np.float16),
            out=self.network.out.astype(np.float16),
        )


def fit(examples: Examples, *, leave_out: int | None = None) -> Fitted:
    """Fit to all examples except those of the fold that is left out.

    The result is the mean of several fits, which depends less on chance than one does.
    """
    folds = np.array(examples.folds)
    inputs = _Inputs.of(examples)
    kept = np.ones(len(folds), bool) if leave_out is None else folds != leave_out
    fits = [_fit(inputs, kept, np.random.default_rng(seed)) for seed in range(_FITS)]
    words, of_traits, bias = (
        np.mean([getattr(linear, part).values for linear, _ in fits], axis=0)
        for part in ("words", "traits", "bias")
    )
    scale = float(np.abs(words).max() / 127)
    return Fitted(
        packed=np.round(words / scale).astype(np.int8),
        scale=scale,
        bias=float(bias[0]),
        trait_weights=dict(zip(inputs.names, of_traits.tolist(), strict=True)),
        network=_mean([network.network(inputs.names) for _, network in fits]),
    )


def _fit(
    inputs: "_Inputs", kept: NDArray[np.bool_], rng: np.random.Generator
) -> "tuple[_Linear, _Layers]":
    labels, weights = inputs.labels, inputs.weights
    common = np.flatnonzero(kept & (weights <= _COMMON_WEIGHT))
    rare = np.flatnonzero(kept & (weights > _COMMON_WEIGHT))
    importance = _importance(labels, weights, common, rare)
    linear = _Linear(len(inputs.names))
    network = _Layers(inputs.vectors.shape[1], len(inputs.names), rng)
    for epoch in range(_EPOCHS):
        some = rng.choice(common, int(len(common) * _COMMON_SHARE), replace=False)
        order = rng.permutation(np.concatenate([rare, some]))
        for begin in range(0, len(order), _BATCH):
            rows = order[begin : begin + _BATCH]
            features = inputs.features(rows)
            logits = linear.logits(features, inputs.indicators[rows])
            logits += network.forward(inputs.vectors[rows], inputs.indicators[rows], rng)
            smooth = labels[rows] * (1 - 2 * _SMOOTHING) + _SMOOTHING
            error = (1 / (1 + np.exp(-logits)) - smooth) * importance[rows] / len(rows)
            linear.step(features, inputs.indicators[rows], error)
            network.step(error, _NETWORK_RATE * (1 - epoch / _EPOCHS))
    return linear, network


def _mean(networks: Sequence[Network]) -> Network:
    """Return a network that gives the mean of what several give: all their hidden units."""
    return Network(
        traits=networks[0].traits,
        of_vector=np.concatenate([network.of_vector for network in networks], axis=1),
        of_traits=np.concatenate([network.of_traits for network in networks], axis=1),
        hidden_bias=np.concatenate([network.hidden_bias for network in networks]),
        out=np.concatenate([network.out for network in networks]) / np.float32(len(networks)),
    )


@dataclass(frozen=True, kw_only=True)
class _Features:
    """The hashed features of several rows."""

    ids: NDArray[np.int32]
    row: NDArray[np.intp]
    value: Floats
    count: int


@dataclass(frozen=True, kw_only=True)
class _Inputs:
    """Examples as arrays."""

    names: list[str]
    flat: NDArray[np.int32]
    starts: NDArray[np.intp]
    indicators: NDArray[np.float32]
    vectors: NDArray[np.float32]
    labels: Floats
    weights: Floats

    @classmethod
    def of(cls, examples: Examples) -> "_Inputs":
        names = sorted(set().union(*examples.traits))
        column = {name: at for at, name in enumerate(names)}
        indicators = np.zeros((len(examples.traits), len(names)), np.float32)
        for row, present in enumerate(examples.traits):
            indicators[row, [column[name] for name in present]] = 1
        lengths = [len(part) for part in examples.ids]
        return cls(
            names=names,
            flat=np.concatenate(examples.ids),
            starts=np.concatenate([[0], np.cumsum(lengths)]).astype(np.intp),
            indicators=indicators,
            vectors=bundled_vectors(examples.texts),
            labels=np.array(examples.labels, np.float64),
            weights=np.array(examples.weights, np.float64),
        )

    def features(self, rows: NDArray[np.intp]) -> _Features:
        lengths = self.starts[rows + 1] - self.starts[rows]
        row = np.repeat(np.arange(len(rows)), lengths)
        share = np.array([damping(int(length)) for length in lengths])
        ids = np.concatenate([self.flat[self.starts[at] : self.starts[at + 1]] for at in rows])
        return _Features(ids=ids, row=row, value=share[row], count=len(rows))


class _Linear:
    """The linear part, fitted by Adagrad."""

    def __init__(self, traits_count: int) -> None:
        self.words = _Weights(FEATURES)
        self.traits = _Weights(traits_count)
        self.bias = _Weights(1)

    def logits(self, features: _Features, indicators: NDArray[np.float32]) -> Floats:
        values = self.words.values[features.ids] * features.value
        logits: Floats = np.bincount(features.row, values, features.count).astype(np.float64)
        logits += self.bias.values[0] + indicators @ self.traits.values
        return logits

    def step(self, features: _Features, indicators: NDArray[np.float32], error: Floats) -> None:
        shares = error[features.row] * features.value
        gradient = np.bincount(features.ids, shares, FEATURES).astype(np.float64)
        self.words.step(gradient, _RATE, _DECAY)
        self.traits.step(indicators.T @ error, _TRAIT_RATE, _TRAIT_DECAY)
        self.bias.step(np.array([error.sum()]), _RATE, 0.0)


class _Weights:
    """Weights with the squares of their gradients, as in Adagrad."""

    def __init__(self, count: int) -> None:
        self.values = np.zeros(count)
        self._squares = np.full(count, _FIRST_SQUARE)

    def step(self, gradient: Floats, rate: float, decay: float) -> None:
        gradient = gradient + decay * self.values
        self._squares += gradient**2
        self.values -= rate * gradient / np.sqrt(self._squares)


class _Layers:
    """The network, fitted by Adam with decoupled decay, and with dropout."""

    def __init__(self, dim: int, traits_count: int, rng: np.random.Generator) -> None:
        self._dim = dim
        shapes = ((dim + traits_count, _HIDDEN), (1, _HIDDEN), (_HIDDEN, 1))
        self._values: list[Floats] = [
            rng.normal(0, 0.3 / _VECTOR_SCALE, shapes[0]),
            np.zeros(shapes[1]),
            rng.normal(0, 1 / np.sqrt(_HIDDEN), shapes[2]),
        ]
        self._means: list[Floats] = [np.zeros(shape) for shape in shapes]
        self._squares: list[Floats] = [np.zeros(shape) for shape in shapes]
        self._steps = 0
        self._inputs, self._hidden, self._open = np.zeros((0, 0)), np.zeros((0, 0)), np.zeros(0)

    def forward(
        self,
        vectors: NDArray[np.float32],
        indicators: NDArray[np.float32],
        rng: np.random.Generator,
    ) -> Floats:
        inputs = np.concatenate([vectors * _VECTOR_SCALE, indicators], axis=1)
        self._inputs = inputs * _left(inputs.shape, rng)
        hidden = self._inputs @ self._values[0] + self._values[1]
        self._open = (hidden > 0) * _left(hidden.shape, rng)
        self._hidden = hidden * self._open
        logits: Floats = (self._hidden @ self._values[2])[:, 0]
        return logits

    def step(self, error: Floats, rate: float) -> None:
        of_hidden = np.outer(error, self._values[2][:, 0]) * self._open
        gradients: tuple[Floats, ...] = (
            self._inputs.T @ of_hidden,
            of_hidden.sum(0, keepdims=True),
            self._hidden.T @ error[:, None],
        )
        self._steps += 1
        first, second = 1 - 0.9**self._steps, 1 - 0.999**self._steps
        for at, gradient in enumerate(gradients):
            self._means[at] += 0.1 * (gradient - self._means[at])
            self._squares[at] += 0.001 * (gradient**2 - self._squares[at])
            size = np.sqrt(self._squares[at] / second) + 1e-8
            self._values[at] *= 1 - rate * _NETWORK_DECAY
            self._values[at] -= rate * self._means[at] / first / size

    def network(self, names: list[str]) -> Network:
        """Return it as the network that the scanner uses, rounded as in the file."""
        inner, bias, out = (values.astype(np.float16).astype(np.float32) for values in self._values)
        return Network(
            traits=names,
            of_vector=inner[: self._dim] * np.float32(_VECTOR_SCALE),
            of_traits=inner[self._dim :],
            hidden_bias=bias[0],
            out=out[:, 0],
        )


def _left(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Return 0 for what is left out in a step, and for the rest what makes up for it."""
    kept: Floats = (rng.random(shape) >= _DROPPED) / (1 - _DROPPED)
    return kept


def _importance(
    labels: Floats, weights: Floats, common: NDArray[np.intp], rare: NDArray[np.intp]
) -> Floats:
    """Return the weight of each example: both kinds count the same in an epoch."""
    importance = weights.copy()
    sums = [
        importance[rare][labels[rare] == label].sum()
        + _COMMON_SHARE * importance[common][labels[common] == label].sum()
        for label in (0, 1)
    ]
    importance[labels == 1] *= sums[0] / sums[1]
    importance /= (sums[0] * 2) / (len(rare) + _COMMON_SHARE * len(common))
    return importance
