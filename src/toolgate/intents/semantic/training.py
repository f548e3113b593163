"""Fit the semantic classifier: example prompts in, a model of intents with confidences out.

* **Which intent.** Softmax regression on the embedder's vector and the folded n-grams side by
  side. The more prompts an intent has, the more weight the n-grams get; without an embedder
  they are used alone. The name of an intent counts as one more prompt.
* **Is it for this pack at all?** The regression has one more class: everyday messages
  (`background`). How much more likely the intents are together than that class, how close the
  message is to the prompts of the best one, and how much closer than to any message about
  something else, give the probability that the pack is meant.
* **How sure.** That probability, times the probability that the best intent is right if any is.
  Both are logistic curves, fitted on prompts and background messages by models that were
  trained without them.
* **When to reject.** The cut is the quantile of the prompts' held-out confidences that rejects
  as many supported messages as `false_alarms` allows; and no message is answered that is not
  clearly meant for the pack.

The scores of prompts without their own intent represent messages of the same domain that no
intent covers; each counts as `FOREIGN` of a message.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

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

FOREIGN = 0.025
"""Expected number of messages of the domain that no intent covers, per supported message."""

_OUTSIDE = 3.0
"""Expected number of messages about something else per supported message, for a pack with up to
eight intents. The more intents a pack has, the more messages are meant for it (chosen)."""

_OUTSIDE_LEAST = 0.5
"""Smallest expected number of them."""

_INSIDE_START = (0.8, 0.7, 0.5, 3.0)
"""The initial curve of "for this pack at all": of log odds, log closeness and contrast."""

_WHICH_START = (0.0, 1.0)
"""The initial curve of "the best intent is right, if any is"."""

_DOUBT_START = (0.0, 0.5)
"""The initial curve of "the first and not the second"."""

_STEPS = 25
"""Largest number of steps of the fit to all prompts."""

_FEW_STEPS = 16
"""The same if intents have few prompts: later steps fit these prompts rather than messages."""

_ENOUGH = 20
"""Prompts per intent from which a part of them tells about as much as all."""

_FOLD_STEPS = 11
"""Steps of a fit to a part of the prompts, which is used only for scores."""

_FOLDS = ((100, 5), (1_000, 8), (math.inf, 4))
"""Largest number of prompts, and the number of folds up to it."""

_HINTS = 2_000
"""Largest number of rows to estimate the curvature; more do not improve the estimate."""

_RIVALS = 3_000
"""Messages about something else that a message is compared with: those most like a prompt, since
the others are never the nearest. Time and memory of an answer grow with them (chosen)."""

_SAME = 0.7
"""A background message this similar to a prompt, or more, is a request for the pack (chosen)."""


def words_of(name: str) -> str:
    """Return the words of an intent's name."""
    return " ".join(name.replace("_", " ").replace("-", " ").lower().split())


