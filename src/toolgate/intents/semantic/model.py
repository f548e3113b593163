"""The fitted classifier: its prediction for a message, and the nearest prompts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolgate.intents.base import DetectionLimits
from toolgate.intents.semantic.ngrams import NgramVectorizer, fit_vectorizer
from toolgate.intents.semantic.prompt_columns import MessageRow, PromptColumns
from toolgate.intents.semantic.scores import (
    Floats,
    Indices,
    class_sums,
    logistic,
    unit_rows,
)
from toolgate.intents.semantic.softmax import LinearModel

UNSUPPORTED = ""
"""The class of known but unsupported examples; no intent has this name."""

# Chosen; limits the memory for similarities.
_AT_ONCE = 500
"""Number of prompts that are compared with all others at once."""

_LIKELY = 0.5
"""Smallest probability that a message is for any intent for which an intent is returned."""

_CLEAR = 0.6
"""The same for a pack with unsupported examples, which show how close other messages come to it.

Of 893 messages used for development, 0.6 instead of 0.5 misses one more and raises six fewer of
eleven false alarms (chosen)."""

HOPELESS = 0.1
"""Probability, by its words and at best closeness, below which a message is not compared with
the prompts (chosen)."""

_WARM = 5_000
"""Most prompts of a model that stay in memory as columns to calculate with: 10 MB (chosen)."""

_FAR = -2.5
"""The log closeness assumed in that case: that of everyday messages to the prompts of the
built-in packs."""

DEFAULT_LIMITS = DetectionLimits()


@dataclass(frozen=True, kw_only=True)
class TrainingSet:
    """The example prompts that a model is fitted to."""

    intents: tuple[str, ...]
    """Names of the classes; the last is `UNSUPPORTED` if there are examples of it."""

    texts: tuple[str, ...]
    """The prompts; no two are equal after normalization."""

    owners: tuple[int, ...]
    """For each text, the index of its intent."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The intents of a message with probabilities, best first."""

    ranked: tuple[tuple[str, float], ...]
    """Intents with probabilities, best first; the remainder to 1 is "none of these". The first
    probability is the confidence."""

    accepted: bool
    """Whether the confidence in the best intent is high enough to return it."""

    cut: float
    """The confidence required."""

    sure: float
    """Probability that the first and not the second is right, if one of them is."""

    has_known_features: bool
    """Whether the model knows any feature of the message: a word, or a part of one."""

    inside: float
    """Probability that the message is for any of the intents."""

    is_unsupported: bool
    """Whether it is most similar to the known but unsupported examples."""

    closeness: float
    """Log closeness of the message to the prompts of the best intent; 0: it equals one of them."""

    nearest: str
    """The prompt of the best intent that is most similar to the message; empty if it has none."""

    is_rough: bool = False
    """Whether it was not compared with counterexamples, since it is rejected in any case: `inside`
    and the confidences are upper bounds."""

    @property
    def intent(self) -> str:
        """The best intent, accepted or not; empty if there is none."""
        return self.ranked[0][0] if self.ranked else ""

    @property
    def confidence(self) -> float:
        """Probability that the best intent is right."""
        return self.ranked[0][1] if self.ranked else 0.0


@dataclass(frozen=True, kw_only=True)
class PromptNeighbours:
    """A prompt, and the prompts most similar to it."""

    intent: str
    """Its intent."""

    prompt: str
    """Its text."""

    own_similarity: float
    """Similarity to the nearest other prompt of its intent, in [-1, 1]; -1 if there is none."""

    other_intent: str
    """The intent of the nearest prompt of another intent."""

    other_prompt: str
    """That prompt."""

    other_similarity: float
    """Similarity to that prompt."""

    recognised: bool
    """Whether a model fitted without the prompt predicts its intent."""


class ClassScores(NamedTuple):
    """How well each class of a model fits a message."""

    logits: list[float]
    """Of every class."""

    shares: list[float]
    """Probability of each intent, if one of them is right."""

    odds: float
    """Log odds that one of the intents is right and none of the other classes."""


