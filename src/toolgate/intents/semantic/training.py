"""Fits the semantic classifier: example prompts in, a model of intents with confidences out.

* **Which intent.** Softmax regression on the embedder's vector and the folded n-grams side by side.
  The n-grams weigh more the more prompts an intent has; without an embedder they stand alone. The
  name of an intent counts as one more prompt.
* **How sure.** The score of an answer is its probability, damped by how near the message lies to
  the mean of the intent's prompts and to the nearest of them: the probability alone is a poor sign
  of messages that no intent knows. Scores become confidences by a logistic curve.
* **When to say no.** Every prompt is scored by a model that was fitted without it, and against
  means and neighbours without it: a third to a tenth of the prompts is left out at a time, the
  same for all parts of the score. The cut is the quantile of these scores that turns away as many
  good messages as `false_alarms` allows. Nothing here is a constant that fits one embedder only.

The curve is fitted on the prompts' held-out scores, right or wrong, and on what they score when
their own intent is taken away: messages from outside, each counted as `FOREIGN` of a message.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolgate.intents.semantic.model import UNSUPPORTED, SemanticModel, TrainingSet
from toolgate.intents.semantic.ngrams import NgramVectorizer, count_features, vectorizer_from_counts
from toolgate.intents.semantic.scores import (
    Floats,
    Indices,
    blended_scores,
    closeness,
    fit_logistic_curve,
    quantize_rows,
    unit_rows,
)
from toolgate.intents.semantic.softmax import LinearModel, fit_softmax, inverse_curvature, softmax

__all__ = ["FOREIGN", "fit", "words_of"]

FOREIGN = 0.025
"""How many messages from outside are expected for each one from inside.

With ten prompts an intent the calibration error, mean of three draws, is 0.048 on clinc150 with its
messages from outside, 0.049 on hwu64 and 0.028 on banking77, which have none. More makes it smaller
on the first (0.05: 0.036) and larger on the others (0.061, 0.033).
"""

_STEPS = 25
"""Steps of the fit to all prompts at most."""

_FEW_STEPS = 16
"""The same where intents have few prompts: what comes later is about these and not about messages.
"""

_ENOUGH = 20
"""Prompts an intent from which on a part of them tells much the same as all."""

_FOLD_STEPS = 11
"""Steps of a fit to a part of them, of which only scores are wanted."""

_FOLDS = ((2_000, 10), (4_000, 5), (math.inf, 4))
"""Up to how many prompts, how many parts of them are left out in turn."""


def words_of(name: str) -> str:
    """The words of an intent's name."""
    return " ".join(name.replace("_", " ").replace("-", " ").lower().split())