def fit(
    training_set: TrainingSet,
    vectors: Floats,
    name_vectors: Floats,
    background: Background,
    *,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> SemanticModel:
    """Fit a model to example prompts; equal training sets give equal models.

    Args:
        training_set: The prompts.
        vectors: The embedder's vectors of the texts, shape (texts, dim); dim 0 without an embedder.
        name_vectors: The vectors of `words_of` each intent.
        background: Messages about something else.
        is_cancelled: Asked from time to time whether nobody needs the model any more.

    Raises:
        TrainingCancelledError: Nobody does.
    """
    owners = np.asarray(training_set.owners, np.intp)
    count, n = len(training_set.intents), len(training_set.texts)
    share, strength = _weights(n / max(count, 1))
    share = share if vectors.shape[1] else 1.0
    features = count_features((*training_set.texts, *background.texts))
    grams = vectorizer_from_counts(features, n + len(background.texts))
    rows = _rows(np.concatenate([vectors, background.vectors]), share, grams, features)
    names = [words_of(name) for name in training_set.intents]
    name_rows = np.concatenate([name_vectors, np.float32(share) * grams.rows(names)], axis=1)

    fold_count = next(fold_count for top, fold_count in _FOLDS if n <= top)
    folds = _folds(unit_rows(rows[:n]), owners, fold_count)
    other = _without_requests(rows[:n], folds, rows[n:], background.lines)
    outside_folds = np.asarray(background.lines)[other] % fold_count
    kept = np.append(np.ones(n, np.bool_), other)
    # From here on everything is a view of these rows: they take 50 MB for a large pack.
    rows = np.concatenate([rows[kept], name_rows])
    size = len(rows) - count
    prompts, outside = rows[:n], rows[n:size]
    problem = replace(_problem(rows, owners, count, strength), is_cancelled=is_cancelled)

    rivals = _rivals(training_set, prompts, folds, outside, outside_folds)
    # Words that only a held-out prompt has are removed: a new message would not have known words
    # like these.
    once = grams.rarity >= grams.rarity.max(initial=0.0) - 1e-6
    shared = NgramVectorizer(rarity=np.where(once, 0, grams.rarity).astype(np.float32))
    held_out = _rows(np.concatenate([vectors, background.vectors]), share, shared, features)[kept]
    all_folds = np.concatenate([folds, outside_folds])
    logits, partial = _cross_validate(problem, held_out, all_folds)
    judge = _Judge(
        training_set=training_set,
        prompts=prompts,
        owners=owners,
        folds=folds,
        rivals=rivals,
        dim=vectors.shape[1],
    )
    curves = judge.calibrate(logits, held_out, all_folds)
    if n >= _ENOUGH * count:
        linear = _between(problem.learn(np.arange(problem.size), _STEPS), partial)
    else:
        linear = problem.learn(np.arange(problem.size), _FEW_STEPS)
    if problem.basis is not None:
        linear = LinearModel(weights=problem.basis @ linear.weights, constants=linear.constants)
    byte_rows, steps = quantize_rows(unit_rows(prompts))
    rival_rows, rival_steps = quantize_rows(rivals.rows)
    return SemanticModel(
        training_set=training_set,
        # Rounded as in the file, so that a cached model gives the same answers.
        grams=NgramVectorizer(rarity=grams.rarity.astype(np.float16)),
        share=share,
        linear=linear,
        dim=vectors.shape[1],
        rows=byte_rows,
        steps=steps,
        lengths=np.linalg.norm(prompts, axis=1),
        rivals=rival_rows,
        rival_steps=rival_steps,
        held_confidences=curves.confidences,
        held_owners=curves.predicted,
        inside_curve=curves.inside,
        which_curve=curves.which,
        doubt=curves.doubt,
    )


def _rows(
    vectors: Floats, share: float, grams: NgramVectorizer, features: Sequence[FeatureCounts]
) -> Floats:
    """Return vectors and n-grams of counted texts side by side."""
    counted = grams.rows_of(features, len(vectors))
    counted *= np.float32(share)
    return np.concatenate([vectors, counted], axis=1)


def _without_requests(
    prompts: Floats, folds: Indices, outside: Floats, lines: Sequence[int]
) -> NDArray[np.bool_]:
    """Return which background messages are about something else than the prompts.

    A pack about timers would otherwise learn that "set a timer" is not for it. A whole line is
    removed if a third of its messages are as similar to a prompt as prompts are to each other.
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
class _Rivals:
    """Messages about something else that are like prompts."""

    rows: Floats
    """Shape (messages, columns), of length 1."""
    folds: Indices
    """The fold of each message."""

    def nearest(self, rows: Floats, folds: Indices) -> Floats:
        """Return the similarity of each row of length 1 to the nearest of another fold."""
        return _nearest(rows, folds, self.rows, self.folds)


def _rivals(
    training_set: TrainingSet,
    prompts: Floats,
    folds: Indices,
    outside: Floats,
    outside_folds: Indices,
) -> _Rivals:
    """Return the background and unsupported messages that are most like a prompt."""
    names = training_set.intents
    is_prompt = np.array([names[owner] != UNSUPPORTED for owner in training_set.owners], np.bool_)
    rows = unit_rows(np.concatenate([outside, prompts[~is_prompt]]))
    all_folds = np.concatenate([outside_folds, folds[~is_prompt]])
    nobody = np.full(len(rows), -1, np.intp)
    alike = _nearest(rows, nobody, unit_rows(prompts[is_prompt]), folds[is_prompt])
    chosen = np.sort(np.argsort(-alike, kind="stable")[:_RIVALS])
    return _Rivals(rows=rows[chosen], folds=all_folds[chosen])


def _nearest(rows: Floats, folds: Indices, base: Floats, base_folds: Indices) -> Floats:
    """Return the similarity of each row to the nearest of a base that is not of its fold.

    Rows of length 1; 0 if there is none.
    """
    nearest = np.zeros(len(rows), np.float32)
    # 500 rows at once, to limit the memory for similarities.
    for start in range(0, len(rows), 500):
        alike = rows[start : start + 500] @ base.T
        alike[folds[start : start + 500, None] == base_folds[None]] = 0
        nearest[start : start + 500] = alike.max(axis=1, initial=0.0)
    return nearest


@dataclass(frozen=True, kw_only=True)
class _Problem:
    """The rows that softmax regression is fitted to: prompts, background, then intents' names."""

    rows: Floats
    classes: Indices
    """The class of each row; the last class is the background."""
    count: int
    """Number of classes."""
    size: int
    """Number of prompts and background messages."""
    strength: float
    basis: Floats | None
    """Columns that span the rows, if `rows` are expressed in them; None: original columns."""
    hint: Floats
    """The `inverse_curvature` of the rows."""
    is_cancelled: Callable[[], bool] = lambda: False

    def learn(self, which: Indices, steps: int) -> LinearModel:
        """Fit a model to some of the messages, and to all names."""
        chosen = np.concatenate([which, np.arange(self.size, len(self.rows))])
        return fit_softmax(
            self.rows[chosen],
            self.classes[chosen],
            self.count,
            strength=self.strength,
            steps=steps,
            hint=self.hint,
            is_cancelled=self.is_cancelled,
        )


def _problem(rows: Floats, owners: Indices, intents: int, strength: float) -> _Problem:
    """Return the problem of prompts, background and names of intents, in this order."""
    count, size = intents + 1, len(rows) - intents
    background = np.full(size - len(owners), intents)
    classes = np.concatenate([owners, background, np.arange(intents)])
    # The weights are in the span of the rows; for few rows that is a small space, in which a fit
    # gives the same model faster.
    basis = np.linalg.qr(rows.T)[0] if len(rows) < rows.shape[1] else None
    rows = rows if basis is None else rows @ basis
    sample = rows[:: -(-len(rows) // _HINTS) or 1]
    return _Problem(
        rows=rows,
        classes=classes.astype(np.intp),
        count=count,
        size=size,
        strength=strength,
        basis=basis,
        hint=inverse_curvature(sample, count, strength=strength * len(rows) / max(len(sample), 1)),
    )


def _cross_validate(
    problem: _Problem, held_out: Floats, folds: Indices
) -> tuple[Floats, list[LinearModel]]:
    """Return logits of each message by a model fitted without its fold, and these models."""
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
    """Curves of confidence, fitted to held-out messages."""

    inside: tuple[float, ...]
    which: tuple[float, ...]
    doubt: tuple[float, ...]
    confidences: Floats
    """Confidence for each prompt except those of `UNSUPPORTED`."""
    predicted: Indices
    """The predicted class of each of these."""


@dataclass(frozen=True, kw_only=True)
class _Judge:
    """Fits the curves of confidence to held-out messages."""

    training_set: TrainingSet
    prompts: Floats
    owners: Indices
    folds: Indices
    rivals: _Rivals
    dim: int

    def calibrate(self, logits: Floats, held_out: Floats, folds: Indices) -> _Curves:
        """Fit the curves.

        Args:
            logits: Of each message by a model fitted without it, prompts first.
            held_out: Rows of the messages.
            folds: Folds of the messages.
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
        rival = self.rivals.nearest(unit_rows(held_out), folds)
        predicted, features = self._features(logits, intents, held_out, folds, rival)
        # Without its own intent, a prompt is a message that no intent covers.
        without = logits[:n][judged].copy()
        without[np.arange(len(without)), self.owners[judged]] = -1e4
        _, foreign = self._features(
            without, intents, held_out[:n][judged], folds[:n][judged], rival[:n][judged]
        )
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
        # Only prompts whose intent is one of the best two say anything about the choice between
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
        self,
        logits: Floats,
        intents: NDArray[np.bool_],
        rows: Floats,
        folds: Indices,
        rival: Floats,
    ) -> tuple[Indices, Floats]:
        """Return the best intent of each message, and features that tell whether any is meant.

        `rival` is the similarity of each message to the nearest one about something else.
        """
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
            # If the embedder cannot read a message, only its words count.
            unread = ~queries[1].any(axis=1)
            near[1][unread] = near[0][unread]
        close = log_closeness(np.concatenate(near, axis=1))
        contrast = near[0][:, 1] - rival
        return predicted, np.stack([log_odds(logits, intents), close, contrast], axis=1)


def _margins(logits: Floats) -> tuple[Floats, Floats]:
    """Return the lead of the best class: over all others together, and over the second."""
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
    """Average the fit to all prompts and the mean of the fits to parts of them.

    What they agree on is preserved, and what only one of them has found is halved. With all their
    prompts, this and nine more steps gain 0.3 points on banking77 and lose nothing on hwu64.
    """
    share = np.float32(0.5 / max(len(partial), 1))
    weights, constants = 0.5 * whole.weights, 0.5 * whole.constants
    for part in partial:
        weights += share * part.weights
        constants += share * part.constants
    return LinearModel(weights=weights, constants=constants)


def _weights(prompts: float) -> tuple[float, float]:
    """Return the weight of n-grams and of prompts for this average number of prompts per intent.

    0.6 and 20 for ten prompts, 0.8 and 10 for a hundred: the best of 0.4 to 0.8 and 6 to 20 on
    clinc150, banking77 and hwu64, by half a point.
    """
    prompts = max(prompts, 1.0)
    share = float(np.clip(0.4 + 0.2 * np.log10(prompts), 0.4, 1.0))
    return share, float(40 / prompts**0.3)


def _folds(rows: Floats, owners: Indices, fold_count: int) -> Indices:
    """Return a fold for each row, each class spread evenly; the same every time.

    If a class has enough rows, a row and its nearest neighbour share a fold: prompts come in
    pairs that hardly differ, but messages do not, and would seem easier than they are.
    """
    random = np.random.default_rng(0)
    folds = np.zeros(len(owners), np.intp)
    for k in np.unique(owners):
        members = random.permutation(np.flatnonzero(owners == k))
        # Too few for pairs: they are distributed in turn. The factor 4 is chosen.
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
