"""The semantic stages of several packs, evaluated separately and then compared.

What one pack has learned says nothing about the messages of another: a large pack would take the
messages of a small one, and one pack's unsupported examples would silence all others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from toolgate.intents.base import (
    NONE,
    Detection,
    Intent,
    IntentCandidate,
    IntentSet,
    StageRequest,
)
from toolgate.intents.semantic.message_splitting import repeats_previous
from toolgate.intents.semantic.model import Prediction
from toolgate.intents.semantic.pack_claims import Claim, compare_claims
from toolgate.intents.semantic.predictor import MessagePredictions, Predictor
from toolgate.intents.semantic.stage import (
    Explanation,
    SemanticStage,
    confidence_of_part,
    nothing_detected,
    parts_of,
)
from toolgate.models.embedders import Embedder


class PackStages:
    """Detects intents by the example prompts of their packs, with one trained model per pack.

    ```python
    stages = PackStages(embedder=embedder, cache=folder)
    await stages.update(IntentSet(intents=intents))
    detection = await stages.classify(StageRequest(text="give me my money back", today=today))
    ```
    """

    def __init__(self, *, embedder: Embedder | None = None, cache: Path | None = None) -> None:
        """Start untrained.

        Args:
            embedder: Embeds prompts and messages; None: character n-grams alone are used.
            cache: Folder that caches fitted models.
        """
        self._embedder = embedder
        self._cache = cache
        self._trained = _Trained()

    @property
    def name(self) -> str:
        """`semantic`."""
        return "semantic"

    @property
    def embedder(self) -> Embedder | None:
        """The embedder; None: character n-grams alone are used."""
        return self._embedder

    @property
    def ready(self) -> bool:
        """Whether the models are trained."""
        return self._trained.predictor is not None

    def remembers(self, text: str) -> bool:
        """Whether the predictions for a text are cached."""
        predictor = self._trained.predictor
        return predictor is not None and predictor.remembers(text)

    async def update(self, intent_set: IntentSet) -> None:
        """Train on the prompts, or load the models previously trained on the same prompts.

        Until that is done, messages are classified by the previous models.

        Raises:
            EmbedderError: The embedder failed, and nothing was learned.
        """
        packs: dict[str, list[Intent]] = {pack: [] for pack in intent_set.unsupported}
        for intent in intent_set.intents:
            packs.setdefault(intent.pack, []).append(intent)
        stages: dict[str, SemanticStage] = {}
        for pack, intents in packs.items():
            if not any(any(intent.prompts.values()) for intent in intents):
                continue
            stage = SemanticStage(embedder=self._embedder, cache=self._cache)
            old = self._trained.stages.get(pack)
            if old is not None:
                stage.start_from(old)
            await stage.update(
                intents,
                unsupported=intent_set.unsupported.get(pack, ()),
                pack_limits=intent_set.pack_limits,
                own_limits=intent_set.own_limits,
            )
            stages[pack] = stage
        models = [limited for stage in stages.values() if (limited := stage.limited_model)]
        # A set without any prompts is ready too: there is nothing to learn.
        self._trained = _Trained(
            stages=stages, predictor=Predictor(models, embedder=self._embedder)
        )

    async def classify(self, request: StageRequest) -> Detection:
        """Return the intents of a message, with a question if they are unclear."""
        # Read once: it may be replaced while the embedder works.
        trained = self._trained
        if trained.predictor is None:
            return nothing_detected("The example prompts are not learned yet.")
        if not trained.stages:
            return nothing_detected("No intent has example prompts.")
        parts = parts_of(request.text)
        whole, *of_parts = await trained.predictor.predict([request.text, *parts])
        if len(trained.stages) == 1:
            (stage,) = trained.stages.values()
            return stage.decide(request, whole.by(0), _possible_by(of_parts, 0))
        detections = trained.decide(request, whole, of_parts)
        claims = trained.claims(detections, whole)
        best = compare_claims(claims, request) if claims else None
        several = _several(trained, request, tuple(zip(parts, of_parts, strict=True)), best)
        return several or best or trained.nearest_rejection(request, whole, of_parts, detections)

    async def explain(self, text: str, nearest: int = 3) -> Explanation | None:
        """Return the full prediction of the pack that fits best; None before the training."""
        trained = self._trained
        if trained.predictor is None or not trained.stages:
            return None
        (whole,) = await trained.predictor.predict([text])
        best = max(whole.possible or [whole.likeliest], key=lambda at: whole.by(at).confidence)
        return await list(trained.stages.values())[best].explain(text, nearest)


@dataclass(frozen=True, kw_only=True)
class _Trained:
    """The stages of the packs, and what predicts for all of them."""

    stages: Mapping[str, SemanticStage] = field(default_factory=dict[str, SemanticStage])
    predictor: Predictor | None = None
    """Predicts by the models of `stages`, in their order; None before the training."""

    def decide(
        self,
        request: StageRequest,
        whole: MessagePredictions,
        parts: Sequence[MessagePredictions],
    ) -> Mapping[int, Detection]:
        """Return the detections of the packs that a message may be meant for."""
        possible = list(whole.possible) or [whole.likeliest]
        if request.previous and repeats_previous(request.text):
            possible = list(range(len(self.stages)))
        stages = list(self.stages.values())
        detections: dict[int, Detection] = {}
        for at in possible:
            pieces = _possible_by(parts, at)
            # Clear parts are compared with the whole; otherwise it counts that it was rejected.
            is_compared = any(piece.accepted for piece in pieces)
            prediction = whole.by(at) if is_compared else whole.bound_by(at)
            detections[at] = stages[at].decide(request, prediction, pieces)
        return detections

    def nearest_rejection(
        self,
        request: StageRequest,
        whole: MessagePredictions,
        parts: Sequence[MessagePredictions],
        detections: Mapping[int, Detection],
    ) -> Detection:
        """Return the rejection by the pack that was nearest to a detection.

        Rough predictions are upper bounds: each that comes first is replaced by the exact one.
        """
        stages, exact = list(self.stages.values()), dict(detections)
        while True:
            at = max(exact, key=lambda index: _nearness(exact[index]))
            if not whole.bound_by(at).is_rough:
                return exact[at]
            exact[at] = stages[at].decide(request, whole.by(at), _possible_by(parts, at))

    def claims(self, detections: Mapping[int, Detection], whole: MessagePredictions) -> list[Claim]:
        """Return the claims of the packs that detect an intent."""
        stages = list(self.stages.values())
        return [
            Claim(
                detection=detection,
                closeness=whole.by(at).closeness,
                prompts=stages[at].prompts_of(detection.intent),
            )
            for at, detection in detections.items()
            if detection.intent != NONE
        ]


def _several(
    trained: _Trained,
    request: StageRequest,
    parts: Sequence[tuple[str, MessagePredictions]],
    whole: Detection | None,
) -> Detection | None:
    """Return intents of several packs, if different parts of a message are clearly theirs.

    Args:
        trained: The packs.
        request: The message.
        parts: Its parts with their predictions.
        whole: The detection for the whole message.
    """
    best: dict[str, float] = {}
    needed = confidence_of_part(whole.confidence if whole else 0.0)
    for text, predictions in parts:
        if not predictions.possible:
            continue
        request_of_part = replace(request, text=text, previous=())
        claims = trained.claims(trained.decide(request_of_part, predictions, ()), predictions)
        if not claims:
            continue
        compared = compare_claims(claims, request_of_part)
        if not compared.question and compared.confidence >= needed:
            best[compared.intent] = max(compared.confidence, best.get(compared.intent, 0.0))
    if len(best) < 2 or (whole and whole.intent not in best):
        return None
    order = sorted(best, key=lambda name: -best[name])
    named = " and ".join(repr(name) for name in order)
    return Detection(
        use_mcp=True,
        intent=order[0],
        confidence=best[order[0]],
        stage="semantic",
        reason=f"Its parts ask for {named}.",
        candidates=tuple(IntentCandidate(intent=name, confidence=best[name]) for name in order),
        intents=tuple(order),
    )


def _possible_by(parts: Sequence[MessagePredictions], at: int) -> list[Prediction]:
    """Return a model's predictions for the parts of a message that may be meant for it."""
    return [part.possible[at] for part in parts if at in part.possible]


def _nearness(detection: Detection) -> float:
    return max((candidate.confidence for candidate in detection.candidates), default=0.0)
