"""A message whose matter is settled, or that only praises or tells of others, asks for nothing."""

from collections.abc import AsyncIterator

import pytest

from toolgate.intents import NONE, Intent, IntentSet, Keywords, Recognizer

WORDS = {
    "en": ("parcel", "heating", "invoice", "lesson", "ticket", "bank", "plumber"),
    "de": ("paket", "heizung", "rechnung", "kurs", "schlüssel", "bank"),
    "fr": ("colis", "chauffage", "facture", "cours", "carte", "banque"),
    "es": ("paquete", "caldera", "factura", "curso", "tarjeta", "banco"),
    "pt": ("encomenda", "caldeira", "fatura", "aula", "cartão", "banco"),
    "it": ("pacco", "caldaia", "bolletta", "corso", "tessera", "banca"),
    "nl": ("pakket", "verwarming", "rekening", "cursus", "pasje", "bank"),
    "zh": ("快递", "暖气", "账单", "课程", "钥匙"),
    "ja": ("荷物", "暖房", "請求書", "レッスン", "鍵"),
}
SETTLED = (
    "My parcel turned up behind the shed, so that's fine now.",
    "The heating is working again, no need to come.",
    "We have already paid the invoice, nothing needed from you.",
    "Please ignore my question about the invoice, I have it now.",
    "All good here, you can close the ticket.",
    "What a lovely lesson that was!",
    "My brother is with another bank, can you imagine!",
    "Das Paket ist wieder aufgetaucht, es lag beim Nachbarn.",
    "Die Rechnung ist schon bezahlt, danke.",
    "Die Heizung geht wieder, Sie müssen nichts mehr tun.",
    "Der Kurs am Samstag war wirklich toll.",
    "Mein Bruder ist bei einer anderen Bank und zahlt das Doppelte, unglaublich.",
    "J'ai retrouvé ma carte, elle était dans la voiture.",
    "La facture est déjà payée, merci.",
    "Le chauffage remarche, plus besoin de passer.",
    "Le cours d'hier était magnifique.",
    "Ma cousine a perdu sa carte chez un autre opérateur, la pauvre.",
    "Ya apareció la tarjeta, estaba en el otro bolso.",
    "La factura ya la pagué esta mañana, gracias.",
    "La caldera ya funciona, no hace falta que venga nadie.",
    "El curso fue maravilloso.",
    "Já encontrei o cartão, estava no carro.",
    "A fatura já foi paga, obrigado.",
    "A caldeira já está a funcionar, não é preciso virem.",
    "A aula foi excelente.",
    "Ho ritrovato la tessera, era in macchina.",
    "La bolletta l'ho già pagata ieri, grazie.",
    "La caldaia funziona di nuovo, falso allarme.",
    "Il corso era bellissimo, complimenti a tutti.",
    "Mijn pasje is weer terecht, het lag in de auto.",
    "De rekening is al betaald, bedankt.",
    "De verwarming doet het weer, jullie hoeven niet meer te komen.",
    "De cursus was geweldig.",
    "快递已经收到了。",
    "账单已经付了，不用再查了。",
    "暖气修好了。",
    "钥匙找到了，虚惊一场。",
    "荷物は今朝届きました。ありがとうございました。",
    "請求書はもう支払いました。",
    "暖房は直りましたので、もう大丈夫です。",
    "鍵が見つかりました。お騒がせしました。",
)
OPEN = (
    "Já paguei a fatura e continua bloqueada.",
    "Das Paket ist angekommen, aber die Tasse ist kaputt.",
    "Het pakket is kapot aangekomen.",
    "The lesson was lovely, but you charged me twice.",
    "De rekening is al betaald, maar ik krijg een aanmaning.",
    "Ich habe die Rechnung schon bezahlt und trotzdem eine Mahnung bekommen.",
    "A encomenda chegou partida.",
    "We have already paid the invoice and got a reminder again.",
    "The heating was fixed on Monday, now it leaks.",
    "I already sent the invoice back twice and nobody answers.",
    "Just to let you know that the heating is off.",
    "The plumber hasn't turned up.",
    "The parcel arrived, but the box is torn.",
    "My parcel arrived this morning with two cracked cups.",
    "What a wonderful lesson, sign me up for the next level.",
    "My neighbour took my parcel, where do I complain?",
    "I found the parcel smashed on the doorstep.",
    "Die Heizung geht nicht.",
    "Le colis est bien arrivé, mais il est vide.",
    "La facture est déjà payée, il me faut un reçu.",
    "El paquete ya llegó, pero está roto.",
    "Ya pagué la factura y sigue bloqueada.",
    "Il pacco è già arrivato, ma è rotto.",
    "快递已经收到了，但是杯子碎了。",
    "账单已经付了，请发收据。",
    "荷物は届きましたが、割れていました。",
    "請求書はもう支払いましたが、まだ使えません。",
)


@pytest.fixture
async def recognizer() -> AsyncIterator[Recognizer]:
    keywords = {language: Keywords(exact=words) for language, words in WORDS.items()}
    made = Recognizer()
    made.replace_intents(IntentSet(intents=(Intent(name="HELP", keywords=keywords, pack="help"),)))
    yield made
    await made.aclose()


@pytest.mark.parametrize("message", SETTLED)
async def test_nothing_is_asked_for_once_a_matter_is_settled(
    recognizer: Recognizer, message: str
) -> None:
    assert (await recognizer.detect(message)).intent == NONE


@pytest.mark.parametrize("message", OPEN)
async def test_a_matter_with_a_request_or_a_defect_stays_open(
    recognizer: Recognizer, message: str
) -> None:
    assert (await recognizer.detect(message)).intent == "HELP"


async def test_an_intent_for_settled_matters_is_detected() -> None:
    recognizer = Recognizer()
    prompts = (
        "my parcel turned up, false alarm",
        "the missing parcel turned up, all good",
        "false alarm, the parcel is here",
        "the parcel turned up at the neighbour's",
        "all sorted, the parcel was next door",
    )
    close = Intent(name="CLOSE", prompts={"en": prompts}, pack="help")
    recognizer.replace_intents(IntentSet(intents=(close,)))
    await recognizer.wait_until_trained()

    assert (await recognizer.detect("the parcel turned up, false alarm")).intent == "CLOSE"
    await recognizer.aclose()
