"""Recognize statements that mention a topic and ask for nothing.

"I read an article about schema changes" and "my boss only talks about forms" have the words of a
request, but tell a story. A clause counts as such if it starts like a statement and has a verb or
noun of talking, reading, dreaming or liking with a topic, and nothing in the whole message asks
for anything. Rules for English, German, French, Spanish, Portuguese, Italian, Dutch and Chinese.
"""

import re
from typing import Final

from toolgate.intents.patterns import late_pattern

_ASKS: Final = late_pattern(
    r"""[?？] | \b(?: please|pls|kindly | (?:can|could|would|will)\ (?:you|we|i)
      | needs?|wants?|should|must|let['’]?s|show|create|make|delete|remove|add
      | (?:(?<=to\ )|(?<=and\ )|(?<=then\ )|(?<=you\ )|(?<=just\ )|(?<=now\ )|(?<=also\ )|(?<=me\ ))
        (?:list|open|change)
      | bitte|brauch\w*|soll\w*|muss|müssen|möchte\w*|kannst|könn\w+|zeig\w*|mach\w*|erstell\w*
      | s['’]il|svp|stp|veuillez|besoin|peux|pouvez|pourr\w+|faut|doi[ts]|voudrais|montre\w*|crée\w*
      | por\ favor|porfa|puedes?|podr[íi]as?|necesit\w+|falta|quier\w+|crea|muestra|abre|haz
      | favor|pode|poderia|precis\w+|quer[oe]m?|cri[ae]|mostr[ae]|faz|faça
      | puoi|potrebbe|bisogno|vorrei|serv(?:e|ono)|mostra\w*|apri|fai
      | graag|alstublieft|alsjeblieft|kun|kunt|wil|willen|moet\w*|nodig|maak|toon|laat
    )\b | (?:^|[.,;:!]\s*)(?:list|open|change)\b | [请帮吗需要给]
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Words that ask for something. Some are also nouns or adjectives, as in "value list"."""

_STATEMENT: Final = late_pattern(
    r"""^(?:(?:haha|lol|funny|so|well|oh|and|but|apparently|interesting|und|also|et|y|e|en
        |dus)[\s,]++)*
    (?: (?:yesterday|today|last|recently|this\ morning|tonight|once|there|i|i['’]\w+|we|he|she|they
        |my|our|his|her|their|the|that|those|these|some(?:one|body)|every(?:one|body)|people|a|an
        |two|three|four|five|all|half|at)
      | (?:gestern|heute|neulich|letzte\w*|vorhin|ich|wir|er|sie|man|es|mein\w*|unser\w*|sein\w*
        |ihr\w*|der|die|das|den|dem|ein\w*|in|im|am|auf|beim|jemand|alle|laut)
      | (?:hier|aujourd['’]hui|ce|j['’]\w+|je|on|nous|il|elle|ils|mon|ma|mes|notre|nos|un|une|le|la
        |les|au|à|dans|y)
      | (?:ayer|hoy|anoche|esta|vi|le[íi]|soñé|o[íi]|mis?|nuestr[oa]s?|el|los|las|una?|en|según)
      | (?:ontem|hoje|li|ouvi|sonhei|meus?|minhas?|noss[oa]s?|[oa]s?|uma?|no|na|segundo)
      | (?:ieri|oggi|stamattina|ho|abbiamo|mio|mia|miei|nostr[oa]|lo|gli|uno|al|alla|secondo)
      | (?:gisteren|vandaag|laatst|ik|wij|hij|zij|ze|mijn|onze?|de|het|een|op|iemand|iedereen)
    )\b""",
    re.VERBOSE | re.IGNORECASE,
)
"""The start of a statement."""

_TELLS: Final = late_pattern(
    r"""\b(?:
        (?:talk(?:s|ed|ing)|chatt(?:ed|ing)|rav(?:es|ed|ing)|jok(?:es|ed|ing)|laugh(?:s|ed|ing)
        |dream(?:s|t|ed|ing)|read(?:s|ing)?|heard|learn(?:ed|t)|told|telling|spoke|gossip\w+
        |complain(?:s|ed|ing)|bragg\w+|obsessed|crazy|thinking)\b.{0,40}\b(?:about|of|with|how|that)
      | mentioned\ (?:that|how) | for\ a\ living | (?:made|makes)\ (?:me|us|every\w+)\ (?:laugh|cry)
      | remind(?:s|ed)\ \w+\ of | (?:seems?\ to\ (?:like|love)|lov(?:es|ed)|hat(?:es|ed)|ador(?:es
        |ed)
        |i\ (?:love|hate|adore)|out\ of\ fashion|fond\ of|tired\ of|fed\ up\ with|(?:big\ )?fan\ of)
      | (?:talks?|lectures?|articles?|books?|videos?|quiz|podcasts?|courses?|class(?:es)?|seminars?
        |presentations?|documentary|discussions?|nightmares?|jokes?|meetings?|exams?|something)
        \ (?:\w+\ )?(?:about|on)
      | (?:erzähl(?:t|te|ten)|rede(?:t|te|ten)|sprach(?:en)?|gesprochen|telefonier\w+|schwärm\w+
        |gelesen|gehört|berichtet\w*|diskutier\w+|gelacht|spricht)\b | (?:ge)?träum(?:t|te)
      | (?:vortrag|artikel|buch|video|podcast|vorlesung|seminar|schulung|kurs|quiz|witz|etwas)
        \ (?:über|zu[mr]?)
      | (?:parl(?:ait|aient)|a\ parlé|ont\ parlé|ne\ parle(?:nt)?\ que|racont(?:e|ait|é)|rêv(?:e|é
        |ait)
        |ai\ (?:lu|entendu)|rigol\w+|collectionn\w+)\b
      | (?:article|livre|vidéo|conférence|cours|exposé|réunions?|émission)\ (?:sur|à\ propos)
      | (?:habl(?:a|an|aba|aban|ó|aron|ando|ar)|cont(?:ó|aba)|soñ(?:é|ó|aba)|le[íi]|escuch(?:é|ó)
        |o[íi]
        |coment(?:ó|aba)|dicen?\ que|dijo\ que|mencion(?:ó|aba))\b
      | (?:artículo|libro|v[íi]deo|charla|clase|curso|conferencia|reunión|reuniones)\ (?:sobre
        |acerca)
      | les?\ (?:encantan?|gustan?|recuerdan?)\b
      | (?:fal(?:am?|avam?|aram|ou|ando)|cont(?:ou|ava)|sonh(?:ei|ou|ava)|ouvi|coment(?:ou|ava)
        |dizem?\ que|disse\ que|mencion(?:ou|ava))\b
      | (?:artigo|livro|palestra|aula|reunião|reuniões|apresentação)\ sobre
      | (?:parl(?:ava|avano|ato|ano|a\ solo)|raccont(?:a|ava|ato)|sogn(?:o|a|ato|ava)|ho\ (?:letto
        |sentito)|dice\ che|detto\ che|fissat[oa]\ con)\b
      | (?:articolo|libro|lezione|corso|conferenza|riunion[ei])\ su(?:i|l|lle|gli|lla|llo)?\b
      | (?:praat|praten|praatten|vertel(?:t|de|den)|gedroomd|droomt?|gelezen|gehoord|hoorde|ging
        |gaat
        |heeft\ het|had\ het)\b.{0,40}\b(?:over|dat|van)
      | (?:artikel|boek|lezing|les|cursus|vergadering(?:en)?|presentatie)\ over
    )\b
    | ^(?:mein|unser)e?\ \w+\ (?:findet|fand|liebt|hasst|mag)\b
    | ^(?:mon|ma|mes|notre)\ \w+\ (?:adore(?:nt)?|déteste(?:nt)?|aime(?:nt)?)\b
    | ^(?:mi|mis)\ \w+\ (?:adora|odia|ama)\b | ^(?:meu|minha)\ \w+\ (?:adora|odeia|ama|gosta)\b
    | ^(?:il\ )?(?:mio|mia)\ \w+\ (?:adora|odia|ama)\b
    | ^(?:mijn|onze?)\ \w+\ (?:vindt|vond|haat|houdt\ van)\b
    | (?:一直|整天|总是|老是|都|在)(?:聊|谈|说|讲|吐槽) | 梦到|梦见|听说|讲座|提到|说(?:他|她)以前
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Talking, reading, dreaming or liking, with a topic."""

_HAN: Final = late_pattern("[\u3400-\u9fff]")


def asks_for_something(message: str) -> bool:
    """Whether a message has a question mark or a word that asks for something."""
    return _ASKS.search(message) is not None


def is_mention(clause: str) -> bool:
    """Whether a clause of a message that asks for nothing tells that a topic came up."""
    starts = _STATEMENT.match(clause) is not None or _HAN.match(clause) is not None
    return starts and _TELLS.search(clause) is not None
