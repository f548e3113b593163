"""Classify messages by keywords and by a trained model; intents can be replaced at run time.

New keywords count at once. The model is trained in the background; until that is done, the
previous model classifies.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from time import perf_counter
from typing import Any, assert_never
from zoneinfo import ZoneInfo

import anyio

from toolgate.base.lazy_loading import run_alone
from toolgate.errors import EmbedderError
from toolgate.intents.base import NONE, Detection, Intent, IntentSet, StageChoice, StageRequest
from toolgate.intents.detection.cascade import Cascade
from toolgate.intents.detection.keyword_detector import IntentDetector
from toolgate.intents.patterns import are_compiled, compile_all
from toolgate.intents.semantic.pack_stages import PackStages
from toolgate.intents.semantic.stage import Explanation
from toolgate.models.embedders import Embedder
from toolgate.search import in_english

log = logging.getLogger(__name__)

_PATIENCE_S = 1.0
"""Seconds until training starts if no message arrives (chosen): a start has other work to do."""

_FIRST_S = 20.0
"""Seconds of the first training after which messages no longer wait for it (chosen)."""

_ANY_MESSAGE = "What can you do?"
"""Detected in advance, so that no user waits for what the first detection loads (chosen)."""

_RETRY_S = 30.0
"""Seconds until training is retried after the embedder failed (chosen)."""


def _words_in_english(text: str) -> str:
    reading = in_english(text)
    return reading.text if reading is not None else ""


class Recognizer:
    """Detects intents and arguments; the intents can be replaced at any time.

    ```python
    recognizer = Recognizer(embedder=embedder, cache=folder)
    recognizer.replace_intents(IntentSet(intents=intents, version="1"))
    await recognizer.wait_until_trained()
    found = await recognizer.detect("show the last 5 refunds")
    ```
    """

    def __init__(
        self,
        *,
        embedder: Embedder | None = None,
        cache: Path | None = None,
        schema_of: Callable[[str], Mapping[str, Any] | None] | None = None,
        zone: str = "UTC",
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Start without intents.

        Args:
            embedder: Embeds prompts and messages; None: character n-grams alone are used.
            cache: Folder that caches trained models.
            schema_of: Returns the input schema of a tool, for intents that declare no arguments.
            zone: Time zone of the days in messages; an IANA name.
            clock: Returns the current time.
        """
        self.zone = zone
        self._schema_of = schema_of
        self._clock = clock
        self._cache = cache
        self._intent_set = IntentSet()
        self._detector = self._keyword_detector = self._make_detector(())
        self._meaning = PackStages(embedder=embedder, cache=cache)
        self._train_early = True
        self._expects_messages = False
        self._training: asyncio.Task[None] | None = None
        self._training_began: float | None = None
        self._requested = anyio.Event()

    @property
    def intent_set(self) -> IntentSet:
        """The intents in use."""
        return self._intent_set

    @property
    def detector(self) -> IntentDetector:
        """Classifies by keywords, and reads arguments."""
        return self._detector

    @property
    def semantic_stage(self) -> PackStages:
        """Classifies with the model trained on example prompts."""
        return self._meaning

    @property
    def is_training(self) -> bool:
        """Whether a training is running."""
        return self._training is not None and not self._training.done()

    def replace_intents(self, intent_set: IntentSet, *, soon: bool = True) -> None:
        """Use these intents from now on, and train on their prompts in the background.

        Args:
            intent_set: Replaces the intents in use.
            soon: Whether to train before the first message. Otherwise the first message starts
                training, which takes seconds of CPU, wasted if nobody sends messages.

        Raises:
            ValueError: A phrase of an intent is invalid; nothing was changed.
        """
        detector = everything = self._make_detector(intent_set.intents)
        if intent_set.keyword_only:
            everything = self._make_detector((*intent_set.intents, *intent_set.keyword_only))
        self._intent_set, self._detector = intent_set, detector
        self._train_early = soon or self._expects_messages
        self._keyword_detector = everything
        self._start_training()

    def use_embedder(self, embedder: Embedder | None) -> None:
        """Train with another embedder from now on."""
        if embedder is not self._meaning.embedder:
            self._meaning = PackStages(embedder=embedder, cache=self._cache)
            self._start_training()

    def remembers(self, message: str) -> bool:
        """Whether the semantic prediction for a message is cached."""
        return self._meaning.remembers(message)

    async def expect_messages(self) -> None:
        """Compile what messages need, and train before the first one from now on."""
        self._expects_messages = True
        self._requested.set()
        if not are_compiled():
            await run_alone(compile_all)

    async def rehearse(self) -> None:
        """Detect any message once trained, which unpacks the prompts that others are compared with.

        Raises:
            EmbedderError: The embedder failed.
        """
        await self.wait_for_first_training()
        await self.detect(_ANY_MESSAGE)

    async def wait_for_first_training(self, within_s: float = _FIRST_S) -> None:
        """Wait for the first training after a start, not for later ones.

        Args:
            within_s: Seconds from the beginning of the training until which it is waited for.
        """
        if self.is_training and not self._meaning.ready:
            # The first training is worth waiting for; during later ones the previous model answers.
            began = self._training_began
            passed_s = 0.0 if began is None else perf_counter() - began
            with anyio.move_on_after(within_s - passed_s):
                await self.wait_until_trained()

    async def wait_until_trained(self) -> None:
        """Wait until the training has finished or failed."""
        while self._training is not None and not self._training.done():
            self._requested.set()
            await asyncio.wait({self._training})

    async def aclose(self) -> None:
        """Stop the training."""
        if self._training is not None:
            self._training.cancel()
            await asyncio.wait({self._training})

    async def detect(
        self,
        message: str,
        *,
        today: date | None = None,
        zone: str = "",
        languages: tuple[str, ...] = (),
        previous: tuple[str, ...] = (),
        deciding: StageChoice = "cascade",
    ) -> Detection:
        """Detect the intent of a message, with its arguments.

        Args:
            message: As the person wrote it; any length.
            today: The day that "yesterday" is relative to; None: today.
            zone: Time zone of the days in the message; if empty, that of the recognizer.
            languages: Languages whose keywords count; none: all.
            previous: Intents of the conversation so far, latest last.
            deciding: Which stages are used.
        """
        self._requested.set()
        if not are_compiled():
            await run_alone(compile_all)
        zone = zone or self.zone
        if today is None:
            instant = self._clock()
            today = instant if zone == "UTC" else instant.astimezone(ZoneInfo(zone))
        request = StageRequest(
            text=message, today=today, zone=zone, languages=languages, previous=previous
        )
        # Read once: both may be replaced while this message waits.
        meaning = self._meaning
        detector = self._keyword_detector if deciding == "keyword" else self._detector
        match deciding:
            case "keyword":
                detection = detector.keywords.match(request)
            case "semantic":
                detection = await meaning.classify(request)
            case "cascade":
                detection = await Cascade(detector.keywords, self._trained_stage(meaning)).classify(
                    request
                )
            case _ as never:
                assert_never(never)
        # The model may still be that of the previous intents, of which this one no longer exists.
        if detection.intent != NONE and not detector.has_intent(detection.intent):
            detection = Detection(
                use_mcp=False,
                intent=NONE,
                confidence=0.0,
                stage=detection.stage,
                reason="The example prompts have changed and are not learned yet.",
            )
        return detector.with_arguments(detection, request)

    async def explain(self, message: str, nearest: int = 3) -> Explanation | None:
        """Return the full prediction for a message; None before the first training."""
        return await self._meaning.explain(message, nearest)

    def _trained_stage(self, meaning: PackStages) -> PackStages | None:
        """Return the semantic stage; None if there are no prompts to train it on."""
        has_prompts = any(any(intent.prompts.values()) for intent in self._intent_set.intents)
        return meaning if has_prompts else None

    def _make_detector(self, intents: Iterable[Intent]) -> IntentDetector:
        return IntentDetector(
            intents,
            schema_of=self._schema_of,
            zone=self.zone,
            clock=self._clock,
            translate=_words_in_english,
        )

    def _start_training(self) -> None:
        # The previous training would fit prompts that are no longer in use.
        if self._training is not None:
            self._training.cancel()
        self._requested = anyio.Event()
        self._training_began = None
        self._training = asyncio.get_running_loop().create_task(
            self._train(self._intent_set, self._meaning, self._requested)
        )

    async def _train(
        self, intent_set: IntentSet, meaning: PackStages, requested: anyio.Event
    ) -> None:
        # Wait for the first message or, if early training is wanted, for a pause after the start.
        with anyio.move_on_after(_PATIENCE_S if self._train_early or meaning.ready else None):
            await requested.wait()
        self._training_began = perf_counter()
        while True:
            began = perf_counter()
            try:
                await meaning.update(intent_set)
            except EmbedderError as error:
                log.warning("example prompts cannot be learned", extra={"reason": str(error)})
            except Exception:
                # Any other error would recur with the same prompts, so there is no retry.
                log.exception("example prompts cannot be learned")
                return
            else:
                spent = round(perf_counter() - began, 3)
                log.debug("example prompts learned", extra={"after_s": spent})
                return
            await anyio.sleep(_RETRY_S)
