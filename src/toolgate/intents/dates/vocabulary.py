"""Folded date words in English, German, French, Spanish, Dutch, Portuguese and Italian.

All languages are read at once: a word of one rarely means something else in another, and where
it does (`hier`, `morgen`, `a`), the grammar requires more context.
"""

from typing import Final

from toolgate.intents.dates.calendar import Unit
from toolgate.intents.dates.number_words import NUMBERS, numbered_words

__all__ = [
    "ADJECTIVES",
    "AFTER",
    "AGO_AFTER",
    "AGO_BEFORE",
    "AND",
    "ARTICLES",
    "BEFORE",
    "BETWEEN",
    "CLOCK_WORDS",
    "COUNTED_FIRST",
    "DAYS",
    "EDGES",
    "FILLERS",
    "FRENCH",
    "FROM",
    "HALF_UNITS",
    "IN",
    "INSIDE",
    "ITALIAN",
    "LATER_ADJECTIVES",
    "LOOSE_EDGES",
    "MIDDLES",
    "MONTHS",
    "NEVER_AGO",
    "NOT_FRENCH",
    "NOW",
    "NUMBERS",
    "OF",
    "ON",
    "ORDINALS",
    "ORDINAL_DAYS",
    "PLURALS",
    "PORTUGUESE",
    "RISKY_MONTHS",
    "ROLLING",
    "SEASONS",
    "SHORT_UNITS",
    "SINCE",
    "TIME_UNITS",
    "TO",
    "TO_DATE",
    "UNITS",
    "UNTIL",
    "WEEKDAYS",
]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _units(rows: dict[Unit, str]) -> dict[str, Unit]:
    return {word: unit for unit, row in rows.items() for word in row.split()}


DAYS: Final[dict[str, int]] = {
    **dict.fromkeys(_words("today tonight heute aujourd'hui hoy vandaag hoje oggi stasera"), 0),
    **dict.fromkeys(_words("vanochtend vanmorgen vanmiddag vanavond"), 0),
    **dict.fromkeys(_words("yesterday gestern hier ayer gisteren ontem ieri"), -1),
    **dict.fromkeys(_words("gisterochtend gistermorgen gistermiddag gisteravond"), -1),
    **dict.fromkeys(_words("tomorrow morgen demain manana amanha domani"), 1),
    **dict.fromkeys(_words("vorgestern avant-hier anteayer antier eergisteren anteontem"), -2),
    **dict.fromkeys(_words("ubermorgen uebermorgen apres-demain overmorgen dopodomani"), 2),
}

UNITS: Final[dict[str, Unit]] = _units(
    {
        "day": "day days tag tage tagen jour jours dia dias dag dagen giorno giorni",
        "week": "week weeks woche wochen semaine semaines semana semanas weken fortnight "
        "settimana settimane",
        "weekend": "weekend weekends week-end week-ends wochenende wochenenden wochenendes",
        "month": "month months monat monate monaten monats mois mes meses maand maanden mese mesi",
        "quarter": "quarter quarters quartal quartale quartalen quartals trimestre trimestres "
        "kwartaal kwartalen trimestri",
        "half": "half-year half-years halfyear halbjahr halbjahre halbjahres halbjahren semestre "
        "semestres semestri halfjaar",
        "year": "year years jahr jahre jahren jahres an ans annee annees ano anos jaar jaren "
        "anno anni",
    }
)

PLURALS: Final = frozenset(
    _words(
        "days weeks weekends months quarters half-years years tage tagen wochen monate monaten "
        "quartale quartalen jahre jahren jours semaines trimestres annees ans dias semanas meses "
        "anos dagen weken maanden kwartalen jaren week-ends wochenenden semestres halbjahre "
        "halbjahren giorni settimane mesi trimestri semestri anni"
    )
)
"""Units that do not form a date with `last` alone."""

HALF_UNITS: Final[dict[str, int]] = {"fortnight": 2, "fortnights": 2}
"""Words that mean several of their unit."""

