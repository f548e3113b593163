"""Choose among the tools of an intent by what a message asks to do with its object.

An intent is about an object, such as relations, and its tools do different things with it:
`openRelation`, `listRelations`, `deleteRelation`. Verbs of deleting, listing, renaming, creating
and viewing are recognized in English, German, French, Spanish, Portuguese, Italian and Dutch.
Next come tools for other objects that the message names: `undo`, `getTableColumns`. Everything
else goes to the main tool of the intent.
"""

import re
from collections.abc import Mapping
from typing import Final

from toolgate.intents.base import Intent
from toolgate.intents.patterns import late_pattern

_ASKED: Final[Mapping[str, re.Pattern[str]]] = {
    "rename": late_pattern(
        r"""\b(?: re-?nam(?:e|ing) | umbenenn\w* | benenne\b.*\bum | umzubenennen | renomm\w+
          | renombr\w+ | renome\w+ | rinomin\w+ | hernoem\w* )\b""",
        re.VERBOSE | re.IGNORECASE,
    ),
    "delete": late_pattern(
        r"""\b(?: delet(?:e|ing) | remov(?:e|ing) | drop | erase | get\ rid\ of | lösch\w*
          | gelöscht | entfern\w* | supprim\w+ | efface\w* | elimin\w+ | borr(?:a|ar|e|en) | apag\w+
          | exclu(?:a|ir) | remov(?:a|er) | cancell(?:a|are) | verwijder\w* )\b""",
        re.VERBOSE | re.IGNORECASE,
    ),
    "list": late_pattern(
        r"""^\W*(?:(?:please|(?:can|could|would|will)(?:n?['’]?t)?\ you|i\ want\ to
            |i(?:['’]d|\ would)\ like\ to|just|only|bitte|nur
            |por\ favor|puoi|kun\ je|tu\ peux|peux-tu)\s+)*
          (?: list | enumerate | liste(?:n|z)?\b | lista(?:r)? | enum[eè]r\w+ | elenca(?:re)?
            | opsommen )\b
          (?!\s+(?:of|de|da|von)\b.*\b(?:create|erstell|cré|crea|cri))
          | ^(?!.*\b(?:erstell|leg)\w*\b).*\b(?:auflisten|aufzählen)\b
          | \b(?: (?:show|give|tell|get)\ (?:me\ )?(?:all|every|the\ list\ of|a\ list\ of)\b
            | (?:which|what)\b.{1,40}\b(?:are\ there|exist|do\ (?:we|i|you)\ have|does\ .*\ have)\b
            | (?:zeig\w*|nenne)\ (?:mir\ )?alle\b | welche\b.{1,40}\b(?:gibt\ es|haben\ wir)\b
            | (?:montre|affiche)[\w-]*\ (?:moi\ )?(?:tou(?:te)?s)\b | quel(?:le)?s?\b.{1,40}
              \b(?:exist\w+|y\ a-t-il|avons-nous|on\ a)\b
            | (?:muestra|enseña)(?:me)?\ tod[ao]s\b | qu[ée]\b.{1,40}\bhay\b
            | mostr[ae](?:\-me)?\ tod[ao]s\b | quais\b.{1,40}\b(?:há|existem)\b
            | mostra(?:mi)?\ tutt[ei]\b | qual[ei]\b.{1,40}\b(?:ci\ sono|esistono|abbiamo)\b
            | toon\ (?:me\ )?alle\b | welke\b.{1,40}\b(?:zijn\ er|bestaan|hebben\ we)\b )
          | (?:列出|有哪些|哪些.{1,12}存在|所有的?.{0,8}$)""",
        re.VERBOSE | re.IGNORECASE,
    ),
}
"""Actions that messages ask for; the first that matches is used."""

