"""Fits the semantic classifier: example prompts in, a model of intents with confidences out.

* **Which intent.** Softmax regression on the embedder's vector and the folded n-grams side by side.
  The n-grams weigh more the more prompts an intent has; without an embedder they stand alone. The
  name of an intent counts as one more prompt.
* **For this pack at all?** The regression has one more class: messages from everyday life
  (`background`). How much likelier the intents are together than that class, and how near the
  message lies to the prompts of the best one, make the probability that the pack is meant.
* **How sure.** That probability, times the one that the best intent is right if any is. Both are
  logistic curves, fitted on prompts and background messages by models that did not know them.
* **When to say no.** The cut is the quantile of the prompts' held-out confidences that turns away
  as many good messages as `false_alarms` allows; and no message is answered that is more likely
  meant for somebody else.

What prompts score when their own intent is taken away tells of messages of the same domain that no
intent knows; each counts as `FOREIGN` of a message.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolgate.intents.semantic.background import Background
from toolgate.intents.semantic.model import UNSUPPORTED, SemanticModel, TrainingSet
from toolgate.intents.semantic.ngrams import (
    FeatureCounts,
    NgramVectorizer,
    count_features,
    vectorizer_from_counts,
)
from toolgate.intents.semantic.scores import (
    Floats,
    Indices,
    closeness,
    fit_logistic_curve,
    log_closeness,
    log_odds,
    logistic_curve,
    quantize_rows,
    unit_rows,
)
from toolgate.intents.semantic.softmax import LinearModel, fit_softmax, inverse_curvature

__all__ = ["FOREIGN", "fit", "words_of"]

FOREIGN = 0.025
"""How many messages of the domain that no intent knows are expected for each good one."""

_OUTSIDE = 2.0
"""How many messages about something else are expected for each good one, of a pack with up to eight
intents. The more intents a pack has, the more of what people write is meant for it; chosen."""

_OUTSIDE_LEAST = 0.5
"""How many of them are expected at least."""

_INSIDE_START = (0.8, 0.7, 0.5)
"""The curve of "for this pack at all" before anything is known: of log odds and log closeness."""

_WHICH_START = (0.0, 1.0)
"""The curve of "the best intent is right, if any is" before anything is known."""

_DOUBT_START = (0.0, 0.5)
"""The curve of "the first and not the second" before anything is known."""

_STEPS = 25
"""Steps of the fit to all prompts at most."""

_FEW_STEPS = 16
"""The same where intents have few prompts: what comes later is about these and not about messages.
"""

_ENOUGH = 20
"""Prompts an intent from which on a part of them tells much the same as all."""

_FOLD_STEPS = 11
"""Steps of a fit to a part of them, of which only scores are wanted."""

_FOLDS = ((100, 5), (1_000, 8), (math.inf, 4))
"""Up to how many prompts, how many parts of them are left out in turn."""

_HINTS = 2_000
"""Rows that show the curvature at most; more make it no better a guess."""

_SAME = 0.7
"""Likeness to a prompt from which on a background message is a request for the pack; chosen."""


def words_of(name: str) -> str:
    """The words of an intent's name."""
    return " ".join(name.replace("_", " ").replace("-", " ").lower().split())


def fit(
    training_set: TrainingSet, vectors: Floats, name_vectors: Floats, background: Background
) -> SemanticModel:
    """Fit a model to example prompts; equal training sets give equal models.

    Args:
        training_set: The prompts.
        vectors: The embedder's vectors of the texts, shape (texts, dim); dim 0 without an embedder.
        name_vectors: Those of `words_of` each intent.
        background: Messages about something else.
    """
    owners = np.asarray(training_set.owners, np.intp)
    count, n = len(training_set.intents), len(training_set.texts)
    share, strength = _weights(n / max(count, 1))
    share = share if vectors.shape[1] else 1.0
    features = count_features((*training_set.texts, *background.texts))
    size = n + len(background.texts)
    grams = vectorizer_from_counts(features, size)
    rows = _rows(np.concatenate([vectors, background.vectors]), share, grams, features)
    names = [words_of(name) for name in training_set.intents]
    name_rows = np.concatenate([name_vectors, np.float32(share) * grams.rows(names)], axis=1)

    prompts = rows[:n]
    fold_count = next(fold_count for top, fold_count in _FOLDS if n <= top)
    folds = _folds(unit_rows(prompts), owners, fold_count)
    other = _without_requests(prompts, folds, rows[n:], background.lines)
    outside, outside_folds = rows[n:][other], np.asarray(background.lines)[other] % fold_count
    problem = _problem(prompts, outside, name_rows, owners, strength)

    # A held-out prompt has words that no other has; as a message it would not know them either.
    once = grams.rarity >= grams.rarity.max(initial=0.0) - 1e-6
    shared = NgramVectorizer(rarity=np.where(once, 0, grams.rarity).astype(np.float32))
    held_out = _rows(np.concatenate([vectors, background.vectors]), share, shared, features)
    held_out = np.concatenate([held_out[:n], held_out[n:][other]])
    all_folds = np.concatenate([folds, outside_folds])
    logits, partial = _cross_validate(problem, held_out, all_folds)
    judge = _Judge(
        training_set=training_set, prompts=prompts, owners=owners, folds=folds, dim=vectors.shape[1]
    )
    curves = judge.calibrate(logits, held_out, all_folds)
    if n >= _ENOUGH * count:
        linear = _between(problem.learn(np.arange(problem.size), _STEPS), partial)
    else:
        linear = problem.learn(np.arange(problem.size), _FEW_STEPS)
    if problem.basis is not None:
        linear = LinearModel(weights=problem.basis @ linear.weights, constants=linear.constants)
    byte_rows, steps = quantize_rows(unit_rows(prompts))
    return SemanticModel(
        training_set=training_set,
        # Rounded as the file stores it, so that a cached model gives the same answers.
        grams=NgramVectorizer(rarity=grams.rarity.astype(np.float16).astype(np.float32)),
        share=share,
        linear=linear,
        dim=vectors.shape[1],
        rows=byte_rows,
        steps=steps,
        lengths=np.linalg.norm(prompts, axis=1),
        held_confidences=curves.confidences,
        held_owners=curves.predicted,
        inside_curve=curves.inside,
        which_curve=curves.which,
        doubt=curves.doubt,
    )


