"""What a message declines, asks the wording of, or only mentions, is no request for it."""

from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.intents.test_pack_stages import REFUNDS, SHOP
from toolgate.intents import NONE, Intent, IntentSet, Keywords, Recognizer, without_declined
from toolgate.models.embedders.bundled import BundledEmbedder

DECLINED = (
    "Don't create a relation",
    "please do not show me the changes",
    "I don't want a refund",
    "there is no need to open the relation",
    "how do you spell relation?",
    "what does value list mean?",
    "Erstelle keine Relation",
    "Bitte nicht löschen",
    "Ne crée pas de relation",
    "No quiero un reembolso",
    "não quero um reembolso",
    "non voglio un rimborso",
    "Storniere bloß keine Buchung",
    "Die Rechnung interessiert mich nicht",
    "Ik hoef het overzicht niet",
    "verwijder vooral geen klant",
    "surtout n'efface aucun client",
    "surtout ne supprime aucune facture",
    "千万别删客户表",
    "touche pas à la facture",
    "geen nieuwe factuur graag",
    "no invoice form needed",
    "por ahora no deseo ninguna factura",
    "发票不用建了",
    "we decided against the invoice",
    "You can skip the bookings this time",
    "the refund can wait",
    "nobody asked you to cancel the booking",
    "a funny title for a talk on invoices",
    "Schluss mit den Rechnungen",
    "Lass die Rechnung erst mal so",
    "Lassen wir die Rechnung so",
    "Deixe a fatura como está",
    "Laat de factuur zoals die is",
    "la facture peut attendre",
    "nadie te pidió una factura",
    "chega de faturas",
    "le fatture vanno bene così",
    "niemand heeft een factuur besteld",
    "发票以后再说",
    "we can do without an invoice here",
    "the invoice can stay as it is",
    "Die Rechnung wird nicht mehr benötigt",
    "Die Rechnungen bitte in Ruhe lassen",
    "Wir kommen hier ohne Rechnung aus",
    "On se passera de facture cette fois",
    "La facture peut rester ainsi",
    "Podemos prescindir de la factura",
    "La factura puede quedarse como está",
    "Não mexas nas faturas",
    "A fatura pode ficar como está",
    "Possiamo fare a meno della fattura",
    "Lascia in pace le fatture",
    "facturen hoef je niet aan te raken",
    "De factuur kan zo blijven",
    "发票就先这样吧",
    "Show me no invoices",
    "Could you please not show me the invoice",
    "I said don't open the invoice",
    "I'd prefer not to see the invoice",
    "Don't you dare delete the invoice",
    "It's not the invoice that I want",
    "The invoice is not what I need",
    "Zeig mir bitte keine Rechnungen",
    "Zeige mir nicht die Rechnung",
    "Die Rechnung bitte nicht anzeigen",
    "Lass die Rechnung weg",
    "Er soll mir keine Rechnungen zeigen",
    "Ne me montre surtout pas la facture",
    "Merci de ne pas afficher la facture",
    "Inutile d'afficher la facture",
    "Les factures ne m'intéressent pas",
    "Tu n'as pas à montrer la facture",
    "Te pido que no muestres la factura",
    "las facturas no me interesan",
    "Non mostrarmi le fatture",
    "Toon me geen facturen",
    "Laat de factuur alsjeblieft niet zien",
    "Ik wil de factuur niet zien",
    "Ik heb de factuur niet nodig",
    "is there a nicer term for invoice",
    "wie nennt man eine Rechnung auf Türkisch",
)
QUOTED = (
    ('my boss asked "where is the invoice?" yesterday', "invoice"),
    ('the e-mail said "show the invoice" and I laughed', "invoice"),
    ("Der Chef sagte „zeig die Rechnung“, ich habe gelacht", "Rechnung"),
    ("Le chef a dit « montre la facture » hier", "facture"),
    ('El jefe dijo "muestra la factura" pero no lo hagas', "factura"),
    ('Summarize this: "Invoices are hard. Where is the invoice?"', "nvoice"),
    ('I am giving a talk titled "Invoice History"', "Invoice"),
)
MENTIONED = (
    "I was reading about refunds on the train",
    "my boss loves invoices",
    "there was an article about bookings in the paper",
    "gestern hat einer laut über Rechnungen telefoniert",
    "meine Schwester findet Buchungen langweilig",
    "ma voisine a parlé de factures toute la soirée",
    "mi jefa odia las facturas",
    "a palestra sobre reservas foi longa",
    "il mio capo ha parlato di fatture tutto il giorno",
    "de lezing over facturen duurde lang",
    "同事整天都在聊发票",
    "FYI the invoice was deleted by Tom",
    "I already printed the invoices",
    "the bookings are a mess",
    "Hope the next invoice is less painful",
    "Meine Kollegin hat gestern drei Rechnungen verschickt",
    "Unsere Buchungen sind ein Chaos",
    "Mon collègue a encore perdu une facture",
    "mi compañera ha enviado todas las facturas",
    "minha colega perdeu uma fatura e chorou",
    "la mia collega ha perso una fattura",
    "mijn collega heeft gisteren een factuur gemaakt",
    "我们昨天终于把发票寄出去了",
)
REQUESTED = (
    "Don't forget to create a relation",
    "why don't you show the changes?",
    "I don't know the version, show it",
    "Show the changes that are not reviewed",
    "Vergiss nicht, die Relation zu öffnen",
    "N'oublie pas d'ouvrir la relation",
    "show changes without limit",
    "show all customers who have no orders",
    "what changed, and why is it not there?",
    "Die Rechnung stimmt nicht",
    "Ich finde die Buchung nicht",
    "De koppeling werkt niet",
    "Warum geht die Buchung nicht?",
    "my boss talked about refunds and wants a list of them",
    "I heard about changes in the schema, which ones?",
    "the refund is wrong, it goes to another account",
    "meine Kollegin sprach von einer Buchung, zeig sie mir",
    "l'article ne s'affiche pas",
    "la reserva no funciona",
    "each booking belongs to one customer",
    "the invoice was deleted, restore it please",
    "Wer hat die Rechnung gelöscht",
    "o que mudou no esquema essa semana",
    "invoice is missing on the list",
    "show invoices but no more than 5",
    'open the invoice called "what changed"',
    'show the form titled "Orders"',
    'my boss said "show the invoice", please do that',
    'explain the table "orders" to me',
    "Laat de factuur zien zoals die nu is",
    "Why don't you show me the invoice?",
    "Can't you show me the invoice?",
    "Warum zeigst du mir nicht die Rechnung?",
    "Peux-tu me montrer la facture ?",
)


