"""Two stages together: keywords first, meaning where they say nothing."""

from dataclasses import dataclass
from datetime import date

import pytest

from toolgate.intents import (
    NONE,
    Cascade,
    Detection,
    Intent,
    IntentCandidate,
    Keywords,
    KeywordStage,
    StageRequest,
    combine_stages,
)

TODAY = date(2025, 10, 21)
KEYWORDS = KeywordStage(
    [
        Intent(
            name="tracking",
            keywords={
                "en": Keywords(exact=("tracking number",), partial=("order",), context=("my",))
            },
        )
    ]
)


@dataclass(frozen=True)
class Meaning:
    """A second stage that always says the same."""

    intent: str
    confidence: float = 0.95
    question: str = ""
    known: tuple[str, ...] = ("tracking", "refunds")
    name: str = "semantic"

    async def classify(self, request: StageRequest) -> Detection:
        del request
        return Detection(
            use_mcp=self.intent != NONE,
            intent=self.intent,
            confidence=self.confidence,
            stage=self.name,
            reason="It means that.",
            question=self.question,
            candidates=tuple(IntentCandidate(intent=each, confidence=0.5) for each in self.known),
        )


PARTIAL, EXACT, NOTHING = "refund my order", "tracking number", "give it back"


@pytest.mark.parametrize(
    ("message", "meaning", "intent", "stage"),
    [
        (EXACT, Meaning("refunds", 1.0), "tracking", "keyword"),
        (NOTHING, Meaning("refunds", 0.3), "refunds", "semantic"),
        (NOTHING, Meaning(NONE, 0.0), NONE, "semantic"),
        (PARTIAL, Meaning("refunds", 0.95), "refunds", "semantic"),
        (PARTIAL, Meaning("refunds", 0.9), "tracking", "keyword"),
        (PARTIAL, Meaning(NONE, 0.0), "tracking", "keyword"),
        (PARTIAL, Meaning("tracking", 0.99), "tracking", "keyword"),
        (PARTIAL, Meaning("refunds", 0.95, question="Which?"), "tracking", "keyword"),
        (PARTIAL, Meaning("refunds", 0.95, known=("refunds",)), "tracking", "keyword"),
    ],
)
async def test_who_decides(message: str, meaning: Meaning, intent: str, stage: str) -> None:
    """The rule of `docs/intents.md`, line by line."""
    found = await Cascade(KEYWORDS, meaning).classify(StageRequest(text=message, today=TODAY))

    assert (found.intent, found.stage) == (intent, stage)
    assert found.reason


async def test_without_a_second_stage_keywords_decide_alone() -> None:
    found = await Cascade(KEYWORDS).classify(StageRequest(text=PARTIAL, today=TODAY))

    assert (found.intent, found.confidence) == ("tracking", 0.8)


async def test_who_overrules_says_whom_and_who_stays_shows_the_others() -> None:
    request = StageRequest(text=PARTIAL, today=TODAY)
    by_keyword = KEYWORDS.match(request)

    overruled = combine_stages(by_keyword, await Meaning("refunds").classify(request))
    kept = combine_stages(by_keyword, await Meaning(NONE, 0.0).classify(request))

    assert "the partial keyword 'order', which means 'tracking'" in overruled.reason
    assert [each.intent for each in kept.candidates] == ["tracking", "refunds"]
