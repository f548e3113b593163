"""Detect the intents of messages with keywords and the semantic stage of packs."""

from dataclasses import dataclass
from datetime import date
from importlib import import_module
from zoneinfo import ZoneInfo

import anyio

from toolgate.base.token_estimate import estimate_tokens
from toolgate.cli.terminal._output import spinner
from toolgate.errors import OptionError
from toolgate.intents import (
    Cascade,
    Detection,
    Explanation,
    Intent,
    IntentDetector,
    PackStages,
    StageChoice,
    StageRequest,
)
from toolgate.packs import Pack
from toolgate.types import Json

_NEAREST_PROMPTS = 5
"""Nearest prompts that an explanation shows (chosen)."""


_PREVIEW_LINES = 5
"""Lines of the rules that an explanation shows (chosen)."""


@dataclass(frozen=True, kw_only=True)
class Reasons:
    """Explanation of a detection."""

    meaning: Explanation | None
    """Scores of the semantic stage; None if it was not used."""


class DetectSession:
    """Detects intents with keywords and, if selected and trained, the semantic stage."""

    def __init__(self, packs: tuple[Pack, ...], zone: str, languages: str, stage: StageChoice):
        self.packs = packs
        self.detector = _detector(
            [intent for pack in packs for intent in pack.intents], zone, languages
        )
        self._stage = stage
        self._learns = stage != "keyword" and any(pack.prompts for pack in packs)
        if stage == "semantic" and not self._learns:
            raise OptionError(
                "The stage 'semantic' needs example prompts, and no pack has any.",
                hint="Use --stage keyword, or add files intents/NAME.txt.",
            )

    def answer(
        self, message: str, day: date | None, *, explain: bool
    ) -> tuple[Detection, Reasons | None]:
        """Detect the intent of a message, with an explanation if requested."""
        request = self.detector.request(message, today=day)
        meaning = None
        if self._learns:
            (detection,), meaning = anyio.run(self._judged, [request], explain)
        else:
            (detection,) = self._by_keyword([request])
        return self.detector.with_arguments(detection, request), Reasons(
            meaning=meaning
        ) if explain else None

    def answers(self, messages: list[tuple[str, date | None]]) -> list[Detection]:
        """Detect the intents of several messages."""
        requests = [self.detector.request(text, today=day) for text, day in messages]
        if self._learns:
            detections, _ = anyio.run(self._judged, requests, False)
        else:
            detections = self._by_keyword(requests)
        return [
            self.detector.with_arguments(detection, request)
            for detection, request in zip(detections, requests, strict=True)
        ]

    def _by_keyword(self, requests: list[StageRequest]) -> list[Detection]:
        """Detect by keyword; in the cascade, ignore what a message declines."""
        if self._stage == "keyword":
            return [self.detector.keywords.match(request) for request in requests]

        async def classify() -> list[Detection]:
            cascade = Cascade(self.detector.keywords)
            return [await cascade.classify(request) for request in requests]

        return anyio.run(classify)

    async def _judged(
        self, requests: list[StageRequest], explain: bool
    ) -> tuple[list[Detection], Explanation | None]:
        cascade = self._stage == "cascade"
        if cascade and not explain:
            by_keyword = Cascade(self.detector.keywords)
            if all(by_keyword.is_decided(request) for request in requests):
                return [await by_keyword.classify(request) for request in requests], None
        with spinner("Training example prompts"):
            classifier = import_module("toolgate.cli.intents._classifier")
            meaning: PackStages = await classifier.fit_semantic_stage(self.packs)
        chosen = Cascade(self.detector.keywords, meaning) if cascade else meaning
        detections = [await chosen.classify(request) for request in requests]
        return detections, await meaning.explain(
            requests[0].text, _NEAREST_PROMPTS
        ) if explain else None

    def rules_of(self, intent: str) -> Json | None:
        """Return path, size and first lines of the rules of an intent."""
        for pack in self.packs:
            if text := pack.rules_of(intent):
                lines = [line for line in text.splitlines() if line.strip()]
                return {
                    "path": str(pack.rule_files[intent.casefold()]),
                    "size_bytes": len(text.encode("utf-8", "replace")),
                    "tokens": estimate_tokens(text),
                    "first_lines": lines[:_PREVIEW_LINES],
                }
        return None


def _detector(intents: list[Intent], zone: str, languages: str) -> IntentDetector:
    try:
        ZoneInfo(zone)
    except (ValueError, OSError, KeyError) as error:  # KeyError: no such zone
        raise OptionError(
            f"There is no time zone {zone!r}.", hint="Use a name such as Europe/Berlin, or UTC."
        ) from error
    selected = [code.strip() for code in languages.split(",") if code.strip()]
    available = sorted({language for intent in intents for language in intent.keywords})
    for language in selected:
        if language not in available:
            raise OptionError(
                f"There are no keywords for the language {language!r}.",
                allowed=f"Available: {', '.join(available)}.",
                hint="Use these, separated by commas.",
            )
    return IntentDetector(intents, zone=zone, languages=selected)
