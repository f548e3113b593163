"""Leave out greetings and thanks, which say nothing about what a message asks for.

"Create a relation. Thanks!" is the request "create a relation": the second sentence would count as
a part that no intent covers. Rules for English, German, French, Spanish, Portuguese, Italian, Dutch
and Chinese.
"""

import re
from typing import Final

from toolgate.intents.patterns import late_pattern

_GREETING: Final = late_pattern(
    r"""^\s*(?:(?:
        (?:hi|hello|hey|hallo|moin|servus|salut|bonjour|bonsoir|hola|ol[áa]|oi|ciao|salve|hoi|dag
          |dear|liebe[sr]?|cher|chère|querid[oa]|car[oa]|beste)(?:\ [^\W\d_]+)?
      | (?:good|guten?|bon|buen[oa]?s?|boa|bom|goede)[\ ]?(?:morning|afternoon|evening|day|morgen
          |tag|abend|días|tardes|noches|dia|tarde|noite|middag|avond)(?:\ [^\W\d_]+)?
      | buongiorno | buonasera | buon\ pomeriggio
      )\s*[,!.:;\n–—-]\s* | (?:你好|您好|大家好|早上好|下午好|晚上好)[，,！!。.\s]*)+""",
    re.VERBOSE | re.IGNORECASE,
)
"""Greetings at the start, with a name at most, up to the punctuation after them."""

_THANKS: Final = late_pattern(
    r"""(?<!\bno)(?<!\bno,)(?<!\bnein)(?<!\bnein,)(?<!\bnon)(?<!\bnon,)(?<!\bnee)(?<!\bnee,)
    (?<!\bnão)(?<!\bnão,)
    (?:(?:(?<=\S)\s+ | (?<=[^\s,;–—-])[,;–—-]\s* | (?<=\S)(?=[，¡]?[谢多感¡]))
      [，¡]*
      (?: (?:many\ |thank\ )?(?:thanks|thank\ you|thx|you|cheers)(?:\ (?:a\ lot|so\ much|very\ much
          |in\ advance|again|everyone|all|team))* | (?:best|kind|warm)\ regards
        | (?:vielen\ |besten\ |herzlichen\ |lieben\ )?dank(?:e|\ je|\ u)?
          (?:\ (?:schön|sehr|dir|euch|ihnen|im\ voraus|wel))* | (?:viele|liebe|beste)\ grüße
        | merci(?:\ (?:beaucoup|bien|d['’]avance|à\ tous))* | cordialement
        | (?:muchas\ |mil\ )?gracias(?:\ (?:de\ antemano|por\ adelantado))? | (?:un\ )?saludos?
        | (?:muito\ )?obrigad[oa](?:\ desde\ já)? | valeu
        | (?:mille\ )?grazie(?:\ (?:mille|in\ anticipo))?
        | (?:alvast\ )?bedankt | met\ vriendelijke\ groet
        | (?:谢谢|多谢|感谢)(?:你|您|大家|了|啦)*
      )(?!\w)[.,;!]*){1,4}[\s,.;:!！。，–—()\U0001f300-\U0001faff\u2600-\u27bf-]*$""",
    re.VERBOSE | re.IGNORECASE,
)
"""Thanks at the end of a message, unless they decline something ("no, thanks")."""

_EMPTY_LABELS: Final = late_pattern(r"(?<=\S)(?:\s*\n[^\S\n]*[^\W\d_]+(?:\ [^\W\d_]+){0,2}:)+\s*$")
"""Last lines with a label and nothing after it, such as the empty fields of a form."""

# Characters of a message that are examined (chosen).
_LONGEST: Final = 4_000


def without_courtesies(text: str) -> str:
    """Replace greetings, thanks and empty labels at the end with as many blanks.

    A message that consists of nothing else stays as it is.
    """
    if len(text) > _LONGEST:
        return text
    result = text
    for courtesy in (_EMPTY_LABELS, _THANKS, _GREETING):
        result = courtesy.sub(lambda match: " " * len(match[0]), result)
    return result if result.strip() else text
