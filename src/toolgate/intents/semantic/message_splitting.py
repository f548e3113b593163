"""Recognize messages with several requests, and messages that depend on the previous one."""

import re
from functools import lru_cache

from toolgate.intents.patterns import late_pattern

_BETWEEN = late_pattern(
    r"""[;\n]+ | [.!?]\s+ | ,\s*(?:and|then|also|und|dann|y|luego|et|puis|e|poi|en|dan)\s+ | ,\s+
      | \s+(?:and\s+then|and\s+also|as\s+well\s+as|and|then|plus)\s+
      | \s+(?:und\s+dann|und|sowie|y|e\s+poi|e|ed|et|puis)\s+
      | [。！？；，]+\s*(?:然后|并且|同时|接着|另外|还有|再|并)? | (?:然后|并且|接着|另外)
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Separators between two requests: punctuation, and "and" in eight languages except Dutch."""

_DUTCH_AND = late_pattern(r"\s+en(?:\s+dan)?\s+", re.IGNORECASE)
"""The Dutch "and", which is another word in French and Spanish."""

_DUTCH = late_pattern(
    r"\b(?:het|een|ik|wat|welke|hoe|van|voor|naar|zijn|staan|maak|toon|laat|geef|mij|onze?|alle)\b",
    re.IGNORECASE,
)
"""Words that exist in neither French nor Spanish."""

_AGAIN = late_pattern(
    r"""\b(?: (?:do|did|does|repeat)\ (?:the\ same|that|it|this)\ (?:again|too|also|for|with|to|on)
      | the\ same\ (?:again|thing|for|with|to|on|as|but) | same\ (?:for|with|but)\b
      | (?:and|now|what|how)\ about | another\ one | one\ more\ one | once\ more
      | again\ (?:for|with) | also\ for | likewise
      | das(?:\ gleiche|selbe)\ (?:für|mit|nochmal|noch) | (?:und|jetzt)\ (?:für|mit)\b
      | noch\ einmal | nochmal
      | lo\ mismo\ (?:para|con|otra) | (?:y|ahora)\ (?:para|con)\b | otra\ vez
      | la\ même\ chose | (?:et|maintenant)\ pour | de\ même | encore\ une\ fois
    )""",
    re.VERBOSE | re.IGNORECASE,
)
"""Words that refer back: "now do the same for products"."""

_ARTICLES = frozenset(
    [
        *("a", "an", "the", "my", "our", "some", "all", "another"),
        *("ein", "eine", "einen", "die", "der", "das"),
        *("un", "una", "el", "la", "los", "las", "une", "le", "les", "des"),
    ]
)
"""A piece that starts with one of these has no verb of its own."""

_CONTINUES = late_pattern(
    r"""(?: \d | one\b | (?:data\ ?source|columns?|keys?|called|named|sorted|ordered|grouped
      |based)\b
      | (?:with|for|by|on|in|from|to|via|per|using|through|without|of)\b
      | (?:mit|für|nach|von|aus|über|bei|auf|zu|ohne|namens|sortiert|geordnet|spalten?|schlüssel)\b
      | (?:con|para|por|desde|en|de|sin|llamad[oa]|ordenad[oa]s?|agrupad[oa]s?|columnas?|claves?)\b
      | (?:avec|pour|par|depuis|dans|sans|nommée?|appelée?|triée?s?|colonnes?|clés?)\b
      | (?:com|pela?|desde|sem|chamad[oa]|colunas?|chaves?)\b
      | (?:per|da|su|senza|tramite|chiamat[oa]|ordinat[oaie]|colonn[ae]|chiav[ei])\b
      | (?:met|voor|op|naar|zonder|genaamd|gesorteerd|kolom(?:men)?|sleutels?)\b
    )""",
    re.VERBOSE | re.IGNORECASE,
)
"""The start of a piece that adds to the one before it: "one for invoices", "sorted by name"."""

_WITHIN = (",", " and", " und", " y", " et", " e", " ed", " en")
"""Ends of what comes before a piece of the same sentence."""

_SIGNS = " ,.!?，。！？"
"""Characters stripped from the start and end of a part."""

# Largest number of parts of a message (chosen); more are a list rather than several requests.
_MOST_PARTS = 6
# Largest number of words in a message that only refers back (chosen).
_MOST_WORDS = 16
# Number of messages whose parts are cached, since every stage needs them (chosen).
_REMEMBERED = 64
# Characters of a message that are split (chosen).
_LONGEST = 4_000


@lru_cache(maxsize=_REMEMBERED)
def split_requests(message: str) -> tuple[str, ...]:
    """Return the parts that may each be a request; the message alone if it is only one.

    "Create a relation and a value list" gives "Create a relation" and "Create a value list": a
    short piece gets the first word of the piece before it.
    """
    pieces = _pieces(message[:_LONGEST])
    if not 1 < len(pieces) <= _MOST_PARTS:
        return (message,)
    whole = [pieces[0]]
    for piece in pieces[1:]:
        words = piece.split()
        lead = whole[-1].split()
        # A piece of more than four words usually has a verb of its own (chosen).
        short = len(words) <= 4 and len(lead) >= len(words) and words[0].lower() in _ARTICLES
        whole.append(f"{lead[0]} {piece}" if short else piece)
    return tuple(whole)


def _pieces(message: str) -> list[str]:
    """Split at punctuation and words for "and"; what only adds to a piece stays with it."""
    separators = [*_BETWEEN.finditer(message)]
    if _DUTCH.search(message):
        separators += _DUTCH_AND.finditer(message)
    spans: list[tuple[int, int]] = []
    start = 0
    for separator in sorted(separators, key=lambda found: found.start()):
        spans.append((start, separator.start()))
        start = separator.end()
    spans.append((start, len(message)))
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        piece = message[start:end].strip(_SIGNS)
        if not piece:
            continue
        # "Orders and customers": a single word is one more thing, not a request of its own. A new
        # sentence may be one whatever it starts with.
        adds = _CONTINUES.match(piece) and message[:start].rstrip().endswith(_WITHIN)
        if joined and (adds or (piece.isascii() and len(piece.split()) < 2)):
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    return [message[start:end].strip(_SIGNS) for start, end in joined]


def repeats_previous(message: str) -> bool:
    """Whether the message says "the same again", so that its meaning is in the previous one."""
    return len(message.split()) <= _MOST_WORDS and _AGAIN.search(message) is not None
