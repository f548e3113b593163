"""Read lists of values from a message: `with Active, Inactive and Pending`."""

import re
from typing import Final

from toolgate.intents.arguments.message import ArgumentMessage, ReadValue
from toolgate.intents.arguments.prepared_spec import PreparedSpec
from toolgate.intents.patterns import late_pattern
from toolgate.intents.text import fold

_QUOTES: Final = "\"'`\u201c\u201d\u201e\u00ab\u00bb\u2018\u2019 "

_QUOTED: Final = late_pattern(r"[\"'`\u201c\u201e\u00ab\u2018]([^\"'`\u201c\u201d\u00bb\u2019]+)")

_BETWEEN: Final = late_pattern(
    r"\s*[,;]\s*(?:(?:and|or|und|oder|et|ou|y|e|o|en|of|ed)\s+)?|\s*/\s*"
    r"|\s+(?:and|or|und|oder|et|ou|y|e|o|en|of|ed|&)\s+",
    re.IGNORECASE,
)

_FIRST: Final = late_pattern(
    r"^(?:(?:the|die|den|les|los|las|de|i|gli|os|as)\s+)?(?:(?:values?|options?|entries|choices|items"
    r"|werten?|optionen|einträgen?|valeurs|valores|waarden|opções|valori)\b\s*:?\s*)?",
    re.IGNORECASE,
)

_REST: Final = late_pattern(
    r"\s+(?:called|named|for|to|from|in|into|namens|genannt|für|zur?|in|nomm\w+|appel\w+|pour|à"
    r"|llamad\w+|para|a|al|genaamd|voor|aan|as)\s.*"
    r"|\s+(?:an|hinzu|ein|anlegen|erstellen|hinzufügen|einfügen|aan|toe|aanmaken|toevoegen|maken"
    r"|please|bitte|svp|graag)$",
    re.IGNORECASE | re.DOTALL,
)
"""Text after the last value: `and Pending for the order status`, `und Gelb an`."""

_MOST_WORDS: Final = 5
"""Largest number of words in one value (chosen). A longer piece is a sentence, not a value."""


def read_list(ready: PreparedSpec, message: ArgumentMessage) -> ReadValue | None:
    """Return the values after an announcing word; a single value must be in quotation marks."""
    for match in re.finditer(rf"(?<!\w)(?:{ready.words})\s*[:=]?\s+", message.folded.text):
        start = message.folded.start(match.end())
        clause = re.match(r"(?:[^.!?;\n]|\.(?=\S))*", message.source[start:])
        said = clause[0] if clause else ""
        said = _FIRST.sub("", said, count=1)
        items = list_items(said)
        # `list of values named states with open and closed`: the values come after the last one.
        if items and re.search(rf"(?<!\w)(?:{ready.words})\s", fold(items[0]).text):
            continue
        if len(items) > 1 or (items and said.lstrip()[:1] in _QUOTES.strip()):
            begin = message.source.index(items[0], start)
            end = message.source.index(items[-1], begin) + len(items[-1])
            return items, (begin, end)
    return None


def list_items(text: str) -> list[str]:
    """Return the values of a text as written; empty if a piece of it is not a value."""
    pieces = [piece for piece in _BETWEEN.split(text.strip(" :.")) if piece.strip(_QUOTES)]
    items: list[str] = []
    for at, piece in enumerate(pieces):
        value = piece.strip()
        if value[0] in _QUOTES:
            quoted = _QUOTED.match(value)
            value = quoted[1] if quoted else value.strip(_QUOTES)
        elif at == len(pieces) - 1:
            value = _REST.sub("", value)
        value = value.strip(_QUOTES)
        if not value or len(value.split()) > _MOST_WORDS:
            return []
        items.append(value)
    return items
