"""Logistic regression over hashed features and signals, by Adagrad."""

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from toolgate.catalog.scanner.classifier import (
    FEATURES,
    FEWEST_WORDS,
    Classifier,
    damping,
    feature_ids,
    signal_features,
)
from toolgate.catalog.scanner.sentences import Sentence
from toolgate.catalog.scanner.signals import Signal

__all__ = ["FOLDS", "Examples", "Fitted", "fit"]

FOLDS: Final = 5

# Chosen by cross-validation.
_EPOCHS: Final = 12
_BATCH: Final = 512
_RATE: Final = 0.3
_DECAY: Final = 1e-5
_SIGNAL_RATE: Final = 0.1
_SIGNAL_DECAY: Final = 1e-4
_FIRST_SQUARE: Final = 1e-3


@dataclass
class Examples:
    """Sentences as features, with their labels."""

    ids: list[NDArray[np.int32]] = field(default_factory=list[NDArray[np.int32]])
    signals: list[frozenset[str]] = field(default_factory=list[frozenset[str]])
    labels: list[float] = field(default_factory=list[float])
    """1 for sentences that steer, 0 for others."""
    weights: list[float] = field(default_factory=list[float])
    folds: list[int] = field(default_factory=list[int])
    """The fold of the cross-validation to which it belongs; -1: none."""

    def add_text(
        self, sentences: list[Sentence], label: float, *, weight: float = 1.0, fold: int = -1
    ) -> None:
        """The sentences of a text, each alone and with the next one, without very short ones."""
        windows: list[tuple[str, tuple[Signal, ...]]] = [
            *((sentence.text, sentence.signals) for sentence in sentences),
            *(
                (f"{first.text} {second.text}", (*first.signals, *second.signals))
                for first, second in pairwise(sentences)
            ),
        ]
        for text, signals in windows:
            if len(text.split()) >= FEWEST_WORDS or not text.isascii():
                self.ids.append(np.array(feature_ids(text), np.int32))
                self.signals.append(signal_features(signals))
                self.labels.append(label)
                self.weights.append(weight)
                self.folds.append(fold)


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A fitted regression with weights of eight bits."""

    packed: NDArray[np.int8]
    scale: float
    bias: float
    signal_weights: dict[str, float]

    @property
    def classifier(self) -> Classifier:
        """Return it as the classifier that the scanner uses."""
        return Classifier((self.packed * self.scale).tolist(), self.bias, self.signal_weights)

    def save(self, path: Path) -> None:
        """Write the file that `load_classifier` reads."""
        np.savez_compressed(
            path,
            weights=self.packed,
            scale=np.float32(self.scale),
            bias=np.float32(self.bias),
            signals=np.array(list(self.signal_weights)),
            signal_weights=np.array(list(self.signal_weights.values()), np.float32),
        )


def fit(examples: Examples, *, leave_out: int | None = None) -> Fitted:
    """Fit to all examples except those of the fold that is left out."""
    rng = np.random.default_rng(11)
    chosen = np.flatnonzero([fold != leave_out for fold in examples.folds])
    parts = [examples.ids[at] for at in chosen]
    lengths = np.array([len(part) for part in parts])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    flat = np.concatenate(parts)
    names = sorted(set().union(*examples.signals))
    signals = _indicators([examples.signals[at] for at in chosen], names)
    labels = np.array(examples.labels, np.float32)[chosen]
    importance = _importance(labels, np.array(examples.weights, np.float32)[chosen])
    share = np.array([damping(length) for length in lengths], np.float32)
    words, of_signals, bias = _Weights(FEATURES), _Weights(len(names)), _Weights(1)
    for _ in range(_EPOCHS):
        order = rng.permutation(len(labels))
        for begin in range(0, len(order), _BATCH):
            rows = order[begin : begin + _BATCH]
            ids = np.concatenate([flat[starts[row] : starts[row + 1]] for row in rows])
            owner = np.repeat(np.arange(len(rows)), lengths[rows])
            values = share[rows][owner]
            logits = np.bincount(owner, words.values[ids] * values, len(rows)).astype(np.float64)
            logits += bias.values[0] + signals[rows] @ of_signals.values
            error = (1 / (1 + np.exp(-logits)) - labels[rows]) * importance[rows] / len(rows)
            gradient = np.bincount(ids, error[owner] * values, FEATURES).astype(np.float64)
            words.step(gradient, _RATE, _DECAY)
            of_signals.step(signals[rows].T @ error, _SIGNAL_RATE, _SIGNAL_DECAY)
            bias.step(np.array([error.sum()]), _RATE, 0.0)
    scale = float(np.abs(words.values).max() / 127)
    return Fitted(
        packed=np.round(words.values / scale).astype(np.int8),
        scale=scale,
        bias=float(bias.values[0]),
        signal_weights=dict(zip(names, of_signals.values.tolist(), strict=True)),
    )


class _Weights:
    """Weights with the squares of their gradients, as in Adagrad."""

    def __init__(self, count: int) -> None:
        self.values = np.zeros(count)
        self._squares = np.full(count, _FIRST_SQUARE)

    def step(self, gradient: NDArray[np.float64], rate: float, decay: float) -> None:
        gradient = gradient + decay * self.values
        self._squares += gradient**2
        self.values -= rate * gradient / np.sqrt(self._squares)


def _indicators(signals: list[frozenset[str]], names: list[str]) -> NDArray[np.float32]:
    column = {name: at for at, name in enumerate(names)}
    indicators = np.zeros((len(signals), len(names)), np.float32)
    for row, present in enumerate(signals):
        indicators[row, [column[name] for name in present]] = 1
    return indicators


def _importance(labels: NDArray[np.float32], weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Weight of each example, so that both kinds count the same."""
    importance = weights.copy()
    importance[labels == 1] *= importance[labels == 0].sum() / importance[labels == 1].sum()
    return importance / importance.mean()
