"""Find what a message quotes: the words of somebody else, or a text to be worked on.

`My boss asked "what changed?" yesterday` reports a question and asks none, and `summarize: "What
changed yesterday?"` is about a text. Verbs in English, German, French, Spanish, Portuguese,
Italian and Dutch.
"""

import re
from typing import Final

from toolgate.intents.detection.mentions import asks_for_something
from toolgate.intents.patterns import late_pattern

_QUOTED: Final = r"""\s*[:,]?\s*(?:["“”«„]\s?)(?P<quoted>[^"“”«»„]{1,400})["“”»]"""
"""A text in quotation marks; single ones could be apostrophes."""

_REPORTED: Final = late_pattern(
    r"""\b(?: said|says|asked|asks|wrote|writes|reads|shouted|entitled|titled|quote
      | sagte|sagt|gesagt|fragte|gefragt|schrieb|geschrieben | dit|demandé|demande|écrit
      | dijo|dice|preguntó|escribió | disse|diz|perguntou|escreveu
      | detto|chiesto|chiese|scritto | zei|zegt|vroeg|gevraagd|schreef
    )\b"""
    + _QUOTED,
    re.VERBOSE | re.IGNORECASE,
)
"""What somebody said, asked or wrote."""

_WORKED_ON: Final = late_pattern(
    r"""(?:^|[.;!?\n]\s*)(?:please\s+|bitte\s+)?(?: summari[sz]e|shorten|rephrase|paraphrase
      | proofread|translate|zusammenfassen|übersetze?|kürze|korrigiere?
      | résume[zr]?|traduis|corrige[zr]?|resume|resuma|traduce|traduz|traduza
      | riassumi|traduci|correggi|vertaal|corrigeer
    )\b(?:\ \w+){0,4}"""
    + _QUOTED,
    re.VERBOSE | re.IGNORECASE,
)
"""A text that is to be translated, shortened or corrected."""


def without_quotations(text: str) -> str:
    """Replace reported words, and texts to be worked on, with as many blanks.

    Reported words stay if the rest of the message asks for something: `she asked "what changed?",
    please tell her`.
    """
    text = _WORKED_ON.sub(_without_quoted, text)
    rest = _REPORTED.sub(_without_quoted, text)
    return text if asks_for_something(rest) else rest


def _without_quoted(match: re.Match[str]) -> str:
    start, end = (at - match.start() for at in match.span("quoted"))
    found = match[0]
    return found[:start] + " " * (end - start) + found[end:]
