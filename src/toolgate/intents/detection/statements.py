"""Recognize clauses that report what happened or give an opinion, and ask for nothing.

"FYI the form was deleted by Tom", "I already listed the value lists" and "the relations are a
mess" have the words of a request, but are remarks. A clause counts as such if it starts like a
statement and has a verb in the past or a judgement. Rules for English, German, French, Spanish,
Portuguese, Italian, Dutch and Chinese.
"""

import re
from typing import Final

from toolgate.intents.patterns import late_pattern

_OPENING: Final = r"""^(?:(?:fyi|btw|haha|lol|funny|so|well|oh|ok|okay|yes|yeah|no|and|but
  |apparently
      |just\ so\ you\ know|by\ the\ way|ja|nein|also|übrigens|nur\ zur\ info|tja|oui|non|bon
      |au\ fait
      |sí|bueno|por\ cierto|sim|bom|aliás|sì|beh|tra\ l['’]altro|nee|trouwens)[\s,:]++)*"""

_PAST: Final = late_pattern(
    _OPENING
    + r"""(?:
        (?:i|we|he|she|they|it|someone|somebody|everyone|everybody|nobody)\ (?:(?:just|already|only
          |once|finally|never|really|even|always|both|all)\ )*
        (?:was|were|had|got|did|went|made|took|came|said|told|broke|spent|gave|saw|wrote|built|kept
          |lost|won|thought|felt|left|began|ran|met|read|sent|(?!need)\w+ed)\b
      | (?:the|a|an|my|our|his|her|their|this|that|these|those)\ (?:[\w-]+\ ){1,4}
        (?:(?:just|already|once|finally|never|really|even)\ )*
        (?:was|were|got|had|did|went|made|took|came|said|told|asked|broke|spent|gave|kept|ran|changed
          |failed|crashed|died|worked|looked|renamed|deleted|removed|added|ruined|turned)\b
      | (?:there|here)\ (?:was|were)\b
      | (?:last|yesterday|this)(?:['’]s)?\ (?:[\w-]+\ ){0,8}(?:was|were|went|felt|made|got|took)\b
      | (?!(?:when|what|who|which|where|how|why|if|whether)\b)[\w-]+\ (?:(?:was|were)\ (?:my|our|his
          |her|their|\w+['’]s|fun|great|hard|easy|boring|awful|terrible|horrible|a)
        |says?|said|told|thinks?|thought|hopes?|hoped|keeps?\ \w+ing)\b
      | (?:i|we)\ (?:have|['’]ve)\ (?:already|just|finally|never|now|been)\b
      | (?:i|we|you)(?:\ have|['’]ve)\ (?:\w+ed|done|made|seen|found|written|got|had)\b
      | i\ (?:keep|hope|guess|suppose|wonder\ if)\b | hope\ (?:the|that|it|this)\b

      | (?:ich|er|sie|es|man|wir|jemand|keiner|niemand|mein\w*|unser\w*|sein\w*|ihr\w*|der|die|das
        |den
          |dem|ein\w*|gestern|heute|neulich|letzte\w*|vorhin|früher|damals|im|in|beim|am|nach)\b
        .{0,60}?\b(?:hat|habe|haben|hatten?|wurden?|ist|sind|bin)\b.{0,80}?\b
        (?:\w*ge\w{2,}(?:t|en)|(?:ver|be|er|ent|zer)\w{3,}(?:t|en)|\w{3,}iert)$
      | (?:der|die|das|es|mein\w*|unser\w*|gestern|heute|letzte\w*|früher)\b
        .{0,50}\b(?:war|waren|hatten?|gab|fand|ging|machte)\b

      | (?:j['’]|je\ l['’]|on\ |nous\ |il\ |elle\ |ils\ |elles\ |(?:le|la|les|mon|ma|mes|notre|nos
        |un|une
          |hier|ce\ matin)\b.{1,50}\b)(?:nous\ |vous\ |l['’])?
        (?:ai|as|a|avons|avez|ont|avai(?:t|ent|s)|étai(?:t|ent|s)|est\ en\ train|viens|vient)\b
        (?:\ (?:déjà|encore|enfin|tout|bien|juste|de))*\ \w+

      | (?:ya\ |ayer\ |hoy\ |anoche\ |(?:el|la|los|las|mi|mis|nuestr[oa]s?|un|una)\b.{1,50}\b|me\
        |se\ |nos\ )?
        (?:he|ha|hemos|han|había|habían|fue|fueron|era|eran|estuv\w+|estaban?|acab(?:o|a|amos|é
          |ó)\ de)
        \ \w+
      | (?:já|ontem|hoje|(?:o(?!\ que\b)|a|os|as|meu|minha|nosso|nossa|um|uma)\b.{1,50}\b)\ ?
        (?:foi|foram|era|eram|estavam?|tinham?|acab(?:ei|ou|amos)\ de|\w{3,}(?:ou|aram|ei))\b
      | (?:ieri|oggi|(?:il|lo|la|i|gli|le|mio|mia|nostr[oa]|un|una)\b.{1,50}\b)\ ?
        (?:ha|hanno|aveva|avevano|era|erano|è\ stat[oa]|sono\ stat[ie])\b
      | (?:ho|abbiamo)\ (?:già\ |appena\ |finalmente\ )?\w+(?:to|so)\b
      | (?:ik|we|wij|hij|zij|ze|iemand|men|mijn|onze?|de|het|een|gisteren|vandaag|vorige|laatst)\b
        .{0,60}?\b(?:heb|heeft|hebben|had|hadden|is|zijn|ben|werd|werden)\b.{0,80}?\b
        (?:ge\w{2,}(?:d|t|en)|\w+ge\w{3,}(?:d|t|en)|(?:ver|be|her|ont)\w{3,}(?:d|t|en))$
      | (?:de|het|mijn|onze?|gisteren|vroeger)\b.{0,50}\b(?:was|waren|ging|vond)\b

      | (?:我|我们|他|她|他们|同事|老板|客户|昨天|上周|刚才|今天早上|之前)
        [^想要查显示列]*(?:了|过)[^吗呢]*$
    )""",
    re.VERBOSE | re.IGNORECASE,
)
"""A statement with a verb in the past."""