SHORT_UNITS: Final[dict[str, Unit]] = {
    "d": "day",
    "w": "week",
    "wk": "week",
    "wks": "week",
    "mo": "month",
    "mos": "month",
    "y": "year",
    "yr": "year",
    "yrs": "year",
}
"""Short forms that need a number and a time word next to them."""

TIME_UNITS: Final[dict[str, float]] = {
    **dict.fromkeys(
        _words("hour hours hr hrs h stunde stunden heure heures hora horas uur uren ora ore"), 3600
    ),
    **dict.fromkeys(_words("minute minutes min mins minuten minuto minutos minuut minuti"), 60),
    **dict.fromkeys(
        _words(
            "second seconds sec secs sekunde sekunden seconde secondes segundo segundos seconden "
            "secondi"
        ),
        1,
    ),
}
"""Units shorter than a day, in seconds."""

NOW: Final = frozenset(
    _words("now date present jetzt heutzutage maintenant ahora nu heden agora adesso oggi hoje")
)
"""At the end of a pair: up to and including today."""

MIDDLES: Final = frozenset(_words("mid mitte mi mediados midden meados meta"))
"""Before a month: its fifteenth."""

CLOCK_WORDS: Final[dict[str, int]] = {
    **dict.fromkeys(_words("noon midday mittag mittags midi mediodia meio-dia mezzogiorno"), 12),
    **dict.fromkeys(
        _words("midnight mitternacht minuit medianoche middernacht meia-noite mezzanotte"), 0
    ),
}
"""Hours that have a name."""

ORDINALS: Final[dict[str, int]] = numbered_words(
    "",
    "first 1st erstes ersten erste premier premiere 1er primer primero eerste primo prima primeiro "
    "primeira",
    "second 2nd zweites zweiten zweite deuxieme 2e segundo tweede segunda secondo",
    "third 3rd drittes dritten dritte troisieme 3e tercer tercero derde terzo terceiro",
    "fourth 4th viertes vierten vierte quatrieme 4e cuarto vierde quarto",
)
"""For quarters and half years, and `1er` and `first` for days."""

MONTHS: Final[dict[str, int]] = numbered_words(
    "",
    "january jan januar janner jaenner janvier janv enero ene januari gennaio janeiro",
    "february feb februar fevrier fevr febrero februari febbraio fevereiro",
    "march mar marz maerz mrz mars marzo maart mrt marco",
    "april apr avril avr abril abr aprile",
    "may mai mayo mei maggio maio",
    "june jun juni juin junio giugno junho",
    "july jul juli juillet juil julio luglio julho",
    "august aug aout agosto augustus",
    "september sep sept septembre septiembre setiembre settembre setembro",
    "october oct oktober okt octobre octubre ottobre outubro",
    "november nov novembre noviembre novembro",
    "december dec dezember dez decembre diciembre dic dicembre dezembro",
)

ORDINAL_DAYS: Final[dict[str, int]] = {
    **numbered_words("", "first premier primero", "second", "third", "fourth", "fifth", "sixth"),
    **dict.fromkeys(["seventh"], 7),
    **dict.fromkeys(["eighth"], 8),
    **dict.fromkeys(["ninth"], 9),
    **dict.fromkeys(["tenth"], 10),
}
"""Before `of` and a month."""

RISKY_MONTHS: Final = frozenset(_words("may march mar mars marco"))
"""Months whose names are common words; they need more context than the others."""

WEEKDAYS: Final[dict[str, int]] = numbered_words(
    "monday mon montag lundi lunes maandag lunedi segunda-feira",
    "tuesday tue tues dienstag mardi martes dinsdag martedi terca-feira",
    "wednesday wed mittwoch mercredi miercoles woensdag mercoledi quarta-feira",
    "thursday thu thur thurs donnerstag jeudi jueves donderdag giovedi quinta-feira",
    "friday fri freitag vendredi viernes vrijdag venerdi sexta-feira",
    "saturday sat samstag sonnabend samedi sabado zaterdag sabato",
    "sunday sun sonntag dimanche domingo zondag domenica",
)

SEASONS: Final[dict[str, int]] = numbered_words(
    "spring fruhling fruehling fruhjahr fruehjahr printemps primavera lente voorjaar",
    "summer sommer ete verano zomer verao",
    "autumn fall herbst automne otono herfst najaar autunno outono",
    "winter hiver invierno inverno",
)

