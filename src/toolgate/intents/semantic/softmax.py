"""Softmax regression: rows of numbers to probabilities of classes, with only numpy.

Minimises `strength * sum of -log p(class of the row) + |weights|^2 / 2`, the loss of
https://scikit-learn.org/stable/modules/linear_model.html#multinomial-case with C = `strength`,
by L-BFGS (Nocedal and Wright, Numerical Optimization, algorithm 7.4). The initial curvature of
L-BFGS is the exact curvature at the start, where all classes are equally likely: it is the same
for every class, so one matrix of columns x columns is enough for all, and about ten steps do
what takes fifty with a multiple of the identity.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

# Chosen; between 3 and 20 are usual (Nocedal and Wright, section 7.2).
_MEMORY = 8
"""Number of steps that L-BFGS remembers."""

_FREE = 1e-3
"""Pull on the constants, which the loss leaves free; keeps the curvature invertible."""


@dataclass(frozen=True, kw_only=True)
class LinearModel:
    """A linear model of classes."""

    weights: Floats
    """Shape (columns, classes)."""

    constants: Floats
    """Shape (classes,)."""

    def logits(self, rows: Floats) -> Floats:
        """Return shape (rows, classes)."""
        return rows @ self.weights + self.constants


class TrainingCancelledError(Exception):
    """A training was given up, since nobody needs its result."""


def _never() -> bool:
    return False


def fit_softmax(
    rows: Floats,
    classes: NDArray[np.intp],
    count: int,
    *,
    strength: float,
    hint: Floats | None = None,
    steps: int = 25,
    tolerance: float = 1e-4,
    is_cancelled: Callable[[], bool] = _never,
) -> LinearModel:
    """Fit a model to rows with known classes.

    Args:
        rows: Shape (n, columns).
        classes: The class of each row, below `count`.
        count: Number of classes, including those without rows.
        strength: Weight of the rows relative to small weights; C in other libraries.
        hint: `inverse_curvature` of these rows, or of similar rows; it determines how fast the
            model is found, not which.
        steps: Largest number of steps.
        tolerance: Stops when the slope has fallen to this share of the initial one.
        is_cancelled: Asked before every step whether nobody needs the model any more.

    Raises:
        TrainingCancelledError: Nobody does.
    """
    n, columns = rows.shape
    if not n or not count:
        weights = np.zeros((columns, count), np.float32)
        return LinearModel(weights=weights, constants=np.zeros(count, np.float32))
    wide, pull = _with_constant(rows)
    if hint is None:
        hint = inverse_curvature(rows, count, strength=strength)
    places = np.arange(n, dtype=np.intp)

    def check() -> None:
        if is_cancelled():
            raise TrainingCancelledError

    def loss(w: Floats) -> tuple[float, Floats]:
        check()
        logits = wide @ w
        logits -= logits.max(axis=1, keepdims=True)
        class_logits = logits[places, classes]
        np.exp(logits, out=logits)
        total = logits.sum(axis=1, keepdims=True)
        value = strength * float((np.log(total[:, 0]) - class_logits).sum()) + 0.5 * float(
            (pull * w * w).sum()
        )
        logits /= total
        logits[places, classes] -= 1
        logits *= np.float32(strength)
        return value, wide.T @ logits + pull * w

    solution = _lbfgs(loss, np.zeros((columns + 1, count), np.float32), hint, steps, tolerance)
    return LinearModel(weights=np.ascontiguousarray(solution[:-1]), constants=solution[-1].copy())


def inverse_curvature(rows: Floats, count: int, *, strength: float) -> Floats:
    """Return the inverse curvature at the start, equal for every class; see `fit_softmax`."""
    wide, pull = _with_constant(rows)
    curvature = np.float32(strength / max(count, 2)) * (wide.T @ wide)
    curvature[np.diag_indices(len(pull))] += pull[:, 0]
    return _f(np.linalg.inv(curvature))


def _with_constant(rows: Floats) -> tuple[Floats, Floats]:
    """Return the rows with a column of ones, and the penalty on the weights of each column."""
    wide = np.concatenate([rows, np.ones((len(rows), 1), np.float32)], axis=1)
    pull = np.ones((wide.shape[1], 1), np.float32)
    pull[-1] = _FREE
    return wide, pull


def _lbfgs(
    loss: Callable[[Floats], tuple[float, Floats]],
    at: Floats,
    inverse: Floats,
    steps: int,
    tolerance: float,
) -> Floats:
    value, slope = loss(at)
    enough = tolerance * float(np.linalg.norm(slope))
    history: deque[tuple[Floats, Floats, float]] = deque(maxlen=_MEMORY)
    for _ in range(steps):
        direction = _direction(slope, history, inverse)
        falls = float((slope * direction).sum())
        length = 1.0
        while True:
            there = _f(at - length * direction)
            new_value, new_slope = loss(there)
            # Armijo condition with c = 1e-4 (Nocedal and Wright, section 3.1).
            if new_value <= value - 1e-4 * length * falls:
                break
            length /= 2
            if length < 1e-4:  # as far down as float32 can tell
                return at
        moved, bent = there - at, new_slope - slope
        product = float((moved * bent).sum())
        # Pairs without positive curvature would make the approximation indefinite.
        if product > 1e-10:
            history.append((moved, bent, 1 / product))
        at, value, slope = there, new_value, new_slope
        if float(np.linalg.norm(slope)) < enough:
            break
    return at


def _direction(
    slope: Floats, history: deque[tuple[Floats, Floats, float]], inverse: Floats
) -> Floats:
    result = slope.copy()
    shares: list[float] = []
    for moved, bent, share in reversed(history):
        shares.append(share * float((moved * result).sum()))
        result -= shares[-1] * bent
    result = _f(inverse @ result)
    # Scales the fixed inverse to the curvature of the latest step.
    if history:
        _, bent, share = history[-1]
        result /= share * float((bent * (inverse @ bent)).sum())
    for (moved, bent, share), first in zip(history, reversed(shares), strict=True):
        result += moved * (first - share * float((bent * result).sum()))
    return result


def _f(values: NDArray[np.floating]) -> Floats:
    return values.astype(np.float32, copy=False)
