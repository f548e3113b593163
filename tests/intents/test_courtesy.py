"""Greetings and thanks around a request do not change what it asks for."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.intents.test_pack_stages import SHOP
from toolgate.intents import IntentSet, Recognizer, without_courtesies
from toolgate.models.embedders.bundled import BundledEmbedder

AROUND = (
    ("Hi, ", ". Thanks!"),
    ("Hello Anna,\n", "\n\nKind regards"),
    ("Hallo zusammen, ", ". Vielen Dank im Voraus!"),
    ("Bonjour, ", " merci d'avance"),
    ("Buenos días: ", ". ¡Muchas gracias!"),
    ("Olá, ", ". Muito obrigado!"),
    ("Ciao! ", ", grazie mille"),
    ("Goedemorgen, ", ", alvast bedankt"),
    ("你好，", "谢谢！"),
    ("", "\n\tUSER REQUEST:\n"),
)


@pytest.mark.parametrize(("before", "after"), AROUND)
def test_only_the_request_is_left(before: str, after: str) -> None:
    left = without_courtesies(f"{before}show the last five orders{after}")

    assert left.strip(" .") == "show the last five orders"


@pytest.mark.parametrize(
    "message",
    [
        "hi",
        "thanks!",
        "no, thanks",
        "nein danke",
        "hello world page",
        "show the thank you page",
        "open the table thanks for the form",
        "hey create a form, then list it",
        "list:\nforms",
    ],
)
def test_other_messages_stay_as_they_are(message: str) -> None:
    assert without_courtesies(message) == message


@given(st.text(alphabet="hiHI ,.!?:\nthanksmerci谢你好é", max_size=200))
def test_places_in_the_message_stay(message: str) -> None:
    left = without_courtesies(message)

    assert len(left) == len(message)
    assert all(new in {old, " "} for new, old in zip(left, message, strict=True))


@pytest.mark.parametrize(("before", "after"), AROUND)
async def test_a_polite_request_has_the_same_intent(before: str, after: str) -> None:
    recognizer = Recognizer(embedder=BundledEmbedder())
    recognizer.replace_intents(IntentSet(intents=SHOP))
    await recognizer.wait_until_trained()
    try:
        request = "I want my money back for the broken lamp"
        end = "." if after.startswith(".") else ""
        plain = await recognizer.detect(f"{request}{end}", today=date(2026, 11, 26))
        polite = await recognizer.detect(f"{before}{request}{after}", today=date(2026, 11, 26))
    finally:
        await recognizer.aclose()

    assert plain.intent == "REFUNDS"
    assert (polite.intent, polite.confidence) == (plain.intent, pytest.approx(plain.confidence))
