"""A message whose matter is settled, or that only praises or tells of others, asks for nothing."""

from collections.abc import AsyncIterator

import pytest

from toolgate.intents import NONE, Intent, IntentSet, Keywords, Recognizer

WORDS = {
    "en": (
        "parcel",
        "heating",
        "invoice",
        "lesson",
        "ticket",
        "bank",
        "plumber",
        "tickets",
        "issue",
        "invoices",
        "orders",
        "hotel",
        "parcels",
    ),
    "de": (
        "paket",
        "heizung",
        "rechnung",
        "kurs",
        "schlüssel",
        "bank",
        "rechnungen",
        "pakete",
        "hotel",
    ),
    "fr": (
        "colis",
        "chauffage",
        "facture",
        "cours",
        "carte",
        "banque",
        "factures",
        "commandes",
        "hôtel",
    ),
    "es": (
        "paquete",
        "caldera",
        "factura",
        "curso",
        "tarjeta",
        "banco",
        "facturas",
        "paquetes",
        "pedidos",
        "hotel",
    ),
    "pt": (
        "encomenda",
        "caldeira",
        "fatura",
        "aula",
        "cartão",
        "banco",
        "faturas",
        "encomendas",
        "hotel",
    ),
    "it": (
        "pacco",
        "caldaia",
        "bolletta",
        "corso",
        "tessera",
        "banca",
        "bollette",
        "pacchi",
        "albergo",
    ),
    "nl": (
        "pakket",
        "verwarming",
        "rekening",
        "cursus",
        "pasje",
        "bank",
        "rekeningen",
        "pakketten",
        "hotel",
    ),
    "zh": ("快递", "暖气", "账单", "课程", "钥匙", "订单", "酒店"),
    "ja": ("荷物", "暖房", "請求書", "レッスン", "鍵", "注文", "ホテル"),
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
    "Check arrived, the invoice is all good.",
    "Mark fixed my heating, all sorted.",
    "Group lessons were brilliant.",
    "Update 2: the parcel turned up.",
    "Cancel that, the parcel turned up.",
    "Suche abgeschlossen, das Paket ist wieder aufgetaucht.",
    "Vielen Dank fürs Schicken, das Paket ist gestern angekommen.",
    "Encontré la tarjeta, todo bien.",
    "Veo que ya está pagada la factura, gracias.",
    "De la factura ya me he ocupado.",
    "Da minha parte está tudo bem com a fatura.",
    "Abri a encomenda, está tudo certo.",
    "Vedo che la bolletta è già pagata.",
    "Ordine 4711, il pacco è già arrivato.",
    "找回来了，钥匙的事虚惊一场。",
    "告诉你一下，快递已经收到了。",
    "荷物を確認して、もう大丈夫です。",
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
REQUESTS = (
    "Close the issue about login",
    "Please close the ticket 4711",
    "Please close the ticket.",
    "Close all tickets that are resolved",
    "Find all tickets that are resolved",
    "Export invoices already paid",
    "list orders that were cancelled and are already refunded",
    "Find a hotel that is perfect for families",
    "Show tickets that have been fixed",
    "Count tickets already closed and solved, sorted by date",
    "Merge the tickets that are already dealt with",
    "Search for invoices which were already paid in May",
    "Archive every ticket that is resolved",
    "Send Anna the invoices that are settled",
    "Print invoice 4711, it is already paid",
    "All tickets that are resolved",
    "Invoices already paid in October",
    "Refund the orders already paid, all of them are settled",
    "Duplicate the invoice that was already paid",
    "Invoice for the order that was resolved",
    "Liste alle Rechnungen, die schon bezahlt sind",
    "Alle Rechnungen auflisten, die schon bezahlt sind",
    "Exportieren Sie die Rechnungen, die bereits bezahlt sind",
    "Suche ein Hotel, das wirklich perfekt für Familien ist",
    "Markiere die Pakete, die bereits angekommen sind",
    "Alle Rechnungen, die schon bezahlt sind",
    "Find ein Hotel, das einfach traumhaft ist",
    "Trouve les factures déjà payées",
    "trouve les commandes déjà livrées",
    "Rembourse les commandes déjà payées",
    "Affichez les factures qui sont déjà payées",
    "Exporter les commandes déjà reçues",
    "Cherche un hôtel qui est parfait pour les familles",
    "Imprimez-moi la facture, elle est déjà réglée",
    "muéstrame las facturas ya pagadas",
    "Busca los pedidos que ya están pagados",
    "Exporte las facturas que ya están pagadas",
    "Contar los pedidos que ya están listos",
    "Encuentra un hotel que es perfecto para familias",
    "Lista as faturas que já foram pagas",
    "Procure as encomendas que já foram entregues",
    "Exportar todas as faturas que já estão pagas",
    "Encontra um hotel que é perfeito para famílias",
    "Arquive as faturas que já foram pagas",
    "Trova le bollette che sono già pagate",
    "Elenca i pacchi che sono già arrivati",
    "Esportare le bollette già pagate",
    "Cercami un albergo che è perfetto per famiglie",
    "Invii le bollette che sono pagate",
    "Zoek de rekeningen die al betaald zijn",
    "Exporteer alle rekeningen die zijn betaald",
    "Alle pakketten tonen die al bezorgd zijn",
    "Vind een hotel dat echt perfect is voor gezinnen",
    "Stuur mij de rekeningen die al betaald zijn",
    "列出已经付款的订单",
    "导出已经付了的账单",
    "查找已经收到了的快递",
    "找一家很舒服的酒店",
    "把已经付了款的订单标记一下",
    "支払い済みの請求書を探して",
    "対応済みの注文を一覧にして",
    "もう支払い済みの請求書を検索",
    "とても素敵でしたと評判のホテルを探して",
    "支払い済みの請求書の一覧",
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


@pytest.mark.parametrize("message", REQUESTS)
async def test_a_command_for_settled_matters_stays_a_request(
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
