"""The semantic stage: classifies messages with a model trained on example prompts."""

import contextlib
import logging
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from tempfile import NamedTemporaryFile

import anyio
import numpy as np
from anyio import to_thread
from numpy.typing import NDArray

from toolgate.base.private_folder import create_private_folder
from toolgate.intents.base import (
    NONE,
    Detection,
    DetectionLimits,
    Intent,
    IntentCandidate,
    StageRequest,
)
from toolgate.intents.semantic.background import Background, background_texts
from toolgate.intents.semantic.message_splitting import repeats_previous, split_requests
from toolgate.intents.semantic.model import UNSUPPORTED, Prediction, SemanticModel, TrainingSet
from toolgate.intents.semantic.model_file import read_model, write_model
from toolgate.intents.semantic.ngrams import normalize_text
from toolgate.intents.semantic.predictor import LimitedModel, Predictor, message_vector
from toolgate.intents.semantic.readings import message_vectors
from toolgate.intents.semantic.training import fit, words_of
from toolgate.models.embedders import Embedder
from toolgate.search import languages_of

log = logging.getLogger(__name__)

# Chosen.
_KEPT = 24
"""Number of fitted models that stay in the folder, newest first; one of 15,000 prompts takes 40
MB."""

# Two to one (chosen).
CLEAR = 2 / 3
"""If the probability that the first and not the second is right is lower, the user is asked."""

