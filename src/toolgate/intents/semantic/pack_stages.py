"""The semantic stages of several packs, evaluated separately and then compared.

What one pack has learned says nothing about the messages of another: a large pack would take the
messages of a small one, and one pack's unsupported examples would silence all others.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from toolgate.intents.base import (
    NONE,
    Detection,
    Intent,
    IntentCandidate,
    IntentSet,
    StageRequest,
)
from toolgate.intents.semantic.message_splitting import split_requests
from toolgate.intents.semantic.pack_claims import Claim, compare_claims
from toolgate.intents.semantic.readings import readable
from toolgate.intents.semantic.stage import Explanation, SemanticStage, confidence_of_part
from toolgate.models.embedders import Embedder, Reads, TextKind, Vectors, embedded

__all__ = ["PackStages"]

_VECTORS = 4_096
"""Number of message vectors in the cache, so that several packs request each only once (chosen)."""


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
        self._shared = None if embedder is None else _CachingEmbedder(embedder)
        self._cache = cache
        self._stages: Mapping[str, SemanticStage] = {}

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
        return bool(self._stages)

    def remembers(self, text: str) -> bool:
        """Whether the predictions for a text are cached."""
        return self.ready and all(stage.remembers(text) for stage in self._stages.values())

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
            stage = SemanticStage(embedder=self._shared, cache=self._cache)
            old = self._stages.get(pack)
            if old is not None:
                stage.start_from(old)
            await stage.update(
                intents,
                unsupported=intent_set.unsupported.get(pack, ()),
                pack_limits=intent_set.pack_limits,
                own_limits=intent_set.own_limits,
            )
            stages[pack] = stage
        # A set without any prompts is ready too: there is nothing to learn.
        self._stages = stages or {"": SemanticStage()}

    async def classify(self, request: StageRequest) -> Detection:
        """Return the intents of a message, with a question if they are unclear."""
        stages = list(self._stages.values())
        if not stages:
            return await SemanticStage().classify(request)
        if len(stages) == 1:
            return await stages[0].classify(request)
        await self._prepare(request.text)
        detections = [await stage.classify(request) for stage in stages]
        claims = await _claims(stages, detections, request)
        whole = compare_claims(claims, request) if claims else None
        if several := await self._several(request, whole):
            return several
        return whole or max(detections, key=_nearness)

    async def explain(self, text: str, nearest: int = 3) -> Explanation | None:
        """Return the full prediction of the pack that fits best; None before the training."""
        explanations = [
            explanation
            for stage in self._stages.values()
            if (explanation := await stage.explain(text, nearest)) is not None
        ]
        return max(
            explanations,
            key=lambda explanation: max((share for _, share in explanation.ranked), default=0.0),
            default=None,
        )

    async def _several(self, request: StageRequest, whole: Detection | None) -> Detection | None:
        """Return intents of several packs, if different parts of a message are clearly theirs.

        Args:
            request: The message.
            whole: The detection for the whole message.
        """
        parts = split_requests(request.text)
        if len(parts) < 2:
            return None
        best: dict[str, float] = {}
        needed = confidence_of_part(whole.confidence if whole else 0.0)
        stages = list(self._stages.values())
        for part in parts:
            part_request = replace(request, text=part, previous=())
            detections = [await stage.classify(part_request) for stage in stages]
            claims = await _claims(stages, detections, part_request)
            if not claims:
                continue
            compared = compare_claims(claims, part_request)
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
            stage=self.name,
            reason=f"Its parts ask for {named}.",
            candidates=tuple(IntentCandidate(intent=name, confidence=best[name]) for name in order),
            intents=tuple(order),
        )

    async def _prepare(self, text: str) -> None:
        """Cache the vectors of a message and its parts for all packs at once."""
        if self._shared is not None:
            await self._shared.prepare([text, *split_requests(text)])


class _CachingEmbedder:
    """An embedder that caches the vectors of short lists of texts, which several packs request."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._vectors: OrderedDict[str, Vectors] = OrderedDict()

    @property
    def identity(self) -> str:
        """Identity of the embedder."""
        return self._embedder.identity

    @property
    def dim(self) -> int:
        """Length of the embedder's vectors."""
        return self._embedder.dim

    @property
    def reads(self) -> Reads:
        """What the embedder can read."""
        return self._embedder.reads

    async def prepare(self, texts: Sequence[str]) -> None:
        """Embed texts in advance; a failure is reported to the later caller of `embed`."""
        wanted = dict.fromkeys(readable(self._embedder, texts))
        missing = [text for text in wanted if text not in self._vectors]
        if not missing:
            return
        try:
            vectors = await embedded(self._embedder, missing, "query")
        except Exception:  # noqa: BLE001 - each pack meets it again, and goes on without vectors
            return
        for text, vector in zip(missing, vectors, strict=True):
            self._vectors[text] = vector
        while len(self._vectors) > _VECTORS:
            self._vectors.popitem(last=False)

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Return the vectors, from the cache if all are there."""
        if kind == "query" and texts and all(text in self._vectors for text in texts):
            return np.stack([self._vectors[text] for text in texts])
        return await embedded(self._embedder, texts, kind)


async def _claims(
    stages: Sequence[SemanticStage], detections: Sequence[Detection], request: StageRequest
) -> list[Claim]:
    """Return the claims of the packs that answer a message."""
    return [
        Claim(
            detection=detection,
            closeness=await stage.closeness(request.text),
            prompts=stage.prompts_of(detection.intent),
        )
        for stage, detection in zip(stages, detections, strict=True)
        if detection.intent != NONE
    ]


def _nearness(detection: Detection) -> float:
    return max((candidate.confidence for candidate in detection.candidates), default=0.0)
