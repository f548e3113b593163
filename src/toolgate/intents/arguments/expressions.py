"""Regular expressions and word lists that find values in a message."""

import re
from typing import Final

from toolgate.intents.dates.vocabulary import NUMBERS, ROLLING, TIME_UNITS, UNITS
from toolgate.intents.patterns import late_pattern

PAIR: Final = late_pattern(
    r"""
    (?<![\w-])(?:--?)?["'`]?(?P<key>[A-Za-z_][\w.-]{0,63})["'`]?
    (?:\s?(?P<sign>[=:])\s?|(?P<blank>[ ]))
    (?P<value>"[^"\n]{0,500}"|'[^'\n]{0,500}'|`[^`\n]{0,500}`|[^\s,;"'`]{1,500})
    """,
    re.VERBOSE,
)

QUOTED: Final = late_pattern(
    "\"([^\"\n]{1,500})\"|(?<!\\w)'([^'\n]{1,500})'(?!\\w)|`([^`\n]{1,500})`"
    "|\u201c([^\u201d\n]{1,500})\u201d|\u201e([^\u201c\u201d\n]{1,500})[\u201c\u201d]"
    "|\u00ab\\s?([^\u00bb\n]{1,500}?)\\s?\u00bb|(?<!\\w)\u2018([^\u2019\n]{1,500})\u2019(?!\\w)"
    "|\u300c([^\u300d\n]{1,500})\u300d"
)

EMAIL: Final = late_pattern(
    r"(?<![\w.+%-])[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}(?![\w@])"
)

URL: Final = late_pattern(
    r"(?<!\w)(?:[a-z][a-z0-9+.-]{1,20}://|www\.)[^\s<>\"'`\u201c\u201d\u00ab\u00bb]{1,2000}",
    re.IGNORECASE,
)

PATH: Final = late_pattern(
    r"(?<![\w/.:@~-])(?:"
    r"(?:~|\.{1,2})?(?:/[\w.@+~%=-]+)+/?"
    r"|[A-Za-z]:\\[^\s:*?\"<>|]{1,500}"
    r"|[\w-]+(?:/[\w.@+~-]+)*\.[A-Za-z][A-Za-z0-9]{0,7}"
    r"|[\w.-]+(?:/[\w.@+~-]+)+/?"
    r")(?![\w@])"
)

_NUMBER: Final = r"(?P<number>\d{1,3}(?:[,.' ]\d{3})+(?!\d)|\d{1,9})(?![\w%]|[.,:/]\d)"

SMALL_NUMBERS: Final = "|".join(
    sorted(
        (
            word
            for word, value in NUMBERS.items()
            if value > 1 and word not in {"once", "due", "sei"}
        ),
        key=lambda word: -len(word),
    )
)

COUNTED: Final = rf"(?:{_NUMBER}|(?P<few>{SMALL_NUMBERS})(?!\w))"

_TOP: Final = (
    r"last|latest|newest|recent|top|first|best|letzten?|neuesten?|jungsten?|ersten?|oberste"
    r"|derniers|dernieres|premiers|premieres|ultimos|ultimas|primeros|primeras|laatste|eerste"
)

_LIMIT: Final = (
    r"limit(?:ed)?(?: (?:of|to))?|max(?:imum|imal)?(?: of)?|at most|up to|no more than|only"
    r"|not more than|hochstens|nur|au plus|maximum de|como maximo|hasta|solo|hooguit"
)

# Best first: the reader takes the first pattern that matches.
COUNTS: Final = tuple(
    late_pattern(pattern)
    for pattern in (
        rf"(?<!\w)(?:{_TOP})(?:\s+|-)?{COUNTED}",
        rf"(?<![\w.,:/-]){COUNTED}\s+(?:most\s+|plus\s+|mas\s+)?(?:{_TOP})(?!\w)",
        rf"(?<!\w)(?:{_LIMIT})\s*[:=]?\s*{COUNTED}",
    )
)

_TIME_UNITS: Final = "|".join(
    sorted({*UNITS, *TIME_UNITS, "nights", "evenings"}, key=lambda word: -len(word))
)