_PART: Final = late_pattern(
    r"\b(?:delet(?:e|ing)|remov(?:e|ing)|drop|erase)\s+(.{1,80}?)\s+from\s+(.{1,80})", re.IGNORECASE
)
_LOOKS: Final = late_pattern(
    r"""^\W*(?:(?:please|can\ you|could\ you|i\ want\ to|i'd\ like\ to|let\ me|bitte|por\ favor)
      \s+)*
      (?: show | open | view | see | look | display | describe | list | get | find | tell
        | explain | which | what | how | where | is | are | do | does | zeig\w* | öffne\w*
        | welche\w* | was | wie | gibt | nenne\w* | montre\w* | affiche\w* | ouvre\w* | quel\w*
        | muestra\w* | abre | abrir | qué | cuál\w* | mostr\w+ | quais | qual | apri | mostra\w*
        | quali | toon | welke | wat )\b""",
    re.VERBOSE | re.IGNORECASE,
)
_CREATES: Final = late_pattern(
    r"""\b(?: creat(?:e|ing) | mak(?:e|ing) | add(?:ing)? | build | insert | set\ up | need
      | want\ a | new | set | edit | chang(?:e|ing) | connect
      | (?<!the\ )(?<!a\ )(?:link|join|update)
      | generate | register | erstell\w* | anleg\w* | lege | hinzufüg\w* | brauch\w* | änder\w*
      | neue[nrsm]? | verbind\w* | crée\w* | créer | ajout\w* | modifi\w+ | besoin | nouve\w+
      | crea\w* | añad\w+ | agreg\w+ | necesit\w+ | nuev\w+ | cri[ae]r? | adicion\w+ | preciso
      | nov[oa] | aggiung\w+ | nuov\w+ | maak | voeg | nieuwe | wijzig\w* )\b""",
    re.VERBOSE | re.IGNORECASE,
)
_GENERAL: Final = frozenset({"info"})
"""Words in names of tools that messages leave out."""

_LOOK_VERBS: Final = frozenset(
    {"get", "list", "find", "search", "show", "query", "read", "view", "describe", "discover"}
)

