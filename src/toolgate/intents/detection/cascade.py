"""Combine the keyword stage and the semantic stage, keywords first."""

from dataclasses import replace
from typing import Final

from toolgate.intents.base import NONE, Detection, IntentCandidate, Stage, StageRequest
from toolgate.intents.detection.courtesy import without_courtesies
from toolgate.intents.detection.keyword import EXACT, KeywordStage
from toolgate.intents.detection.negation import refers_back, without_declined
from toolgate.intents.detection.settled import is_settled
from toolgate.intents.semantic import split_requests

_SIGNS: Final = " \t\r\n.,;!?"
"""Characters that ask for nothing."""

OVERRULES: Final = EXACT
"""Confidence in another intent above which the other stage overrules a partial keyword: that of
an exact keyword."""


class Cascade:
    """Classifies by keywords, and by a second stage if keywords do not decide."""

    name = "cascade"

    def __init__(self, keywords: KeywordStage, meaning: Stage | None = None) -> None:
        """Combine the stages; without a second one, keywords alone decide."""
        self._keywords = keywords
        self._meaning = meaning

    def is_decided(self, request: StageRequest) -> bool:
        """Whether keywords alone decide a message, so that no training is needed for it."""
        return (
            self._keywords.match(request).confidence >= EXACT
            and len(split_requests(request.text)) < 2
            and without_declined(request.text) == request.text
            and not is_settled(request.text)
        )

    async def classify(self, request: StageRequest) -> Detection:
        """Return the intent of a message; the answer names the stage that decided.

        A part that declines something, or only asks for its wording, is not a request and yields
        no candidate, and neither does a message whose matter is settled, unless the example prompts
        of the intent are worded like that themselves. Greetings and thanks are ignored.
        """
        text = request.text
        request = replace(request, text=without_courtesies(text))
        detection = await self._classify(request)
        if detection.intent == NONE:
            return detection
        # Here with courtesies: a farewell may be all that settles a matter.
        # An intent for settled matters has prompts that are worded like that.
        if is_settled(text) and not is_settled(await self._nearest(request, detection.intent)):
            return _no_request(
                detection, f"It tells that {detection.intent!r} is settled, or only of others."
            )
        asked_text = without_declined(request.text)
        if asked_text == request.text or await self._is_own_form(request, detection.intent):
            return detection
        if asked_text.strip(_SIGNS):
            asked = await self._classify(replace(request, text=asked_text))
            # "I want no new relation, just show me the existing ones" names its object only once.
            if asked.intent == NONE and refers_back(asked_text):
                asked = detection
            return replace(asked, asked_text=asked_text)
        return _no_request(
            detection, f"It declines {detection.intent!r}, or only asks how that is worded."
        )

    async def _is_own_form(self, request: StageRequest, intent: str) -> bool:
        """Whether the prompt of an intent that is most similar to the message is worded like it."""
        nearest = await self._nearest(request, intent)
        return without_declined(nearest) != nearest

    async def _nearest(self, request: StageRequest, intent: str) -> str:
        """Return the prompt of an intent that is most similar to the message, if there is any."""
        if self._meaning is None:
            return ""
        by_meaning = await self._meaning.classify(request)
        return next(
            (candidate.why for candidate in by_meaning.candidates if candidate.intent == intent), ""
        )

    async def _classify(self, request: StageRequest) -> Detection:
        by_keyword = self._keywords.match(request)
        if by_keyword.intent != NONE and (several := await self._several(request, by_keyword)):
            return several
        # An exact keyword saves the second stage, which may have to call an embedder.
        if self._meaning is None or by_keyword.confidence >= EXACT:
            return by_keyword
        return combine_stages(by_keyword, await self._meaning.classify(request))

    async def _several(self, request: StageRequest, whole: Detection) -> Detection | None:
        """Return the intents of several requests in one message; keywords would name only one."""
        parts = split_requests(request.text)
        if len(parts) < 2:
            return None
        best: dict[str, Detection] = {}
        for part in parts:
            part_request = replace(request, text=part, previous=())
            detection = self._keywords.match(part_request)
            if self._meaning is not None and detection.confidence < EXACT:
                by_meaning = await self._meaning.classify(part_request)
                detection = combine_stages(detection, by_meaning)
            name = detection.intent
            if name == NONE or detection.question:
                continue
            if name not in best or detection.confidence > best[name].confidence:
                best[name] = detection
        if len(best) < 2 or whole.intent not in best:
            return None
        order = sorted(best.values(), key=lambda detection: -detection.confidence)
        candidates = {
            candidate.intent: candidate
            for detection in reversed(order)
            for candidate in detection.candidates
            if candidate.intent in best
        }
        names = tuple(detection.intent for detection in order)
        return replace(
            order[0],
            reason=f"Its parts ask for {' and '.join(map(repr, names))}.",
            intents=names,
            candidates=tuple(candidates[name] for name in names if name in candidates),
        )


def _no_request(detection: Detection, reason: str) -> Detection:
    return Detection(
        use_mcp=False, intent=NONE, confidence=0.0, stage=detection.stage, reason=reason
    )


def combine_stages(by_keyword: Detection, by_meaning: Detection) -> Detection:
    """Combine the answers of the two stages.

    * An exact keyword decides.
    * A partial keyword decides, unless the other stage has its intent among its candidates but
      is more confident than `OVERRULES` of another one, without a question.
    * Otherwise the other stage decides.
    """
    if by_keyword.confidence >= EXACT:
        return by_keyword
    if by_keyword.intent == NONE:
        return by_meaning
    candidates = {candidate.intent.casefold() for candidate in by_meaning.candidates}
    overruled = (
        by_meaning.intent not in {NONE, by_keyword.intent}
        and by_meaning.confidence > OVERRULES
        and not by_meaning.question
        and by_keyword.intent.casefold() in candidates
    )
    if overruled:
        reason = (
            f"{by_meaning.reason} It is surer of that than of the partial keyword "
            f"{', '.join(map(repr, by_keyword.matched))}, which means {by_keyword.intent!r}."
        )
        return replace(by_meaning, reason=reason)
    return replace(by_keyword, candidates=_together(by_keyword, by_meaning))


def _together(first: Detection, second: Detection) -> tuple[IntentCandidate, ...]:
    """Return the candidates of both, each intent once."""
    names = {candidate.intent for candidate in first.candidates}
    return (
        *first.candidates,
        *(candidate for candidate in second.candidates if candidate.intent not in names),
    )