@dataclass(frozen=True, kw_only=True)
class SemanticModel:
    """A fitted classifier; immutable."""

    training_set: TrainingSet
    """The prompts that it was fitted to."""

    grams: NgramVectorizer
    """Converts texts to n-gram rows."""

    share: float
    """Weight of the n-grams relative to the embedder's vector."""

    linear: LinearModel
    """Maps rows to classes: those of the training set, then one more for anything else."""

    dim: int
    """Length of the embedder's vector; 0 without an embedder."""

    rows: NDArray[np.int8]
    """Shape (texts, dim + COLUMNS): vectors and n-grams side by side; length 1 when multiplied
    by `steps`. With so few bits, a cosine is off by less than 0.001, and is read three times as
    fast."""

    steps: Floats
    """Shape (texts,): the factor of each row."""

    lengths: Floats
    """Shape (texts,): the original lengths of the rows, by which they were divided."""

    rivals: NDArray[np.int8]
    """Like `rows`: messages about something else that are like prompts."""

    rival_steps: Floats
    """The factor of each of them."""

    held_confidences: Floats
    """Confidence in the answer to each prompt by a model fitted without it."""

    held_owners: Indices
    """The intent that this model predicted, by index."""

    inside_curve: tuple[float, ...]
    """Probability that any intent is meant: a logistic curve of log odds, log closeness, and
    contrast: by how much the nearest prompt is more similar than the nearest of `rivals`."""

    which_curve: tuple[float, ...]
    """Probability that the best intent is right, if any is: a curve of its log odds among the
    intents."""

    doubt: tuple[float, ...]
    """Probability that the best and not the second is right: a curve of the difference of their
    logits."""

    @cached_property
    def _by_class(self) -> tuple[Indices, ...]:
        owners = np.asarray(self.training_set.owners, np.intp)
        return tuple(np.flatnonzero(owners == k) for k in range(len(self.training_set.intents)))

    @cached_property
    def _prompt_grams(self) -> NgramVectorizer:
        """Knows only the n-grams of the prompts; `grams` also knows those of the background."""
        return fit_vectorizer(self.training_set.texts)

    @cached_property
    def counted(self) -> NDArray[np.bool_]:
        """Which texts have a held-out score: all except those of `UNSUPPORTED`."""
        names = self.training_set.intents
        return np.array(
            [names[owner] != UNSUPPORTED for owner in self.training_set.owners], np.bool_
        )

    @cached_property
    def _means(self) -> tuple[Floats, Floats]:
        """The mean of each class, at length 1: of the vectors, and of vectors and n-grams."""
        owners = np.asarray(self.training_set.owners, np.intp)
        both = self._rows(slice(None))
        vectors = both[:, : self.dim] * self.lengths[:, None]
        count = len(self.training_set.intents)
        return unit_rows(class_sums(vectors, owners, count)), unit_rows(
            class_sums(both, owners, count)
        )

    @cached_property
    def _cuts(self) -> dict[tuple[DetectionLimits, str], float]:
        return {}

    def cut(self, limits: DetectionLimits = DEFAULT_LIMITS, intent: str = "") -> float:
        """Return the confidence required for an answer.

        With an `intent`, its own prompts are combined with all others, which count as much as
        twenty of its own.
        """
        if limits.threshold is not None:
            return limits.threshold
        cut = self._cuts.get((limits, intent))
        if cut is None:
            # Bounded: limits come from settings, which can change any number of times.
            if len(self._cuts) > 10_000:
                self._cuts.clear()
            cut = self._cuts[limits, intent] = self._found_cut(limits.false_alarms, intent)
        return cut

    def _found_cut(self, share: float, intent: str) -> float:
        if not len(self.held_confidences):
            return 0.0
        share = min(max(share, 0.0), 1.0)
        cut = float(np.quantile(self.held_confidences, share))
        if intent in self.training_set.intents:
            own = self.held_confidences[self.held_owners == self.training_set.intents.index(intent)]
            if len(own):
                # Shrink towards the common quantile: with few prompts, an intent's own is
                # inaccurate.
                cut = (len(own) * float(np.quantile(own, share)) + 20 * cut) / (len(own) + 20)
        return cut

    @cached_property
    def is_intent(self) -> NDArray[np.bool_]:
        """Which columns of the linear model are intents."""
        names = (*self.training_set.intents, UNSUPPORTED)
        return np.array([name != UNSUPPORTED for name in names], np.bool_)

    @cached_property
    def _intents(self) -> list[int]:
        return [at for at, is_intent in enumerate(self.is_intent.tolist()) if is_intent]

    @cached_property
    def _other_classes(self) -> list[int]:
        return [at for at, is_intent in enumerate(self.is_intent.tolist()) if not is_intent]

    def class_scores(self, row: Floats) -> ClassScores:
        """Return how well each class fits a message."""
        logits: list[float] = self.linear.logits(row).tolist()
        of_intents = [logits[at] for at in self._intents]
        # Subtracting the maximum prevents overflow in exp and changes no probability.
        top = max(of_intents, default=0.0)
        weights = [math.exp(logit - top) for logit in of_intents]
        total = math.fsum(weights)
        rest = [logits[at] for at in self._other_classes]
        most = max(rest)
        others = most + math.log(math.fsum(math.exp(logit - most) for logit in rest))
        return ClassScores(
            logits=logits,
            shares=[weight / total for weight in weights],
            odds=top + math.log(total) - others if total else -math.inf,
        )

    def predict(
        self,
        text: str,
        vector: Floats | None,
        *,
        limits: DetectionLimits = DEFAULT_LIMITS,
        pack_limits: Mapping[str, DetectionLimits] | None = None,
        own_limits: Mapping[str, DetectionLimits] | None = None,
        depth: int = 5,
    ) -> Prediction:
        """Predict the intents of a message.

        Args:
            text: The message.
            vector: Its embedding; None without an embedder, or if it failed.
            limits: When the answer is withheld.
            pack_limits: Other limits for the intents of some packs, by intent.
            own_limits: Limits of individual intents, whose own prompts get more weight.
            depth: Largest number of intents returned.
        """
        row = self.row(self.grams.rows([text])[0], vector)
        return self.judge(
            text,
            row,
            self.class_scores(row),
            limits=limits,
            pack_limits=pack_limits,
            own_limits=own_limits,
            depth=depth,
        )

    def judge(
        self,
        text: str,
        row: Floats,
        scores: ClassScores,
        *,
        limits: DetectionLimits = DEFAULT_LIMITS,
        pack_limits: Mapping[str, DetectionLimits] | None = None,
        own_limits: Mapping[str, DetectionLimits] | None = None,
        depth: int = 5,
        may_be_rough: bool = False,
    ) -> Prediction:
        """Do what `predict` does, for a message whose `row` and `class_scores` are known.

        With `may_be_rough`, a message that counterexamples could only reject once more is not
        compared with them, which is most of the work.
        """
        intents = self._intents
        if not intents:
            return _prediction_without_prompts()
        # Columns are shared by many n-grams, so the row does not tell which n-grams are in it.
        has_features = bool(row[: self.dim].any() or self._prompt_grams.rows([text]).any())
        logits, shares, odds = scores
        order = sorted(range(len(shares)), key=lambda k: -shares[k])[: max(depth, 2)]
        best = intents[order[0]]
        names = self.training_set.intents
        limit = (own_limits or {}).get(names[best])
        if limit is None:
            limit = (pack_limits or {}).get(names[best], limits)
            cut = self.cut(limit)
        else:
            cut = self.cut(limit, names[best])
        first = shares[order[0]]
        # The 1e-9 only prevents a division by zero.
        lead = math.log(max(first, 1e-9) / max(1 - first, 1e-9))
        right = logistic(self.which_curve[0] + self.which_curve[1] * lead)
        likely_from = _CLEAR if UNSUPPORTED in names else _LIKELY
        constant, by_odds, by_closeness, by_contrast = self.inside_curve
        evidence = constant + by_odds * odds
        close, contrast, nearest, is_rough = _FAR, 0.0, None, False
        # Comparing with all prompts of an intent is most of the work, and rarely makes up for this.
        if logistic(evidence) >= HOPELESS:
            message = MessageRow(row, self.dim)
            close, similarity, nearest = self._closeness(best, message)
            # The contrast is at most that, and the curve does not fall.
            most = logistic(evidence + by_closeness * close + by_contrast * similarity)
            is_unlikely = limit.threshold is None and most < likely_from
            is_rough = may_be_rough and (is_unlikely or most * right < cut)
            contrast = (
                similarity if is_rough or nearest is None else self._contrast(similarity, message)
            )
        inside = logistic(evidence + by_closeness * close + by_contrast * contrast)
        confidence = inside * right
        # Without a known word, the score comes only from the sizes of the intents.
        if not has_features:
            inside = confidence = 0.0
        # Distribute the remaining probability, so that the list sums to at most 1.
        left = min(1.0, max(inside - confidence, 0.0) / max(1 - first, 1e-9))
        ranked = [(names[best], confidence)]
        ranked += [(names[intents[k]], min(shares[k] * left, confidence)) for k in order[1:depth]]
        # 99 is a margin beyond all doubt, used if there is no second intent.
        second = logits[intents[order[1]]] if len(order) > 1 else -math.inf
        margin = min(logits[best] - second, 99.0)
        is_unsupported = UNSUPPORTED in names and logits[names.index(UNSUPPORTED)] > logits[best]
        # A threshold decides alone, except for what is most like unsupported examples. Without one,
        # a message that is not clearly meant for the pack gets no intent; how much it is like such
        # examples is part of that probability.
        likely = not is_unsupported if limit.threshold is not None else inside >= likely_from
        return Prediction(
            ranked=tuple(ranked),
            accepted=has_features and confidence >= cut and likely,
            cut=cut,
            sure=logistic(self.doubt[0] + self.doubt[1] * margin),
            has_known_features=has_features,
            inside=inside,
            is_unsupported=is_unsupported,
            closeness=close,
            nearest=self.training_set.texts[nearest] if nearest is not None else "",
            is_rough=is_rough,
        )

    def nearest(
        self, text: str, vector: Floats | None, count: int = 3, intent: str = ""
    ) -> list[tuple[str, str, float]]:
        """Return the most similar prompts: intent, prompt, similarity in [-1, 1]."""
        among = np.arange(len(self.training_set.texts))
        if intent:
            among = self._by_class[self.training_set.intents.index(intent)]
        row = unit_rows(self.row(self.grams.rows([text])[0], vector)[None])[0]
        alike = np.empty(len(among), np.float32)
        # A thousand rows at a time: as float32 they take four times the memory of bytes.
        for at in range(0, len(among), 1_000):
            part = among[at : at + 1_000]
            alike[at : at + 1_000] = self._rows(part) @ row
        best = np.argsort(-alike, kind="stable")[:count]
        training_set = self.training_set
        return [
            (
                training_set.intents[training_set.owners[among[k]]],
                training_set.texts[among[k]],
                round(float(alike[k]), 4),
            )
            for k in best
        ]

    def recognised(self) -> dict[str, tuple[int, int]]:
        """Return by intent how many held-out prompts are predicted right, and their number."""
        owners = np.asarray(self.training_set.owners, np.intp)[self.counted]
        right = self.held_owners == owners
        return {
            name: (int(right[owners == k].sum()), int((owners == k).sum()))
            for k, name in enumerate(self.training_set.intents)
            if name != UNSUPPORTED
        }

    def neighbours(self) -> list[PromptNeighbours]:
        """Return the most similar prompts to each prompt, in its own intent and in another."""
        names, texts, of = (
            self.training_set.intents,
            self.training_set.texts,
            self.training_set.owners,
        )
        owners = np.asarray(self.training_set.owners, np.intp)
        right = np.ones(len(texts), np.bool_)
        right[self.counted] = self.held_owners == owners[self.counted]
        rows_of_length_1 = self._rows(slice(None))
        neighbours: list[PromptNeighbours] = []
        for start in range(0, len(texts), _AT_ONCE):
            alike = rows_of_length_1[start : start + _AT_ONCE] @ rows_of_length_1.T
            here = owners[start : start + _AT_ONCE]
            rows = np.arange(len(here))
            # A prompt is not its own neighbour.
            alike[rows, start + rows] = -1
            same = here[:, None] == owners
            same_intent, other_intent = np.where(same, alike, -1), np.where(same, -1, alike)
            nearest: list[list[int]] = np.stack(
                [same_intent.argmax(1), other_intent.argmax(1)], axis=1
            ).tolist()
            for row, (nearest_same, nearest_other) in enumerate(nearest):
                at = start + row
                if names[of[at]] != UNSUPPORTED and names[of[nearest_other]] != UNSUPPORTED:
                    neighbours.append(
                        PromptNeighbours(
                            intent=names[of[at]],
                            prompt=texts[at],
                            own_similarity=round(float(same_intent[row, nearest_same]), 4),
                            other_intent=names[of[nearest_other]],
                            other_prompt=texts[nearest_other],
                            other_similarity=round(float(other_intent[row, nearest_other]), 4),
                            recognised=bool(right[at]),
                        )
                    )
        return neighbours

    def sweep(self, shares: Sequence[float]) -> list[tuple[float, float]]:
        """Return the confidence required for an answer at each share of false alarms."""
        return [(share, self.cut(DetectionLimits(false_alarms=share))) for share in shares]

    def row(self, grams: Floats, vector: Floats | None) -> Floats:
        """Return what a message with these n-grams and this embedding is classified by."""
        if vector is None:
            vector = self._likely_vector(grams)
        return np.concatenate([vector, np.float32(self.share) * grams])

    def _likely_vector(self, grams: Floats) -> Floats:
        """Estimate the missing embedding of a message: that of prompts with similar words."""
        summed = np.zeros(self.dim, np.float32)
        for at in range(0, len(self.rows) if self.dim else 0, 1_000):
            part = self._rows(slice(at, at + 1_000))
            # The eighth power lets the few prompts most similar to the message decide (chosen).
            summed += (np.maximum(part[:, self.dim :] @ grams, 0) ** 8) @ part[:, : self.dim]
        return unit_rows(summed[None])[0]

    def _rows(self, which: slice | Indices) -> Floats:
        """Return prompts as learned, at length 1."""
        return self.rows[which].astype(np.float32) * self.steps[which, None]

    def _columns(self, intent: int) -> PromptColumns:
        """Return the prompts of an intent by column; those of -1 are `rivals`."""
        columns = self._warm.get(intent)
        if columns is None:
            rows, steps = self.rivals.T, self.rival_steps
            if intent >= 0:
                members = self._by_class[intent]
                rows, steps = self.rows[members].T, self.steps[members]
            columns = PromptColumns(
                vectors=rows[: self.dim].astype(np.float32, order="C"),
                grams=rows[self.dim :].copy(),
                steps=steps,
            )
            # Every message is compared with the rivals, so they stay in any case.
            if intent < 0 or len(self.rows) <= _WARM:
                self._warm[intent] = columns
        return columns

    @cached_property
    def _warm(self) -> dict[int, PromptColumns]:
        return {}

    def _closeness(self, best: int, message: MessageRow) -> tuple[float, float, int | None]:
        """Return the log closeness, and similarity and index of the nearest prompt."""
        members, (vector_means, means) = self._by_class[best], self._means
        if not len(members):
            return _log_closeness((0.0, 0.0)), 0.0, None
        alike, near = self._columns(best).products(message)
        at = int(near.argmax())
        nearest = max(float(near[at]), 0.0) / message.length
        parts = [float(means[best] @ message.whole) / message.length, nearest]
        # If the embedder cannot read a message, only its words count.
        if message.vector.any():
            alike *= self._vector_steps[best]
            parts += [float(vector_means[best] @ message.vector), max(float(alike.max()), 0.0)]
        return _log_closeness(parts), nearest, int(members[at])

    @cached_property
    def _vector_steps(self) -> tuple[Floats, ...]:
        """The factors of the vectors of the prompts of each class, at their original lengths."""
        steps = self.steps * self.lengths
        return tuple(steps[members] for members in self._by_class)

    def _contrast(self, nearest: float, message: MessageRow) -> float:
        """Return by how much a similarity exceeds that of the nearest rival, if that is above 0."""
        _, rival = self._columns(-1).products(message)
        return nearest - float(rival.max(initial=0.0)) / message.length


def _prediction_without_prompts() -> Prediction:
    return Prediction(
        ranked=(),
        accepted=False,
        cut=0.0,
        sure=0.0,
        has_known_features=False,
        inside=0.0,
        is_unsupported=False,
        closeness=_log_closeness((0.0, 0.0)),
        nearest="",
    )


def _log_closeness(near: Sequence[float]) -> float:
    """Return `log_closeness` of one message."""
    return sum(math.log(max(value, 0.01)) for value in near) * 2 / len(near)