def _rows(
    vectors: Floats, share: float, grams: NgramVectorizer, features: Sequence[FeatureCounts]
) -> Floats:
    """Vectors and n-grams of counted texts side by side."""
    return np.concatenate(
        [vectors, np.float32(share) * grams.rows_of(features, len(vectors))], axis=1
    )


def _without_requests(
    prompts: Floats, folds: Indices, outside: Floats, lines: Sequence[int]
) -> NDArray[np.bool_]:
    """Which background messages are about something else than the prompts.

    A pack about timers would be told that "set a timer" is nothing to it. A line goes as a whole if
    a third of its messages are as like a prompt as prompts are like each other.
    """
    if not len(prompts) or not len(outside):
        return np.ones(len(outside), np.bool_)
    base = unit_rows(prompts)
    # A sample is enough for a median.
    at = np.arange(0, len(base), max(len(base) // 500, 1))
    alike = base[at] @ base.T
    alike[folds[at][:, None] == folds[None]] = -1
    same = max(float(np.median(alike.max(axis=1))), _SAME)
    queries = unit_rows(outside)
    nearest = np.concatenate(
        [
            (queries[start : start + 500] @ base.T).max(axis=1)
            for start in range(0, len(queries), 500)
        ]
    )
    where = np.asarray(lines, np.intp)
    total = np.bincount(where)
    requests = np.bincount(where, nearest >= same, len(total))
    return (requests < np.maximum(total, 1) / 3)[where]


@dataclass(frozen=True, kw_only=True)
class _Problem:
    """The rows that softmax regression is fitted to: prompts, background, then intents' names."""

    rows: Floats
    classes: Indices
    """The class of each row; the last one is the background's."""
    count: int
    """Number of classes."""
    size: int
    """Number of prompts and background messages."""
    strength: float
    basis: Floats | None
    """Columns that span the rows, where `rows` are written in these; None: as they are."""
    hint: Floats
    """What `inverse_curvature` says of the rows."""

    def learn(self, which: Indices, steps: int) -> LinearModel:
        """The fit to some of the messages, and to all names."""
        chosen = np.concatenate([which, np.arange(self.size, len(self.rows))])
        return fit_softmax(
            self.rows[chosen],
            self.classes[chosen],
            self.count,
            strength=self.strength,
            steps=steps,
            hint=self.hint,
        )


def _problem(
    prompts: Floats, outside: Floats, names: Floats, owners: Indices, strength: float
) -> _Problem:
    rows = np.concatenate([prompts, outside, names])
    count = len(names) + 1
    classes = np.concatenate([owners, np.full(len(outside), count - 1), np.arange(len(names))])
    # The weights lie in the span of the rows; of few rows that is a small space, and a fit in it
    # gives the same model sooner.
    basis = np.linalg.qr(rows.T)[0] if len(rows) < rows.shape[1] else None
    rows = rows if basis is None else rows @ basis
    sample = rows[:: -(-len(rows) // _HINTS) or 1]
    return _Problem(
        rows=rows,
        classes=classes.astype(np.intp),
        count=count,
        size=len(prompts) + len(outside),
        strength=strength,
        basis=basis,
        hint=inverse_curvature(sample, count, strength=strength * len(rows) / max(len(sample), 1)),
    )


def _cross_validate(
    problem: _Problem, held_out: Floats, folds: Indices
) -> tuple[Floats, list[LinearModel]]:
    """Logits of each message by a model fitted without its fold, and these models."""
    queries = held_out if problem.basis is None else held_out @ problem.basis
    logits = np.zeros((len(held_out), problem.count), np.float32)
    partial: list[LinearModel] = []
    for fold in range(int(folds.max(initial=-1)) + 1):
        out = np.flatnonzero(folds == fold)
        partial.append(problem.learn(np.flatnonzero(folds != fold), _FOLD_STEPS))
        logits[out] = partial[-1].logits(queries[out])
    return logits, partial


@dataclass(frozen=True, kw_only=True)
class _Curves:
    """What held-out messages say of how sure answers are."""

    inside: tuple[float, ...]
    which: tuple[float, ...]
    doubt: tuple[float, ...]
    confidences: Floats
    """Of each prompt that is not of `UNSUPPORTED`."""
    predicted: Indices
    """What each of these was taken for."""


@dataclass(frozen=True, kw_only=True)
class _Judge:
    """Fits the curves of confidence on messages that were judged without being known."""

    training_set: TrainingSet
    prompts: Floats
    owners: Indices
    folds: Indices
    dim: int

    def calibrate(self, logits: Floats, held_out: Floats, folds: Indices) -> _Curves:
        """The curves.

        Args:
            logits: Of each message by a model that did not know it, prompts first.
            held_out: Their rows.
            folds: Their folds.
        """
        n, columns = len(self.owners), logits.shape[1]
        inside = np.array([name != UNSUPPORTED for name in self.training_set.intents], np.bool_)
        if not inside.any():
            none = np.zeros(0, np.float32)
            return _Curves(
                inside=_INSIDE_START,
                which=_WHICH_START,
                doubt=_WHICH_START,
                confidences=none,
                predicted=none.astype(np.intp),
            )
        intents = np.append(inside, np.zeros(columns - len(inside), np.bool_))
        judged = inside[self.owners]
        predicted, features = self._features(logits, intents, held_out, folds)
        # Without its own intent, a prompt is a message that no intent knows.
        without = logits[:n][judged].copy()
        without[np.arange(len(without)), self.owners[judged]] = -1e4
        _, foreign = self._features(without, intents, held_out[:n][judged], folds[:n][judged])
        expected = max(_OUTSIDE * min(1.0, 8 / int(inside.sum())), _OUTSIDE_LEAST)
        outside = np.append(~judged, np.ones(len(logits) - n, np.bool_))
        inside_curve = fit_logistic_curve(
            np.concatenate([features, foreign]),
            np.append(~outside, np.zeros(len(foreign), np.bool_)),
            np.concatenate(
                [
                    np.where(outside, expected * judged.sum() / max(outside.sum(), 1), 1.0),
                    np.full(len(foreign), FOREIGN),
                ]
            ),
            start=_INSIDE_START,
            pull=2.0,
        )
        own, chosen = self.owners[judged], predicted[:n][judged]
        right = chosen == own
        margins, doubts = _margins(logits[:n][judged][:, intents])
        which_curve = fit_logistic_curve(
            margins[:, None], right, np.ones(len(right)), start=_WHICH_START, pull=2.0
        )
        # Only prompts whose intent is one of the best two tell anything about the choice between
        # them.
        second = logits[:n][judged].copy()
        second[:, ~intents] = -1e9
        second[np.arange(len(second)), chosen] = -1e9
        among = right | (second.argmax(axis=1) == own)
        doubt = fit_logistic_curve(
            doubts[among, None],
            right[among],
            np.ones(int(among.sum())),
            start=_DOUBT_START,
            pull=4.0,
        )
        sure = logistic_curve(inside_curve, features[:n][judged])
        sure *= logistic_curve(which_curve, margins[:, None])
        return _Curves(
            inside=inside_curve,
            which=which_curve,
            doubt=doubt,
            confidences=sure.astype(np.float32),
            predicted=chosen,
        )

    def _features(
        self, logits: Floats, intents: NDArray[np.bool_], rows: Floats, folds: Indices
    ) -> tuple[Indices, Floats]:
        """The best intent of each message, and what tells whether any is meant."""
        predicted = np.where(intents, logits, -1e9).argmax(axis=1)
        queries = [unit_rows(rows)]
        bases = [unit_rows(self.prompts)]
        if self.dim:
            queries.append(rows[:, : self.dim])
            bases.append(self.prompts[:, : self.dim])
        near = [
            closeness(
                base,
                self.owners,
                self.folds,
                asked,
                folds,
                predicted,
                len(self.training_set.intents),
            )
            for base, asked in zip(bases, queries, strict=True)
        ]
        if self.dim:
            # Of what the embedder cannot read, words alone tell.
            unread = ~queries[1].any(axis=1)
            near[1][unread] = near[0][unread]
        close = log_closeness(np.concatenate(near, axis=1))
        return predicted, np.stack([log_odds(logits, intents), close], axis=1)


def _margins(logits: Floats) -> tuple[Floats, Floats]:
    """By how much the best class leads: over all others together, and over the second."""
    if logits.shape[1] < 2:  # one class has no rival
        # 30 is beyond all doubt.
        lead = np.full(len(logits), 30.0, np.float32)
        return lead, lead
    best = logits.argmax(axis=1)
    first = logits[np.arange(len(logits)), best]
    others = logits.copy()
    others[np.arange(len(logits)), best] = -1e9
    top = others.max(axis=1)
    total = top + np.log(np.exp(others - top[:, None]).sum(axis=1))
    return first - total, first - top


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