_TOOL_VERBS: Final[Mapping[str, frozenset[str]]] = {
    "rename": frozenset({"rename"}),
    "delete": frozenset({"delete", "remove", "drop", "erase"}),
    "list": frozenset({"list", "find", "search", "enumerate"}),
}
_CREATES_OR_SHOWS: Final = frozenset(
    {"add", "create", "find", "get", "list", "make", "new", "open", "read", "show", "view"}
)
"""Verbs of tools that neither delete nor rename; others, such as "manage", may do everything."""
_DISPLAYS: Final = late_pattern(
    r"""^\W*(?:(?:please|(?:can|could|would|will)\ you|i\ want\ to|i['’]d\ like\ to|let\ me|bitte
        |por\ favor)\s+)*
      (?: show | view | see | display | list | which | how\ many | what\ (?:are|were)
        | zeig\w* | welche\w* | wie\ viele | montre\w* | affiche\w* | quel\w* | combien
        | mu[eé]stra\w* | cu[aá]\w+ | mostr[ae]\w* | quais | quant[oaie]s? | quali | toon | welke
        | hoeveel )\b""",
    re.VERBOSE | re.IGNORECASE,
)
"""The start of a message that asks to see what there is; narrower than `_LOOKS`."""
_MAY_SHOW: Final = _LOOK_VERBS | _CREATES_OR_SHOWS
"""Verbs of main tools that a message that asks to see something may well mean."""
_ALL: Final = late_pattern(
    r"\b(?:all|every|alle[ns]?|tou(?:te)?s|tod[ao]s|tutt[ei])\b", re.IGNORECASE
)
_SAID: Final = late_pattern(r"\w+")
_WORDS: Final = late_pattern(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def tool_for_message(intent: Intent, text: str, english: str = "") -> str | None:
    """Return the tool of an intent that does what a message asks for.

    Without a verb for another tool, that is the main tool; without a main tool, the tool whose
    verb and object are named. None: none of its tools does what is asked for.

    Args:
        intent: The intent of the message.
        text: The message.
        english: Its words in English, if it is in another language: names of tools are English.
    """
    if not intent.tool:
        return _tool_by_its_words(intent, text, english)
    if len(intent.tools) < 2:
        return intent.tool
    asked = next((kind for kind, verbs in _ASKED.items() if verbs.search(text)), "")
    # `remove Pending from the list`: a part of the object is removed, not the object.
    main_verb, *objects = _words(intent.tool)
    if asked == "delete" and _removes_a_part(text, objects):
        asked = ""
    verbs = _TOOL_VERBS.get(asked, frozenset())
    if (named := _named_tool(intent, text, english, objects)) is not None:
        return named
    can_write = any(spec.writes for spec in intent.arguments)
    if intent.arguments and not can_write and not asked and _CREATES.search(text):
        return None if main_verb in _CREATES_OR_SHOWS else intent.tool
    if not asked and main_verb not in _MAY_SHOW and _DISPLAYS.search(text) and only_looks(text):
        return _showing_tool(intent, objects) or intent.tool
    if not asked or not objects or main_verb in verbs:
        return intent.tool
    fitting = [
        tool for tool in intent.tools if _words(tool)[:1] and _is_about(tool, verbs, objects)
    ]
    if not fitting:
        is_other = asked != "list" and main_verb in _CREATES_OR_SHOWS
        return None if is_other else intent.tool
    if _ALL.search(text):
        return next((tool for tool in fitting if tool.endswith("s")), fitting[0])
    return fitting[0]


def _removes_a_part(text: str, objects: list[str]) -> bool:
    match = _PART.search(text)
    if match is None or not objects:
        return False
    part, whole = match[1].lower(), match[2].lower()
    return objects[-1] in whole and objects[-1] not in part


def _showing_tool(intent: Intent, objects: list[str]) -> str | None:
    """Return the tool that shows what the main tool changes: `list_refunds` for `give_refund`."""
    return next((tool for tool in intent.tools if _is_about(tool, _LOOK_VERBS, objects)), None)


def _tool_by_its_words(intent: Intent, text: str, english: str) -> str | None:
    """Return the tool of an intent without a main tool whose verb and object a message names."""
    asked = next((kind for kind, verbs in _ASKED.items() if verbs.search(text)), "")
    said = {_stem(word) for word in (*_said(english), *_said(text))}
    for tool in intent.tools:
        verb, *objects = _words(tool)
        is_asked = verb in _TOOL_VERBS[asked] if asked else _stem(verb) in said
        if is_asked and {_stem(noun) for noun in objects} <= said:
            return tool
    return None


def only_looks(text: str) -> bool:
    """Whether a message asks to see something, and no part of it asks for a change."""
    return bool(_LOOKS.search(text)) and not _CREATES.search(text)


def _named_tool(intent: Intent, text: str, english: str, objects: list[str]) -> str | None:
    """Return the tool for another object than the intent's that a message names.

    If the message names the object of the intent too, only tools for a part of it count, which
    comes first: "which buttons are on the form orders". A tool with arguments of its own in the
    intent is one.
    """
    own_words = _said(text)
    words = [*_said(english), *own_words]
    plural = {_stem(word) for word in own_words if word.endswith("s")}
    singular = {*own_words} - plural
    at = {_stem(word): at for at, word in reversed([*enumerate(words)])}
    object_at = [at[stem] for noun in objects if (stem := _stem(noun)) in at]
    for_parts = {tool for spec in intent.arguments for tool in spec.tools}
    best: tuple[int, str] | None = None
    for tool in intent.tools:
        verb, *nouns = _words(tool)
        nouns = [noun for noun in nouns if noun not in _GENERAL] or nouns
        is_look = verb in _LOOK_VERBS
        stems = {_stem(word) for word in (nouns if nouns and is_look else [verb, *nouns])}
        if not stems <= at.keys() or tool == intent.tool or (is_look and not only_looks(text)):
            continue
        # `listTables` is for `which tables`, not for the content of one table. A translation does
        # not tell which of them is meant.
        if verb == "list" and stems & singular:
            continue
        if object_at and (tool not in for_parts or min(at[s] for s in stems) >= min(object_at)):
            continue
        if best is None or len(stems) > best[0]:
            best = (len(stems), tool)
    return best[1] if best else None


def _said(text: str) -> list[str]:
    return _SAID.findall(text.lower())


def _stem(word: str) -> str:
    return word.removesuffix("s")


def _is_about(tool: str, verbs: frozenset[str], objects: list[str]) -> bool:
    verb, *nouns = _words(tool)
    return verb in verbs and [noun.removesuffix("s") for noun in nouns] == [
        noun.removesuffix("s") for noun in objects
    ]


def _words(tool: str) -> list[str]:
    """Return the words of a tool's name: `deleteRelations` and `delete_relations` give two."""
    return [word.lower() for word in _WORDS.findall(tool)]