@pytest.mark.parametrize("text", DECLINED)
def test_what_is_declined_is_left_out(text: str) -> None:
    assert without_declined(text).strip(" ?.") == ""


@pytest.mark.parametrize("text", MENTIONED)
def test_what_is_only_mentioned_is_left_out(text: str) -> None:
    assert without_declined(text).strip(" .") == ""


@pytest.mark.parametrize(("text", "word"), QUOTED)
def test_what_is_quoted_is_left_out(text: str, word: str) -> None:
    assert word not in without_declined(text)


@pytest.mark.parametrize("text", REQUESTED)
def test_what_is_asked_for_stays(text: str) -> None:
    assert without_declined(text) == text


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("Don't create a relation, make a value list", "make a value list"),
        ("Keine Relation anlegen, sondern eine Werteliste", "sondern eine Werteliste"),
        ("instead of a relation, create a form", "create a form"),
    ],
)
def test_the_rest_of_a_message_stays_in_its_place(text: str, rest: str) -> None:
    kept = without_declined(text)
    assert kept.lstrip(" ,") == rest
    assert kept.index(rest) == text.index(rest)


def test_words_after_a_question_about_them_are_left_out() -> None:
    kept = without_declined("How do you spell it, invoice or invoyce? Show me an invoice")

    assert kept.lstrip(" ,?") == "Show me an invoice"


@given(st.text(max_size=300))
def test_a_text_keeps_its_length(text: str) -> None:
    kept = without_declined(text)
    assert len(kept) == len(text)
    assert all(after in {before, " "} for before, after in zip(text, kept, strict=True))


@pytest.fixture
async def recognizer() -> AsyncIterator[Recognizer]:
    rules = Intent(
        name="LIMITS",
        prompts={
            "": (
                "don't allow refunds over 100 euros",
                "do not pay out more than 50 euros",
                "don't allow payments without a receipt",
                "do not permit more than two claims",
            )
        },
        pack="rules",
    )
    words = Intent(name="VERSION", keywords={"en": Keywords(exact=("price list",))}, pack="words")
    made = Recognizer(embedder=BundledEmbedder())
    made.replace_intents(IntentSet(version="1", intents=(*SHOP, rules, words)))
    await made.wait_until_trained()
    yield made
    await made.aclose()


@pytest.mark.parametrize(
    ("message", "intent"),
    [
        ("I want a refund for my order", "REFUNDS"),
        ("I don't want a refund for my order", NONE),
        ("I don't want a refund, track my order", "TRACKING"),
        ("don't show the price list", NONE),
        ("so," + " " * 3_000 + "don't show the price list", NONE),
        ("show the price list", "VERSION"),
        ("how do I spell refund request?", NONE),
        ("how do I write 'show the price list' in French?", NONE),
        ("my colleague asked about the price list yesterday", NONE),
        ('the e-mail said "show the price list" and I laughed', NONE),
        ("Zeig mir bitte keine price list", NONE),
        ("show the price list but no more than 5", "VERSION"),
        ("I don't want a new price list, just show me the existing ones", "VERSION"),
        ("Ich will keine neue price list, zeig mir nur die vorhandenen", "VERSION"),
        ("je ne veux pas de nouvelle price list, montre celles qui existent", "VERSION"),
        ("I don't want a new price list, just do it the other way", NONE),
        ("do not permit more than three claims", "LIMITS"),
    ],
)
async def test_intents_are_those_of_what_is_asked_for(
    recognizer: Recognizer, message: str, intent: str
) -> None:
    """A form that the prompts of an intent have themselves is a request for it."""
    assert (await recognizer.detect(message)).intent == intent


async def test_every_prompt_of_a_pack_is_a_request(recognizer: Recognizer) -> None:
    for prompt in REFUNDS:
        assert (await recognizer.detect(prompt)).intent == "REFUNDS"