def fit(training_set: TrainingSet, vectors: Floats, name_vectors: Floats) -> SemanticModel:
    """Fit a model to example prompts; equal training sets give equal models.

    Args:
        training_set: The prompts.
        vectors: The embedder's vectors of the texts, shape (texts, dim); dim 0 without an embedder.
        name_vectors: Those of `words_of` each intent.
    """
    owners = np.asarray(training_set.owners, np.intp)
    count, n = len(training_set.intents), len(training_set.texts)
    features = count_features(training_set.texts)
    grams = vectorizer_from_counts(features, n)
    share, strength = _weights(n / max(count, 1))
    share = share if vectors.shape[1] else 1.0
    names = [words_of(name) for name in training_set.intents]
    both = np.concatenate([vectors, np.float32(share) * grams.rows_of(features, n)], axis=1)
    name_rows = np.concatenate([name_vectors, np.float32(share) * grams.rows(names)], axis=1)
    problem = _problem(both, name_rows, owners, strength)

    # A held-out prompt has words that no other has; as a message it would not know them either.
    once = grams.rarity >= grams.rarity.max(initial=0.0) - 1e-6
    shared = NgramVectorizer(rarity=np.where(once, 0, grams.rarity).astype(np.float32))
    held_out = np.concatenate([vectors, np.float32(share) * shared.rows_of(features, n)], axis=1)
    folds = _folds(
        unit_rows(both), owners, next(fold_count for top, fold_count in _FOLDS if n <= top)
    )
    logits, partial = _cross_validate(problem, held_out, folds)
    spaces = [(unit_rows(both), unit_rows(held_out))]
    if vectors.shape[1]:
        spaces = [(vectors, vectors), *spaces]

    def scored(logits: Floats) -> tuple[Indices, Floats]:
        odds = softmax(logits) if count else logits
        predicted = odds.argmax(axis=1) if count else np.zeros(0, np.intp)
        near = [
            part
            for base, held_out_rows in spaces
            for part in closeness(base, held_out_rows, owners, predicted, folds, count)
        ]
        return predicted, blended_scores(odds.max(axis=1, initial=0.0), np.stack(near, axis=1))

    predicted, scores = scored(logits)
    foreign = np.zeros(0, np.float32)
    if count > 1:
        # Without its own intent, a prompt is a message that no intent knows.
        without = logits.copy()
        # -1e9 takes a class out of the softmax.
        without[np.arange(n), owners] = -1e9
        _, foreign = scored(without)
    curve, doubt = _calibrate(logits, owners, predicted, scores, foreign)
    if n >= _ENOUGH * count:
        linear = _between(problem.learn(np.arange(n), _STEPS), partial)
    else:
        linear = problem.learn(np.arange(n), _FEW_STEPS)
    if problem.basis is not None:
        linear = LinearModel(weights=problem.basis @ linear.weights, constants=linear.constants)
    inside = np.array([name != UNSUPPORTED for name in training_set.intents], np.bool_)
    byte_rows, steps = quantize_rows(unit_rows(both))
    judged = inside[owners] if count else np.zeros(0, np.bool_)
    return SemanticModel(
        training_set=training_set,
        # Rounded as the file stores it, so that a cached model gives the same answers.
        grams=NgramVectorizer(rarity=grams.rarity.astype(np.float16).astype(np.float32)),
        share=share,
        linear=linear,
        dim=vectors.shape[1],
        rows=byte_rows,
        steps=steps,
        lengths=np.linalg.norm(both, axis=1),
        held_scores=scores[judged],
        held_owners=predicted[judged],
        curve=curve,
        doubt=doubt,
    )


@dataclass(frozen=True, kw_only=True)
class _Problem:
    """The rows that softmax regression is fitted to, prompts first, then the intents' names."""

    rows: Floats
    owners: Indices
    """The class of each prompt."""
    count: int
    """Number of classes."""
    strength: float
    basis: Floats | None
    """Columns that span the rows, where `rows` are written in these; None: as they are."""
    hint: Floats
    """What `inverse_curvature` says of the rows."""

    def learn(self, which: Indices, steps: int) -> LinearModel:
        """The fit to some of the prompts, and to all names."""
        return fit_softmax(
            np.concatenate([self.rows[which], self.rows[len(self.owners) :]]),
            np.concatenate([self.owners[which], np.arange(self.count)]),
            self.count,
            strength=self.strength,
            steps=steps,
            hint=self.hint,
        )


def _problem(prompts: Floats, names: Floats, owners: Indices, strength: float) -> _Problem:
    rows = np.concatenate([prompts, names])
    # The weights lie in the span of the rows; of few rows that is a small space, and a fit in it
    # gives the same model sooner.
    basis = np.linalg.qr(rows.T)[0] if len(rows) < rows.shape[1] else None
    rows = rows if basis is None else rows @ basis
    return _Problem(
        rows=rows,
        owners=owners,
        count=len(names),
        strength=strength,
        basis=basis,
        hint=inverse_curvature(rows, len(names), strength=strength),
    )


def _cross_validate(
    problem: _Problem, held_out: Floats, folds: Indices
) -> tuple[Floats, list[LinearModel]]:
    """Logits of each prompt by a model fitted without its fold, and these models."""
    queries = held_out if problem.basis is None else held_out @ problem.basis
    logits = np.zeros((len(held_out), problem.count), np.float32)
    partial: list[LinearModel] = []
    for fold in range(int(folds.max(initial=-1)) + 1):
        out = np.flatnonzero(folds == fold)
        partial.append(problem.learn(np.flatnonzero(folds != fold), _FOLD_STEPS))
        logits[out] = partial[-1].logits(queries[out])
    return logits, partial


