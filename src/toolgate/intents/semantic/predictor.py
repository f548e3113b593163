"""Predict the intents of messages by the models of several packs in one pass.

A message is embedded and divided into n-grams once, whatever the number of packs, and its scores
are computed for all of them together. The comparison with prompts, which is most of the work, is
made only for the packs that a message may be meant for.
"""

import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from toolgate.errors import EmbedderError
from toolgate.intents.base import DetectionLimits
from toolgate.intents.semantic.model import HOPELESS, ClassScores, Prediction, SemanticModel
from toolgate.intents.semantic.ngrams import count_features, folded_rows, normalize_text
from toolgate.intents.semantic.readings import message_vectors
from toolgate.intents.semantic.scores import Floats
from toolgate.models.embedders import Embedder

log = logging.getLogger(__name__)

_REMEMBERED = 4_096
"""Number of messages in the cache (chosen)."""


@dataclass(frozen=True, kw_only=True)
class LimitedModel:
    """A fitted model, and when its answers are withheld."""

    model: SemanticModel
    """The model."""

    limits: DetectionLimits = field(default_factory=DetectionLimits)
    """When an answer is withheld."""

    pack_limits: Mapping[str, DetectionLimits] = field(default_factory=dict[str, DetectionLimits])
    """Other limits for the intents of some packs, by intent."""

    own_limits: Mapping[str, DetectionLimits] = field(default_factory=dict[str, DetectionLimits])
    """Limits of individual intents, by name."""

    def judge(
        self, text: str, row: Floats, scores: ClassScores, *, may_be_rough: bool
    ) -> Prediction:
        """Return the prediction for a message whose row and class scores are known."""
        return self.model.judge(
            text,
            row,
            scores,
            limits=self.limits,
            pack_limits=self.pack_limits,
            own_limits=self.own_limits,
            may_be_rough=may_be_rough,
        )

    def predict(self, text: str, vector: Floats | None, depth: int = 5) -> Prediction:
        """Return the prediction for a message with its embedding."""
        return self.model.predict(
            text,
            vector,
            limits=self.limits,
            pack_limits=self.pack_limits,
            own_limits=self.own_limits,
            depth=depth,
        )

    @property
    def least_evidence(self) -> float:
        """The log odds of being meant for the pack, before comparing prompts, that may suffice."""
        everything = (self.limits, *self.pack_limits.values(), *self.own_limits.values())
        # A low threshold accepts even what is most likely meant for others.
        if any(
            limits.threshold is not None and limits.threshold < HOPELESS for limits in everything
        ):
            return -math.inf
        return math.log(HOPELESS / (1 - HOPELESS))


class MessagePredictions:
    """What several models predict for one message; improbable ones are computed on demand.

    `possible` has the predictions of the models that the message may be meant for, by index; some
    are rough.
    """

    def __init__(
        self,
        text: str,
        vector: Floats | None,
        models: Sequence[LimitedModel],
        predictions: Mapping[int, Prediction],
        likeliest: int,
        judge: Callable[[int], Prediction] | None = None,
    ) -> None:
        """Store the predictions of the models that the message may be meant for, by index.

        Args:
            text: The message.
            vector: Its embedding.
            models: All models.
            predictions: Those of the models that the message may be meant for.
            likeliest: Index of the model that it is meant for if for any.
            judge: Returns the exact prediction of a model; None: it is computed from the text.
        """
        self._text = text
        self._vector = vector
        self._models = models
        self.possible = dict(predictions)
        self.likeliest = likeliest
        self._judge = judge

    def by(self, at: int) -> Prediction:
        """Return the prediction of the model with this index, which is not rough."""
        prediction = self.possible.get(at)
        if prediction is None:
            return self._models[at].predict(self._text, self._vector)
        if prediction.is_rough:
            if self._judge is None:
                prediction = self._models[at].predict(self._text, self._vector)
            else:
                prediction = self._judge(at)
            self.possible[at] = prediction
        return prediction

    def bound_by(self, at: int) -> Prediction:
        """Return the prediction of the model with this index, which may be rough."""
        return self.possible.get(at) or self.by(at)

    def forget_rows(self) -> None:
        """Release what exact predictions are computed from; they take longer from now on."""
        self._judge = None


