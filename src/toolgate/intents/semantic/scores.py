"""The arithmetic of scores: closeness to prompts, blending, and logistic curves."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Floats",
    "Indices",
    "blended_score",
    "blended_scores",
    "class_sums",
    "closeness",
    "fit_logistic_curve",
    "logistic",
    "quantize_rows",
    "unit_rows",
]

Floats = NDArray[np.float32]

Indices = NDArray[np.intp]


def closeness(
    base: Floats, queries: Floats, owners: Indices, predicted: Indices, folds: Indices, count: int
) -> tuple[Floats, Floats]:
    """Of each prompt to the mean of a class and to its nearest one, its own fold left out."""
    sums = class_sums(base, owners, count)[predicted]
    for fold in range(int(folds.max(initial=-1)) + 1):
        out = folds == fold
        # A prompt must not be compared with itself, so its own fold is taken out of the sum.
        sums[out] -= class_sums(base[out], owners[out], count)[predicted[out]]
    lengths = np.linalg.norm(sums, axis=1) * np.maximum(np.linalg.norm(queries, axis=1), 1e-9)
    mean = (sums * queries).sum(axis=1) / np.maximum(lengths, 1e-9)
    near = np.zeros(len(queries), np.float32)
    for k in np.unique(predicted):
        asked, there = np.flatnonzero(predicted == k), np.flatnonzero(owners == k)
        if len(there):
            alike = queries[asked] @ base[there].T
            alike[folds[asked][:, None] == folds[there][None]] = -1
            near[asked] = alike.max(axis=1)
    return mean.astype(np.float32), near


def blended_scores(odds: NDArray[np.floating], near: Floats) -> Floats:
    """The logarithm of sqrt(odds) x closeness to the mean x closeness to the nearest, per message.

    `near` has columns for one or two spaces; two give their geometric means.
    """
    # The floor of 0.01 keeps one distant factor from deciding alone; chosen.
    close = np.log(np.maximum(near, 0.01)).sum(axis=1) * (2 / near.shape[1])
    return (0.5 * np.log(np.maximum(odds, 1e-9)) + close).astype(np.float32)


def blended_score(odds: float, parts: Sequence[float]) -> float:
    """`blended_scores` for one message."""
    close = sum(math.log(max(part, 0.01)) for part in parts) * (2 / len(parts))
    return 0.5 * math.log(max(odds, 1e-9)) + close


def fit_logistic_curve(
    values: NDArray[np.floating], right: NDArray[np.bool_], weights: NDArray[np.float64]
) -> tuple[float, float]:
    """Logistic curve through values that were right or wrong (Platt), by Newton's method."""
    if not len(values):
        return 0.0, 1.0
    # Two made-up values, one right and one wrong, keep the curve finite.
    high, low = float(values.max()), float(values.min())
    x = np.concatenate([values.astype(np.float64), [high, low]])
    y = np.concatenate([right.astype(np.float64), [1.0, 0.0]])
    w = np.concatenate([weights, [1.0, 1.0]])
    middle, spread = float(x.mean()), float(x.std()) or 1.0
    z = np.stack([np.ones_like(x), (x - middle) / spread], axis=1)
    at = np.array([0.0, 1.0])
    for _ in range(50):
        p = _logistic(z @ at)
        # The 1e-3 is a weak pull towards 0, which keeps the matrix invertible.
        slope = z.T @ (w * (p - y)) + 1e-3 * at
        bend = (z * (w * p * (1 - p))[:, None]).T @ z + 1e-3 * np.eye(2)
        step = np.linalg.solve(bend, slope)
        at = at - step / max(1.0, float(np.abs(step).max()))
        # Steps are at most 1 above, since Newton may overshoot far from the solution.
        if np.abs(step).max() < 1e-7:
            break
    # Never falling: a higher score must not mean less confidence.
    second = max(float(at[1]), 1e-3) / spread
    return float(at[0]) - second * middle, second


def logistic(value: float) -> float:
    """`_logistic` for one number."""
    return 1 / (1 + math.exp(-min(max(value, -500.0), 500.0)))


def _logistic(value: NDArray[np.floating]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-np.clip(np.asarray(value, np.float64), -500, 500)))


def quantize_rows(rows: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Rows in whole numbers, and what each of them has to be multiplied by."""
    # 127 is the largest int8; the 1e-9 is for rows of zeros.
    steps = np.maximum(np.abs(rows).max(axis=1, initial=0.0) / 127, 1e-9).astype(np.float32)
    return np.rint(rows / steps[:, None]).astype(np.int8), steps


def unit_rows(rows: Floats) -> Floats:
    """Rows scaled to length 1; rows of zeros stay."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def class_sums(rows: Floats, owners: Indices, count: int) -> Floats:
    """Of each class the sum of its rows."""
    sums = np.zeros((count, rows.shape[1]), np.float32)
    if len(rows):
        order = np.argsort(owners, kind="stable")
        there, starts = np.unique(owners[order], return_index=True)
        sums[there] = np.add.reduceat(rows[order], starts, axis=0)
    return sums