def _calibrate(
    logits: Floats, owners: Indices, predicted: Indices, scores: Floats, foreign: Floats
) -> tuple[tuple[float, float], tuple[float, float]]:
    """The curves from score to confidence, and from margin to "the first and not the second".

    Args:
        logits: Of each prompt by a model that did not know it.
        owners: Its intent.
        predicted: What that model took it for.
        scores: Its score.
        foreign: What it scores when its own intent is taken away.
    """
    n, count = logits.shape
    right = predicted == owners
    if count > 1:
        curve = fit_logistic_curve(
            np.concatenate([scores, foreign]),
            np.concatenate([right, np.zeros(n, np.bool_)]),
            np.concatenate([np.ones(n), np.full(n, FOREIGN)]),
        )
        # The two highest logits of each prompt, the highest first.
        two = -np.partition(-logits, 1, axis=1)
        second = np.where(right[:, None], -1e9, logits)
        second[np.arange(n), predicted] = -1e9
        # Only prompts whose intent is one of the best two tell anything about the choice between
        # them.
        among = right | (second.argmax(axis=1) == owners)
        doubt = fit_logistic_curve(
            two[among, 0] - two[among, 1], right[among], np.ones(int(among.sum()))
        )
        return curve, doubt
    if n:
        # One intent alone: no answer was ever wrong. A poor score counts 0.5, the best 0.95.
        poor = min(float(np.quantile(scores, 0.05)), -0.1)
        return (3.0, -3.0 / poor), (0.0, 1.0)
    return (0.0, 1.0), (0.0, 1.0)


def _between(whole: LinearModel, partial: Sequence[LinearModel]) -> LinearModel:
    """Halfway between the fit to all prompts and the mean of the fits to parts of them.

    What they agree on stays, and what only one of them has found is halved. With all their prompts
    that and nine more steps are worth 0.3 points on banking77, and nothing is lost on hwu64.
    """
    share = np.float32(0.5 / max(len(partial), 1))
    weights, constants = 0.5 * whole.weights, 0.5 * whole.constants
    for part in partial:
        weights += share * part.weights
        constants += share * part.constants
    return LinearModel(weights=weights, constants=constants)


def _weights(prompts: float) -> tuple[float, float]:
    """What n-grams weigh, and how much prompts count, when an intent has so many of them.

    0.6 and 20 for ten, 0.8 and 10 for a hundred: the best of 0.4 to 0.8 and 6 to 20 on clinc150,
    banking77 and hwu64, by half a point.
    """
    prompts = max(prompts, 1.0)
    share = float(np.clip(0.4 + 0.2 * np.log10(prompts), 0.4, 1.0))
    return share, float(40 / prompts**0.3)


def _folds(rows: Floats, owners: Indices, fold_count: int) -> Indices:
    """A fold for each row, the rows of each class spread evenly; the same every time.

    Where a class has enough of them, a row and the one most like it share a fold: prompts come in
    pairs that hardly differ, messages do not, and would be thought easier than they are.
    """
    random = np.random.default_rng(0)
    folds = np.zeros(len(owners), np.intp)
    for k in np.unique(owners):
        members = random.permutation(np.flatnonzero(owners == k))
        # Too few for pairs: they are dealt out in turn. The factor 4 is chosen.
        if len(members) < 4 * fold_count:
            folds[members] = np.arange(len(members)) % fold_count
            continue
        alike = rows[members] @ rows[members].T
        np.fill_diagonal(alike, -2)
        free, pairs = np.ones(len(members), np.bool_), 0
        for first in range(len(members)):
            if free[first]:
                free[first] = False
                second = int(np.where(free, alike[first], -3).argmax())
                folds[members[[first, second]] if free[second] else members[first]] = (
                    pairs % fold_count
                )
                free[second], pairs = False, pairs + 1
    return folds