# Chosen.
_CONTINUED = 0.7
"""Confidence of "the same again": it comes from words, not from examples, so it is no estimate."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """How a prediction was made."""

    ranked: tuple[tuple[str, float], ...]
    """Every intent with its probability, best first."""

    cut: float
    """The confidence required."""

    sure: float
    """Probability that the first and not the second is right, if one of them is."""

    nearest: tuple[tuple[str, str, float], ...]
    """The most similar prompts: intent, prompt, similarity in [-1, 1]."""

    embedder: str
    """Identity of the embedder; empty without one."""


class SemanticStage:
    """Detects intents by their example prompts.

    ```python
    stage = SemanticStage(embedder=embedder, cache=folder)
    await stage.update(intents)
    detection = await stage.classify(StageRequest(text="give me my money back", today=today))
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
        self._limited: LimitedModel | None = None
        self._digest = ""
        self._predictor: Predictor | None = None
        self._names: frozenset[str] = frozenset()
        self._unsupported: frozenset[str] = frozenset()
        self._languages: Mapping[str, str] = {}
        self._prompts: Mapping[str, tuple[str, ...]] = {}
        self._fitting = anyio.Lock()

    @property
    def name(self) -> str:
        """`semantic`."""
        return "semantic"

    @property
    def ready(self) -> bool:
        """Whether a model is trained."""
        return self._limited is not None

    @property
    def model(self) -> SemanticModel | None:
        """The current model."""
        return self._limited.model if self._limited else None

    @property
    def limited_model(self) -> LimitedModel | None:
        """The current model with its limits."""
        return self._limited

    @property
    def embedder(self) -> Embedder | None:
        """The embedder; None: character n-grams alone are used."""
        return self._embedder

    def remembers(self, text: str) -> bool:
        """Whether the prediction for a text is cached."""
        return self._predictor is not None and self._predictor.remembers(text)

    def start_from(self, stage: "SemanticStage") -> None:
        """Use another stage's model until this one has its own, or permanently if it fits."""
        self._limited, self._digest = stage._limited, stage._digest  # noqa: SLF001 - the same class

    async def update(
        self,
        intents: Iterable[Intent],
        *,
        unsupported: Iterable[str] = (),
        limits: DetectionLimits | None = None,
        pack_limits: Mapping[str, DetectionLimits] | None = None,
        own_limits: Mapping[str, DetectionLimits] | None = None,
    ) -> None:
        """Train on the prompts, or load the model previously trained on the same prompts.

        Until that is done, messages are classified by the previous model; training takes seconds
        for thousands of prompts, in a thread. Changed limits alone need no training.

        Args:
            intents: Intents without prompts are ignored.
            unsupported: Known messages that are not answered.
            limits: When an answer is withheld.
            pack_limits: Other limits for the intents of some packs, by intent.
            own_limits: Limits of individual intents, by name.

        Raises:
            EmbedderError: The embedder failed, and nothing was learned.
        """
        async with self._fitting:
            intents = tuple(intents)
            training_set = training_set_of(intents, unsupported)
            # 0.3 s of work for the first pack, and the event loop must stay free.
            background, digest = await to_thread.run_sync(
                self._background_of, intents, training_set
            )
            model = self.model
            if digest != self._digest or model is None:
                model = await self._trained_model(training_set, background, digest)
            self._digest = digest
            self._limited = LimitedModel(
                model=model,
                limits=limits or DetectionLimits(),
                pack_limits=dict(pack_limits or {}),
                own_limits=dict(own_limits or {}),
            )
            # Its cached predictions belong to the previous model.
            self._predictor = None
            self._names = frozenset(training_set.intents) - {UNSUPPORTED}
            self._unsupported = frozenset(
                normalize_text(text)
                for text, owner in zip(training_set.texts, training_set.owners, strict=True)
                if training_set.intents[owner] == UNSUPPORTED
            )
            self._languages = {
                text: language
                for intent in intents
                for language, texts in intent.prompts.items()
                for text in texts
            }
            self._prompts = {
                intent.name: tuple(text for texts in intent.prompts.values() for text in texts)
                for intent in intents
            }

    async def classify(self, request: StageRequest) -> Detection:
        """Return the intents of a message, with a question if they are unclear."""
        if self._limited is None:
            return nothing_detected("The example prompts are not learned yet.")
        if self._predictor is None:
            self._predictor = Predictor([self._limited], embedder=self._embedder)
        parts = parts_of(request.text)
        whole, *part_predictions = await self._predictor.predict([request.text, *parts])
        possible = [part.possible[0] for part in part_predictions if part.possible]
        return self.decide(request, whole.by(0), possible)

    def decide(
        self, request: StageRequest, whole: Prediction, parts: Sequence[Prediction]
    ) -> Detection:
        """Return the intents of a message from the predictions for it and its `parts_of`.

        Parts that are certainly not meant for the pack may be left out.
        """
        if not self._names:
            return nothing_detected("No intent has example prompts.")
        # Normalized, so that blanks and capitals make no difference.
        if normalize_text(request.text) in self._unsupported:
            return nothing_detected("This very message is known as one that is not answered.")
        if again := self._continued(request, whole):
            return again
        if several := self._several(whole, parts):
            return several
        candidates = tuple(
            IntentCandidate(
                intent=name, confidence=share, why=whole.nearest if name == whole.intent else ""
            )
            for name, share in whole.ranked
        )
        if not whole.accepted or whole.intent not in self._names:
            return nothing_detected(_why_not(whole), candidates)
        if unasked := self._unasked_language(request, whole.nearest):
            return nothing_detected(unasked, candidates)
        intent, question = whole.intent, ""
        rivals = [name for name, _ in whole.ranked[:2]]
        reason = f"Most likely {words_of(intent)!r}; nearest prompt: {whole.nearest!r}."
        if whole.sure < CLEAR and len(rivals) == 2:
            # Between two close intents, that of the conversation is a better guess than a question.
            if request.previous and request.previous[-1] == rivals[1]:
                intent = rivals[1]
                reason = f"It could be {rivals[0]!r} too, but the last message was {intent!r}."
            else:
                question = f"Is this about {words_of(rivals[0])} or about {words_of(rivals[1])}?"
                reason = f"{rivals[0]!r} and {rivals[1]!r} are too close to tell."
        return Detection(
            use_mcp=True,
            intent=intent,
            confidence=dict(whole.ranked)[intent],
            stage=self.name,
            reason=reason,
            candidates=candidates,
            intents=(intent,),
            question=question,
        )

    def prompts_of(self, intent: str) -> tuple[str, ...]:
        """Return the example prompts of an intent; empty if it has none."""
        return self._prompts.get(intent, ())

    async def explain(self, text: str, nearest: int = 3) -> Explanation | None:
        """Return the full prediction for a message; None before the first training."""
        limited = self._limited
        if limited is None:
            return None
        vector = await message_vector(self._embedder, text)
        prediction = limited.predict(text, vector, depth=len(limited.model.training_set.intents))
        return Explanation(
            ranked=prediction.ranked,
            cut=prediction.cut,
            sure=prediction.sure,
            nearest=tuple(limited.model.nearest(text, vector, nearest)),
            embedder=self._embedder.identity if self._embedder else "",
        )

    def _unasked_language(self, request: StageRequest, nearest: str) -> str:
        """Return why a message is in none of the requested languages; empty if it is in one."""
        if not request.languages:
            return ""
        spoken = languages_of(request.text)
        if spoken and spoken.isdisjoint(request.languages):
            names = " or ".join(map(repr, sorted(spoken)))
            return f"It is in {names}, which is not asked for."
        language = self._languages.get(nearest, "")
        if language and language not in request.languages:
            return f"It is most like an example prompt in {language!r}, which is not asked for."
        return ""

    def _continued(self, request: StageRequest, whole: Prediction) -> Detection | None:
        """Return the previous intent, for a message that says "the same again" and little else."""
        last = request.previous[-1] if request.previous else NONE
        if last == NONE or not repeats_previous(request.text):
            return None
        if whole.accepted and whole.intent in self._names and whole.confidence > _CONTINUED:
            return None
        return Detection(
            use_mcp=True,
            intent=last,
            confidence=_CONTINUED,
            stage=self.name,
            reason=f"It asks for the same again, and the message before it was {last!r}.",
            candidates=(IntentCandidate(intent=last, confidence=_CONTINUED),),
            intents=(last,),
        )

    def _several(self, whole: Prediction, pieces: Sequence[Prediction]) -> Detection | None:
        """Return two or more intents, if different parts of the message are clearly about them."""
        best: dict[str, float] = {}
        needed = confidence_of_part(whole.confidence)
        for piece in pieces:
            clear = piece.accepted and piece.sure >= CLEAR and piece.confidence >= needed
            if clear and piece.intent in self._names:
                best[piece.intent] = max(piece.confidence, best.get(piece.intent, 0.0))
        if len(best) < 2:
            return None
        if whole.accepted and whole.intent not in best:
            return None  # as one message it means something that no piece says
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

    async def _trained_model(
        self, training_set: TrainingSet, others: Sequence[tuple[str, int]], digest: str
    ) -> SemanticModel:
        path = self._cache / f"intents-{digest}.npz" if self._cache else None
        if path is not None:
            model = await to_thread.run_sync(_read, path, training_set)
            if model is not None:
                return model
        names = [words_of(name) for name in training_set.intents]
        n = len(training_set.texts)
        texts = [*training_set.texts, *names, *(text for text, _ in others)]
        vectors = np.zeros((len(texts), 0), np.float32)
        if self._embedder is not None:
            vectors = await message_vectors(self._embedder, texts)
        end = n + len(names)
        background = Background(
            texts=texts[end:], lines=[line for _, line in others], vectors=vectors[end:]
        )
        log.info("learning prompts", extra={"prompts": n, "intents": len(names)})
        is_over = threading.Event()
        try:
            model = await to_thread.run_sync(
                partial(
                    fit,
                    training_set,
                    vectors[:n],
                    vectors[n:end],
                    background,
                    is_cancelled=is_over.is_set,
                ),
                abandon_on_cancel=True,
            )
        finally:
            # A process ends only once its threads have: without this, seconds after Ctrl-C.
            is_over.set()
        if path is not None:
            await to_thread.run_sync(_write, path, model)
        return model

    def _background_of(
        self, intents: Sequence[Intent], training_set: TrainingSet
    ) -> tuple[tuple[tuple[str, int], ...], str]:
        """Return the messages to train against, and the digest of the whole training."""
        background = background_texts(_by_language(intents))
        return background, self._digest_of(training_set, background)

    def _digest_of(self, training_set: TrainingSet, others: Sequence[tuple[str, int]]) -> str:
        identity = self._embedder.identity if self._embedder else ""
        content = repr(
            (identity, training_set.intents, training_set.texts, training_set.owners, others)
        )
        return blake2b(content.encode(errors="replace"), digest_size=12).hexdigest()


def parts_of(text: str) -> tuple[str, ...]:
    """Return the parts of a message that may each be a request; none if it is only one."""
    parts = split_requests(text)
    return parts if len(parts) > 1 else ()


def confidence_of_part(whole: float) -> float:
    """Return the confidence that makes a part of a message a request of its own (chosen).

    If the message is clear as one request, a part must be nearly as clear.
    """
    return max(0.5, whole - 0.2)


def training_set_of(intents: Iterable[Intent], unsupported: Iterable[str] = ()) -> TrainingSet:
    """Return the prompts of intents, each once; one of several intents belongs to the first."""
    named = sorted(
        (intent for intent in intents if any(intent.prompts.values())),
        key=lambda intent: (intent.order, intent.name),
    )
    names: list[str] = []
    texts: list[str] = []
    owners: list[int] = []
    seen: set[str] = set()

    def add(name: str, prompts: Iterable[str]) -> None:
        fresh = {normalize_text(text): text for text in prompts if normalize_text(text)}
        fresh = {key: text for key, text in fresh.items() if key not in seen}
        if not fresh:
            return
        if name not in names:
            names.append(name)
        seen.update(fresh)
        texts.extend(fresh.values())
        owners.extend([names.index(name)] * len(fresh))

    for intent in named:
        add(intent.name, (text for prompts in intent.prompts.values() for text in prompts))
    add(UNSUPPORTED, unsupported)
    return TrainingSet(intents=tuple(names), texts=tuple(texts), owners=tuple(owners))


def _by_language(intents: Iterable[Intent]) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """Return the prompts of intents by language and intent."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for intent in intents:
        for language, texts in intent.prompts.items():
            found.setdefault(language, {})[intent.name] = texts
    return found


def nothing_detected(reason: str, candidates: tuple[IntentCandidate, ...] = ()) -> Detection:
    """Return the detection of no intent."""
    return Detection(
        use_mcp=False,
        intent=NONE,
        confidence=0.0,
        stage="semantic",
        reason=reason,
        candidates=candidates,
    )


def _why_not(whole: Prediction) -> str:
    if not whole.has_known_features:
        return "Nothing in it is like any example prompt."
    if whole.is_unsupported:
        return "It is like the examples of what is not offered."
    nearest = f"{words_of(whole.intent)!r} is nearest, with a confidence of {whole.confidence:.2f}"
    if whole.confidence >= whole.cut:
        return f"{nearest}, but it may well be about something else."
    return f"{nearest}; {whole.cut:.2f} is needed."


def _read(path: Path, training_set: TrainingSet) -> SemanticModel | None:
    try:
        model = read_model(path.read_bytes())
    except OSError:
        return None
    except ValueError as error:
        log.warning("cached model unusable", extra={"file": path.name, "reason": str(error)})
        return None
    # The prompts decide, not the name of the file: digests may collide.
    return model if model.training_set == training_set else None


def _write(path: Path, model: SemanticModel) -> None:
    """Write the file atomically; if that fails, the next start only takes longer."""
    try:
        create_private_folder(path.parent)
        # In the same folder, since a rename is atomic only within one file system.
        with NamedTemporaryFile(dir=path.parent, prefix=".intents-", delete=False) as file:
            file.write(write_model(model))
        try:
            os.replace(file.name, path)  # noqa: PTH105 - Path.replace is the same
        except OSError:
            with contextlib.suppress(OSError):
                Path(file.name).unlink()
            raise
        files = sorted(path.parent.glob("intents-*.npz"), key=lambda entry: -entry.stat().st_mtime)
        for old in files[_KEPT:]:
            old.unlink(missing_ok=True)
    except OSError as error:
        log.warning("model not cached", extra={"file": path.name, "reason": str(error)})
