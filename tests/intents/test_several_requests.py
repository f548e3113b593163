"""A message with several requests has several intents, whichever stage knows them."""

from collections.abc import AsyncIterator

import pytest

from tests.intents.test_pack_stages import SHOP
from toolgate.intents import Intent, IntentSet, Keywords, Recognizer
from toolgate.models.embedders.bundled import BundledEmbedder

PRICES = Intent(name="PRICES", keywords={"en": Keywords(exact=("price list",))}, pack="words")
STOCK = Intent(name="STOCK", keywords={"en": Keywords(exact=("stock report",))}, pack="words")


@pytest.fixture
async def recognizer() -> AsyncIterator[Recognizer]:
    made = Recognizer(embedder=BundledEmbedder())
    made.replace_intents(IntentSet(version="1", intents=(*SHOP, PRICES, STOCK)))
    await made.wait_until_trained()
    yield made
    await made.aclose()


@pytest.mark.parametrize(
    ("message", "intents"),
    [
        ("show the price list and the stock report", {"PRICES", "STOCK"}),
        ("send me the price list, then give me my money back", {"PRICES", "REFUNDS"}),
        ("where is my parcel? And show me the stock report.", {"TRACKING", "STOCK"}),
        ("show the price list of tea and coffee", {"PRICES"}),
        ("show the price list, please", {"PRICES"}),
        ("price list and price list again", {"PRICES"}),
        ("send me the price list, with the stock report on page two", {"PRICES"}),
        ("show the price list, sorted like the stock report", {"PRICES"}),
    ],
)
async def test_keywords_of_one_part_do_not_hide_another(
    recognizer: Recognizer, message: str, intents: set[str]
) -> None:
    detection = await recognizer.detect(message)

    assert {detection.intent, *detection.intents} - {""} == intents
    assert {candidate.intent for candidate in detection.candidates} >= intents
