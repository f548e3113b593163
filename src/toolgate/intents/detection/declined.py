"""Finds the parts of a message that decline something, or ask how it is worded.

"Don't create a relation, make a value list" asks for a value list, and "how do I spell relation"
for neither. Rules for English, German, French, Spanish, Portuguese, Italian and Dutch; a message in
another language is left as it is.
"""

import re
from typing import Final

__all__ = ["without_declined"]

_CLAUSE: Final = re.compile(
    r"""[.;!?\n]+\s*|,\s*
      | \s+(?:but|sondern|aber|sino|pero|mais|ma|mas|porém|maar)\s+""",
    re.VERBOSE | re.IGNORECASE,
)
"""What stands between two clauses."""

_REQUESTED: Final = re.compile(
    r"""\b(?: why\ (?:don't|dont|do\ not)\ (?:you|we) | (?:don't|do\ not|dont)\ forget
      | vergiss\ nicht | nicht\ vergessen | warum\ nicht
      | n'?oublie[zs]?\ pas | no\ (?:te\ )?olvid(?:es|e|ar)
      | não\ (?:se\ )?esque[çc](?:a|as) | non\ dimentica(?:re|te)? | vergeet\ niet
    )\b""",
    re.VERBOSE | re.IGNORECASE,
)
"""Negations that ask for something."""

_DECLINED: Final = re.compile(
    r"""^(?:(?:and|so|well|ok(?:ay)?|no|oh|also|und|nein|et|non|y|e|não|en|nee)[\s,]+)*
    (?: (?:please\s+)?(?:do\ not|don['’]?t|dont|never)\s+
        (?!you\b|know\b|understand\b|see\b|have\b)\w
      | (?:i|we|you)\ (?:really\ |certainly\ )?(?:do\ not|don['’]?t|dont|did\ not|didn['’]?t)
        \s+(?:want|need|mean|care|like|ask)\b
      | (?:there\ is\ )?no\ need\ (?:to|for)\b | not\ (?:a|an|the|any|my|our|this|that)\b
      | (?:stop|forget|skip|ignore|cancel)\ (?:about\ )?(?:it|that|this)\b
      | (?:instead\ of|rather\ than|without)\b
      | (?:bitte\s+)?(?:nicht|kein|keine|keinen|keinem|niemals|nie)\b
      | (?:ich|wir)\ (?:will|möchte|brauche|wollen|möchten|brauchen|meine)\b.*\b
        (?:nicht|keine?[nmrs]?)\b
      | (?:bitte\s+)?\w+(?:e|en|t)?\ (?:jetzt\ |bitte\ |mir\ )?(?:keine?[nmrs]?)\b
      | (?:statt|anstatt|ohne)\b
      | (?:s'il\ (?:te|vous)\ pla[iî]t\s+)?ne\ \w+\ (?:pas|plus|jamais|rien)\b
      | n['’]\w+\ (?:pas|plus|jamais|rien)\b
      | je\ ne\ (?:veux|souhaite|cherche)\b | (?:pas|plus|jamais)\ (?:de|d'|le|la|les|un|une)\b
      | (?:au\ lieu|sans)\b
      | (?:por\ favor\s+)?(?:no|nunca)\ (?:me\ )?(?:quiero|necesito|crees?|borres?|abras?|hagas?
        |muestres?|cambies?|elimines?|añadas?|busques?|envíes?)\b
      | (?:en\ (?:lugar|vez)\ de|sin)\b
      | (?:por\ favor\s+)?(?:não|nunca)\ (?:quero|preciso|crie|criar|apague|abra|faça|mostre|mude
        |remova|adicione|procure|envie)\b | (?:em\ vez\ de|sem)\b
      | non\ (?:voglio|creare|aprire|cancellare|mostrare|cambiare|cercare|mi\ serve)\b
      | invece\ di\b
      | (?:ik\ wil|maak|toon|open|verwijder)\ (?:nu\ )?(?:geen|niet)\b | in\ plaats\ van\b
    )""",
    re.VERBOSE | re.IGNORECASE,
)
"""How a clause begins that declines."""

_WORDING: Final = re.compile(
    r"""\b(?: how\ (?:do|does|would|should|can|could)\ (?:i|you|one|we|it)\ (?:\w+\ )?
        (?:spell|pronounce|phrase|word|translate|say)\b
      | how\ (?:is|are)\b.{1,60}\b(?:spelled|spelt|pronounced|written|translated)\b
      | how\ to\ (?:spell|pronounce|phrase|word|translate)\b
      | what\ does\b.{1,60}\bmean\b | what['’]?s\ another\ word\ for\b
      | wie\ (?:schreibt|buchstabiert|spricht|übersetzt|sagt|formuliert)\ man\b
      | was\ (?:bedeutet|heißt)\b
      | comment\ (?:écrit|prononce|traduit|dit|épelle)-on\b | que\ (?:veut\ dire|signifie)\b
      | cómo\ se\ (?:escribe|dice|pronuncia|traduce)\b | qué\ significa\b
      | como\ se\ (?:escreve|diz|pronuncia|traduz)\b | o\ que\ significa\b
      | come\ si\ (?:scrive|dice|pronuncia|traduce)\b | cosa\ significa\b
      | hoe\ (?:schrijf|spel|vertaal|zeg)\ je\b | wat\ betekent\b
    )""",
    re.VERBOSE | re.IGNORECASE,
)
"""Questions about words."""

_LONGEST: Final = 4_000
"""Characters of a message that are looked at; chosen."""


def without_declined(text: str) -> str:
    """The text with blanks in place of what it declines or only words; of the same length."""
    if len(text) > _LONGEST:
        return text
    pieces: list[str] = []
    at = 0
    for separator in [*_CLAUSE.finditer(text), None]:
        end = separator.start() if separator is not None else len(text)
        clause = text[at:end]
        stripped = clause.strip()
        is_question = text[end : end + 1] == "?"
        declines = _DECLINED.match(stripped) is not None and not _REQUESTED.search(stripped)
        if (declines and not is_question) or _WORDING.search(stripped):
            clause = " " * len(clause)
        pieces.append(clause)
        if separator is not None:
            pieces.append(separator[0])
            at = separator.end()
    return "".join(pieces)