UNIT_FOLLOWS: Final = late_pattern(
    rf"\s+(?:(?:full|whole|business|calendar|working|{'|'.join(sorted(ROLLING))})\s+)?(?:{_TIME_UNITS})(?!\w)"
)

NO_COUNT_BEFORE: Final = late_pattern(
    r"(?:version|release|no|nr|number|numero|nummer|v|#|page|id|step|port|chapter|part)[\s.:]*$"
)

PERIOD: Final = late_pattern(
    rf"(?<![\w.,:/-]){COUNTED}\s+(?:(?:{'|'.join(sorted(ROLLING))})\s+)?"
    rf"(?P<unit>{_TIME_UNITS})(?!\w)"
)

ONE_PERIOD: Final = late_pattern(
    r"(?<!\w)(?:past|last|letzten?|letztes|vergangenen?|derniere?|ultim[oa]|afgelopen)\s+"
    rf"(?P<unit>{_TIME_UNITS})(?!\w)"
)

# Upper bounds in these expressions, such as {0,500}, keep matching linear in hostile messages.
# Months, quarters and half years use their average length in whole days.
UNIT_DAYS: Final = {"day": 1, "week": 7, "weekend": 2, "month": 30, "quarter": 91, "half": 182}

SECONDS: Final = {
    "second": 1,
    "seconds": 1,
    "minute": 60,
    "minutes": 60,
    "hour": 3600,
    "hours": 3600,
    "day": 86400,
    "days": 86400,
    "week": 604800,
    "weeks": 604800,
    "month": 2592000,
    "months": 2592000,
    "year": 31536000,
    "years": 31536000,
}

YES_WORDS: Final = frozenset(["true", "yes", "on", "1", "ja", "oui", "si", "enabled", "an", "ein"])

NO_WORDS: Final = frozenset(["false", "no", "off", "0", "nein", "non", "disabled", "aus", "nee"])

WITH: Final = (
    r"with|include|including|includes|enable|enabled|also|and|use|using|plus|only|mit|inklusive"
    r"|avec|inclure|con|incluir|incluye|met"
)

WITHOUT: Final = (
    r"without|exclude|excluding|disable|disabled|skip|omit|no|not|don't|dont|do not|never|ignore"
    r"|ohne|keine?|sans|pas de|sin|zonder|geen"
)

FILLER: Final = r"(?:(?:the|any|all|die|den|les|las|los|include|show|use|also)\s+){0,2}"

NAMED: Final = (
    r"(?:\s+(?:is|are|of|to|as|called|named|with|ist|namens|est|appele|es|llamado))?\s*[:=#]?\s*"
)

NUMBERED: Final = r"(?:\s+(?:number|numbers|no|nr|num|nummer|numero|n\u00b0)(?!\w)\.?)?"
"""Between the name of a thing and its number: `order no. 4711`."""

BEFORE_AMOUNT: Final = late_pattern(r"(?:(?<!\w)(?:of|von|de|di|van)\s|(?<!\w)d')\s*$")

_MEASURES: Final = (
    "euros?|eur|dollars?|usd|pounds?|gbp|francs?|franken|chf|percent|prozent|procent|cento|ciento"
    "|degrees?|grad|degres|grados|gradi|graden|points?|punkten?|puntos|punti|punten|stars?"
)
_CONTINUED: Final = (
    "and|but|for|from|has|have|been|are|was|were|will|with|that|which|the|please|und|oder|ist|war"
    "|wurde|hat|fur|mit|vom|bitte|est|pour|avec|qui|dans|por|para|que|con|como|favor|per|che|non"
    "|voor|met|als|niet|nao|com"
)

THING_AFTER: Final = late_pattern(
    rf"\s+(?!(?:{_MEASURES}|{_CONTINUED}|{_TIME_UNITS})(?!\w))[^\W\d_]{{3,}}"
)
"""After a number: what is counted. `an order of 20 screws` is not the order 20."""

CALLED: Final = ("called", "named", "namens", "genannt", "appele", "nomme", "llamado", "llamada")

CLOSERS: Final = ".,;:!?)]}\u2026"