class Predictor:
    """Predicts the intents of messages by several models, with a cache."""

    def __init__(self, models: Sequence[LimitedModel], *, embedder: Embedder | None) -> None:
        """Prepare models that were fitted with the same embedder."""
        self._models = tuple(models)
        self._embedder = embedder
        self._remembered: OrderedDict[str, MessagePredictions] = OrderedDict()
        self._latest: Sequence[MessagePredictions] = ()
        # Models without prompts cannot be compared with others: their predictions are empty.
        self._compared = [at for at, m in enumerate(self._models) if m.model.is_intent.any()]
        self._fitted = [self._models[at].model for at in self._compared]
        if self._fitted:
            # One column per model, so that the weights of a feature are next to each other.
            self._rarities = np.stack([model.grams.rarity for model in self._fitted], axis=1)
        self._shares = np.array([[model.share] for model in self._fitted], np.float32)
        self._least = [self._models[at].least_evidence for at in self._compared]

    def remembers(self, text: str) -> bool:
        """Whether the predictions for a text are cached."""
        return normalize_text(text) in self._remembered

    async def predict(self, texts: Sequence[str]) -> list[MessagePredictions]:
        """Return the predictions for a message and its parts; the embedder is called once."""
        keys = [normalize_text(text) for text in texts]
        known = {key: self._remembered[key] for key in keys if key in self._remembered}
        for key in known:
            self._remembered.move_to_end(key)
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if new:
            vectors = await _vectors(self._embedder, list(new.values()))
            # Rows take 5 kB per model, and only the message at hand needs them.
            for predictions in self._latest:
                predictions.forget_rows()
            self._latest = scored = self._scored(list(new.values()), vectors)
            for key, vector, predictions in zip(new, vectors, scored, strict=True):
                known[key] = predictions
                # A prediction made while the embedder failed must not outlive the failure.
                if vector is not None or self._embedder is None:
                    self._remembered[key] = predictions
            while len(self._remembered) > _REMEMBERED:
                self._remembered.popitem(last=False)
        return [known[key] for key in keys]

    def _scored(
        self, texts: Sequence[str], vectors: Sequence[Floats | None]
    ) -> list[MessagePredictions]:
        if not self._compared:
            return [
                MessagePredictions(text, vector, self._models, {}, 0)
                for text, vector in zip(texts, vectors, strict=True)
            ]
        grams = folded_rows(self._rarities, count_features(texts), len(texts))
        return [
            self._judged(text, vector, of_text, is_part=number > 0)
            for number, (text, vector, of_text) in enumerate(
                zip(texts, vectors, grams, strict=True)
            )
        ]

    def _judged(
        self, text: str, vector: Floats | None, grams: Floats, *, is_part: bool
    ) -> MessagePredictions:
        """Return the predictions for a message, or for a part of one, with these n-grams."""
        rows = self._rows(grams, vector)
        scores = [model.class_scores(row) for model, row in zip(self._fitted, rows, strict=True)]
        evidence = [
            model.inside_curve[0] + model.inside_curve[1] * score.odds
            for model, score in zip(self._fitted, scores, strict=True)
        ]
        likeliest = max(range(len(evidence)), key=evidence.__getitem__)

        def judge(at: int, *, may_be_rough: bool = False) -> Prediction:
            column = self._compared.index(at)
            return self._models[at].judge(
                text, rows[column], scores[column], may_be_rough=may_be_rough
            )

        # The only model has to explain why it detected nothing in a message.
        may_be_rough = is_part or len(self._models) > 1
        predictions = {
            at: judge(at, may_be_rough=may_be_rough)
            for column, at in enumerate(self._compared)
            # The likeliest explains why nothing was detected; nobody asks that about a part.
            if evidence[column] >= self._least[column] or (column == likeliest and not is_part)
        }
        return MessagePredictions(
            text, vector, self._models, predictions, self._compared[likeliest], judge
        )

    def _rows(self, grams: Floats, vector: Floats | None) -> Floats:
        """Return shape (models, columns): what a message is classified by in each model."""
        if vector is None:
            rows = [
                model.row(of_model, None)
                for model, of_model in zip(self._fitted, grams, strict=True)
            ]
            return np.array(rows)
        dim = len(vector)
        rows = np.empty((len(grams), dim + grams.shape[1]), np.float32)
        rows[:, :dim] = vector
        np.multiply(grams, self._shares, out=rows[:, dim:])
        return rows


async def message_vector(embedder: Embedder | None, text: str) -> Floats | None:
    """Return the embedding of a message; None without an embedder, or if it fails."""
    return (await _vectors(embedder, [text]))[0]


async def _vectors(embedder: Embedder | None, texts: Sequence[str]) -> Sequence[Floats | None]:
    if embedder is None:
        return [None] * len(texts)
    try:
        return list(await message_vectors(embedder, texts))
    except (EmbedderError, ValueError) as error:
        log.warning("embedder failed, judging by n-grams", extra={"reason": str(error)})
        return [None] * len(texts)