ADJECTIVES: Final[dict[str, int]] = {
    **dict.fromkeys(
        _words(
            "last previous letzte letzten letzter letztes letztem vorige vorigen voriger voriges "
            "vergangene vergangenen vergangener vergangenes dernier derniere pasado pasada ultimo "
            "ultima vorig afgelopen scorso scorsa passata passado"
        ),
        -1,
    ),
    **dict.fromkeys(
        _words(
            "this current diese diesen dieser dieses diesem ce cet cette este esta deze dit "
            "questo questa quest neste nesta "
            "aktuelle aktuellen aktueller aktuelles"
        ),
        0,
    ),
    **dict.fromkeys(
        _words(
            "next coming upcoming nachste nachsten nachster nachstes nachstem naechste naechsten "
            "naechster naechstes kommende kommenden kommender kommendes prochain prochaine "
            "proximo proxima volgende volgend komende prossimo prossima"
        ),
        1,
    ),
}
"""Before a unit, a weekday or a month: last, this, next."""

LATER_ADJECTIVES: Final[dict[str, int]] = {
    **dict.fromkeys(
        _words("dernier derniere passe passee pasado pasada ultimo ultima scorso scorsa"), -1
    ),
    **dict.fromkeys(_words("passado passada passato passata"), -1),
    **dict.fromkeys(_words("prochain prochaine suivant suivante proximo proxima prossimo"), 1),
    **dict.fromkeys(_words("prossima"), 1),
    **dict.fromkeys(_words("courant courante actual en-cours"), 0),
}
"""After a unit, a weekday or a month: la semaine derniere."""

ROLLING: Final[dict[str, int]] = {
    **dict.fromkeys(
        _words(
            "last past previous preceding letzte letzten letzter vergangene vergangenen vorigen "
            "derniers dernieres dernier derniere ultimos ultimas pasados pasadas laatste afgelopen "
            "vorige ultimi ultime scorsi scorse passati passate"
        ),
        -1,
    ),
    **dict.fromkeys(
        _words(
            "next coming upcoming following nachste nachsten naechste naechsten kommende kommenden "
            "prochains prochaines proximos proximas volgende komende "
            "prossimi prossime"
        ),
        1,
    ),
}
"""Next to a number and a unit: last 7 days, les 7 derniers jours."""

COUNTED_FIRST: Final = frozenset(
    _words(
        "derniers dernieres dernier derniere prochains prochaines ultimos ultimas pasados pasadas "
        "proximos proximas ultimi ultime prossimi prossime"
    )
)
"""Those that may follow the number; `a party of 7 next year` is not a period."""

NEVER_AGO: Final = frozenset({"ab", "vanaf", "a", "as", "starting", "beginning"})
"""Words of `SINCE` after which a bare length is not a date."""

AGO_AFTER: Final = frozenset(_words("ago geleden earlier back atras fa"))
"""After a number and a unit."""

AGO_BEFORE: Final = (("vor",), ("il", "y", "a"), ("ya",), ("hace",), ("ha",))
"""Before a number and a unit."""