_JUDGED: Final = late_pattern(
    _OPENING
    + r"""(?:[\w'’-]+\ ){1,7}?
    (?: (?:is|are|['’]s|['’]re|was|were|look|looks|seems?|sounds?|feels?)
        \ (?:(?:such|so|too|very|really|quite|pretty|just|still|always|a|an|the|my|our|absolutely
          |totally|not|never|kind\ of|worst|best|real|total)\ )*
        (?:mess|nightmare|pain|fun|boring|great|hard|easy|nice|ugly|cool|tricky|annoying|beautiful
          |terrible|awful|horrible|confusing|difficult|overrated|useless|useful|important|hobby
          |favou?rites?|job|life|tired|bored|glad|happy|sad|proud|sick|amazing|wonderful|pretty
          |good|bad|interesting|stupid|silly|lovely|complicated|challenge|disaster|joke|dream)\b
      | (?:ist|sind|war|waren)\ (?:(?:so|sehr|zu|echt|wirklich|ziemlich|ein|eine|das|der|die|mein
        |total
          |richtig|immer|nicht)\ )*
        (?:chaos|albtraum|spaß|langweilig|toll|schwer|einfach|schön|hässlich|nervig|schrecklich
          |furchtbar|verwirrend|schwierig|nützlich|wichtig|müde|froh|traurig|stolz|gut|schlecht
          |kompliziert|katastrophe|super)$
      | (?:est|sont|était|étaient)\ (?:(?:si|très|trop|vraiment|assez|un|une|le|la|mon|ma
        |toujours)\ )*
        (?:cauchemar|galère|bazar|ennuyeu\w+|géni\w+|super|facile|difficile|be(?:au|lle)|laide?
          |pénible|horrible|terrible|utile|inutile|important\w*|compliqué\w*|fatigué\w*
          |catastrophe)s?$
      | (?:es|son|está|están|era|eran)\ (?:(?:tan|muy|demasiado|un|una|el|la|mi|siempre)\ )*
        (?:desastre|lío|pesadilla|aburrid\w+|genial\w*|fácil\w*|difícil\w*|bonit\w+|fe[oa]s?
          |horribles?
          |útil\w*|inútil\w*|importantes?|complicad\w+|cansad\w+)$
      | (?:é|são|está|estão|era|eram)\ (?:(?:tão|muito|um|uma|o|a|meu|minha|sempre)\ )*
        (?:desastre|bagunça|pesadelo|chat[oa]s?|ótim\w+|fácil|fáceis|difícil|difíceis|bonit\w+
          |fei[oa]s?
          |horríve\w+|úte?i[sl]|importantes?|complicad\w+|cansad\w+)$
      | (?:è|sono|era|erano)\ (?:(?:così|molto|troppo|un|una|il|la|mio|mia|sempre)\ )*
        (?:disastro|casino|incubo|noios\w+|fantastic\w+|facil[ei]|difficil[ei]|bell\w+|brutt\w+
          |orribil[ei]|util[ei]|inutil[ei]|important[ei]|complicat\w+|stanc\w+)$
      | (?:is|zijn|was|waren)\ (?:(?:zo|erg|heel|te|een|de|het|mijn|altijd)\ )*
        (?:ramp|puinhoop|nachtmerrie|saai|geweldig|moeilijk|makkelijk|mooi|lelijk|vervelend
          |vreselijk
          |handig|nuttig|belangrijk|ingewikkeld|moe|leuk|lastig)e?$
    )""",
    re.VERBOSE | re.IGNORECASE,
)
"""A statement that judges something."""

_QUESTION: Final = late_pattern(
    r"""\b(?:what|which|who|whose|when|where|why|how|whether
      | (?:^|[,:]\ )was\b(?!\ (?:a|the))|welche\w*|wer|wem|wann|wo|warum|wieso|wie|ob|wieviele?
      | quel(?:le)?s?|qui|quand|où|pourquoi|comment|combien|quoi
      | qué|cuál\w*|quién\w*|cuándo|dónde|cuánt\w+|cómo
      | qual|quais|quem|quando|onde|quant[oaie]s?|como
      | quali|chi|dove|perché|cosa
      | welke?|wanneer|waar|waarom|hoeveel|hoe
      | fix|rename|undo|find|give|tell|check|link|connect|put|set|instead|missing|lacks?|wrong
      | fehlt|fehlen|manque|falta|manca|ontbreekt
    )\b | [什哪谁几怎多何缺]""",
    re.VERBOSE | re.IGNORECASE,
)
"""Words of questions, of instructions and of defects: a clause with one of them may ask."""


def is_remark(clause: str) -> bool:
    """Whether a clause of a message that asks for nothing reports or judges something."""
    if _QUESTION.search(clause) is not None:
        return False
    return _PAST.match(clause) is not None or _JUDGED.match(clause) is not None
