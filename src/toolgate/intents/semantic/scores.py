"""The arithmetic of scores: closeness to prompts, blending, and logistic curves."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

Indices = NDArray[np.intp]


def closeness(
    base: Floats,
    owners: Indices,
    folds: Indices,
    queries: Floats,
    query_folds: Indices,
    predicted: Indices,
    count: int,
) -> Floats:
    """Return the closeness of queries to a class's mean and nearest prompt; shape (queries, 2).

    Args:
        base: Rows of prompts, of length 1.
        owners: Their classes.
        folds: Their folds.
        queries: Rows of length 1 at most.
        query_folds: For each query, the fold whose prompts are left out; -1: none.
        predicted: The class that each query is compared with.
        count: Number of classes.
    """
    totals = class_sums(base, owners, count)
    fold_count = int(max(folds.max(initial=-1), query_folds.max(initial=-1))) + 1
    # A prompt must not be compared with itself, so its own fold is subtracted from the sum.
    held = [folds == fold for fold in range(fold_count)]
    without = [totals - class_sums(base[out], owners[out], count) for out in held]
    sums = np.stack([*without, totals])  # the last: nothing is left out
    mean = np.zeros(len(queries), np.float32)
    # 500 queries at once, to limit the memory for sums.
    for start in range(0, len(queries), 500):
        part = slice(start, start + 500)
        means, asked = sums[query_folds[part], predicted[part]], queries[part]
        lengths = np.linalg.norm(means, axis=1) * np.maximum(np.linalg.norm(asked, axis=1), 1e-9)
        mean[part] = (means * asked).sum(axis=1) / np.maximum(lengths, 1e-9)
    near = np.zeros(len(queries), np.float32)
    for k in np.unique(predicted):
        asked, there = np.flatnonzero(predicted == k), np.flatnonzero(owners == k)
        if len(there):
            alike = queries[asked] @ base[there].T
            alike[query_folds[asked][:, None] == folds[there][None]] = -1
            near[asked] = alike.max(axis=1)
    return np.stack([mean, near], axis=1).astype(np.float32)


def log_closeness(near: Floats) -> Floats:
    """Return the log of closeness to the mean x closeness to the nearest prompt, per message.

    `near` has columns for one or two spaces; two are combined by their geometric mean.
    """
    # The floor of 0.01 keeps one distant factor from deciding alone (chosen).
    return (np.log(np.maximum(near, 0.01)).sum(axis=-1) * (2 / near.shape[-1])).astype(np.float32)


def log_odds(logits: Floats, inside: NDArray[np.bool_]) -> Floats:
    """Return the log odds that one of the classes `inside` is right and none of the others."""
    return (_log_sum(logits[..., inside]) - _log_sum(logits[..., ~inside])).astype(np.float32)


def _log_sum(logits: Floats) -> Floats:
    if not logits.shape[-1]:
        return np.full(logits.shape[:-1], -30.0, np.float32)
    top = logits.max(axis=-1)
    return top + np.log(np.exp(logits - top[..., None]).sum(axis=-1))


def fit_logistic_curve(
    values: NDArray[np.floating],
    right: NDArray[np.bool_],
    weights: NDArray[np.float64],
    *,
    start: Sequence[float],
    pull: float,
) -> tuple[float, ...]:
    """Fit a logistic curve to values that were right or wrong, by Newton's method.

    Args:
        values: Shape (n, features); higher is better.
        right: Which of them were right.
        weights: Weight of each value.
        start: Initial constant and feature weights, which a few values hardly change.
        pull: Number of values that balance the pull towards `start`.

    Returns:
        The constant and the weights of the features, which are at least 0: a higher value must
        not mean less confidence.
    """
    x = np.concatenate([np.ones((len(values), 1)), values.astype(np.float64)], axis=1)
    y, w = right.astype(np.float64), weights
    first = np.asarray(start, np.float64)
    at = first.copy()
    for _ in range(50):
        p = _logistic(x @ at)
        slope = x.T @ (w * (p - y)) + pull * (at - first)
        bend = (x * (w * p * (1 - p))[:, None]).T @ x + (pull + 1e-6) * np.eye(x.shape[1])
        step = np.linalg.solve(bend, slope)
        # Steps are at most 1, since Newton may overshoot far from the solution.
        at = at - step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-7:
            break
    return (float(at[0]), *(max(weight, 0.0) for weight in at[1:].tolist()))


def logistic(value: float) -> float:
    """Return `_logistic` of one number."""
    return 1 / (1 + math.exp(-min(max(value, -500.0), 500.0)))


def logistic_curve(curve: Sequence[float], values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Apply a curve of `fit_logistic_curve` to values of shape (n, features)."""
    return _logistic(curve[0] + values.astype(np.float64) @ np.asarray(curve[1:]))


def _logistic(value: NDArray[np.floating]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-np.clip(np.asarray(value, np.float64), -500, 500)))


def quantize_rows(rows: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Quantize rows to integers; return them with the factor of each row."""
    # 127 is the largest int8; the 1e-9 is for rows of zeros.
    steps = np.maximum(np.abs(rows).max(axis=1, initial=0.0) / 127, 1e-9).astype(np.float32)
    return np.rint(rows / steps[:, None]).astype(np.int8), steps


def unit_rows(rows: Floats) -> Floats:
    """Scale rows to length 1; rows of zeros are unchanged."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def class_sums(rows: Floats, owners: Indices, count: int) -> Floats:
    """Return the sum of the rows of each class."""
    sums = np.zeros((count, rows.shape[1]), np.float32)
    if len(rows):
        order = np.argsort(owners, kind="stable")
        there, starts = np.unique(owners[order], return_index=True)
        sums[there] = np.add.reduceat(rows[order], starts, axis=0)
    return sums