SINCE: Final = (
    *(("since",), ("seit",), ("depuis",), ("desde",), ("sinds",), ("sedert",), ("vanaf",), ("ab",)),
    *(("starting", "from"), ("starting", "on"), ("starting",), ("beginning", "on"), ("as", "of")),
    *(("a", "partir", "de"), ("a", "partir", "du"), ("a", "partir", "del"), ("a", "partir", "d")),
    *(
        ("beginning", "from"),
        ("a", "partir", "da"),
        ("a", "partir", "do"),
        ("desde", "o"),
        ("da",),
        ("dal",),
    ),
    *(
        ("dalla",),
        ("dall",),
        ("a", "partire", "da"),
        ("a", "partire", "dal"),
        ("a", "partire", "dalla"),
    ),
)
AFTER: Final = (
    *(("after",), ("nach",), ("apres",), ("despues", "de"), ("despues", "del"), ("na",)),
    *(("later", "than"), ("newer", "than"), ("dopo",), ("apos",)),
    *(("depois", "de"), ("depois", "do"), ("depois", "da")),
)
BEFORE: Final = (
    *(("before",), ("vor",), ("avant",), ("antes", "de"), ("antes", "del"), ("voor",)),
    *(("prior", "to"), ("earlier", "than"), ("older", "than"), ("alter", "als"), ("ouder", "dan")),
    *(("antes", "do"), ("antes", "da"), ("prima", "di"), ("prima", "del"), ("prima", "della")),
)
UNTIL: Final = (
    *(("until",), ("till",), ("til",), ("up", "to"), ("up", "until"), ("up", "till"), ("through",)),
    *(("by",), ("bis", "zum"), ("bis", "zur"), ("bis", "zu"), ("bis",), ("jusqu", "a")),
    *(("jusqu", "au"), ("jusqu", "en"), ("hasta",), ("tot", "en", "met"), ("tot",), ("jusque",)),
    *(
        ("fino", "a"),
        ("fino", "al"),
        ("fino", "alla"),
        ("fino", "ad"),
        ("entro",),
        ("at\u00e9", "o"),
        ("at\u00e9",),
    ),
)
BETWEEN: Final = frozenset(_words("between zwischen entre tussen tra fra"))
AND: Final = frozenset(_words("and und et y e ed en &"))
FROM: Final = frozenset(_words("from von vom de du del desde van d da dal dalla"))
TO: Final = frozenset(
    _words("to until till through thru and bis a au al alla ao hasta tot at\u00e9 - \u2013")
) - {"and"}
ON: Final = frozenset(_words("on onward onwards forward an"))
"""`from A on`."""

IN: Final = frozenset(
    _words(
        "in on during within over throughout im am en dans pendant durante wahrend sur for "
        "nel nella nell negli nelle em no na nos nas"
    )
)
"""Words that belong to a date without changing it."""

INSIDE: Final = IN - set(_words("on over am sur for within"))
"""Those after which the bare name of a month is meant."""

ARTICLES: Final = frozenset(
    _words(
        "the der die das dem den des zum zur le la les l du el los las del het de a al il lo gli "
        "dell"
    )
)
OF: Final = frozenset(_words("of de du del des d van von di della dell do da"))
FILLERS: Final = frozenset({",", "."})

EDGES: Final[dict[str, int]] = {
    **dict.fromkeys(
        _words(
            "beginning start anfang beginn debut principio principios comienzo inicio begin inizio"
        ),
        0,
    ),
    **dict.fromkeys(_words("end ende fin final finales einde eind fim fine"), 1),
}
"""The start (0) or end (1) of a unit."""

LOOSE_EDGES: Final = frozenset(_words("anfang ende eind einde"))
"""Words for edges that need no `of`: Ende letzten Monats."""

TO_DATE: Final[dict[str, Unit]] = {"ytd": "year", "qtd": "quarter", "mtd": "month", "wtd": "week"}

FRENCH: Final = frozenset(
    _words(
        "le la les des du depuis avant apres et est sont que quels quelles quel quelle montre "
        "montrez jusqu donne donnez affiche affichez liste changements modifications entre dans "
        "sur pour avec moi ce qui a ete change d l"
    )
)
NOT_FRENCH: Final = frozenset(
    _words(
        "der die das und ist sind zeige zeig mir bitte nicht ein eine ich wir alle auf mit het "
        "een zijn toon wat de van voor niet wij ik is are show the and here please"
    )
)
"""Words that distinguish French from the languages in which `hier` means "here"."""

ITALIAN: Final = frozenset(
    _words(
        "ieri oggi domani stamattina lunedi martedi mercoledi giovedi venerdi sabato domenica meta "
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre "
        "dicembre inizio settimana"
    )
)
"""Words after which an Italian `da` means since."""

PORTUGUESE: Final = frozenset(
    _words(
        "semana ultima proxima primeira segunda-feira terca-feira quarta-feira quinta-feira "
        "sexta-feira"
    )
)
"""Words before which a Portuguese `na` means on."""
