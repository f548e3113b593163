"""Chooses among the tools of an intent by what a message asks to do with its object.

An intent is about an object, such as relations, and its tools do different things with it:
`openRelation`, `listRelations`, `deleteRelation`. Verbs of deleting, listing and renaming are told
apart in English, German, French, Spanish, Portuguese, Italian and Dutch; everything else is what
the main tool of the intent is for.
"""

import re
from collections.abc import Mapping
from typing import Final

from toolgate.intents.base import Intent

__all__ = ["tool_for_message"]

_ASKED: Final[Mapping[str, re.Pattern[str]]] = {
    "rename": re.compile(
        r"""\b(?: re-?nam(?:e|ing) | umbenenn\w* | benenne\b.*\bum | umzubenennen | renomm\w+
          | renombr\w+ | renome\w+ | rinomin\w+ | hernoem\w* )\b""",
        re.VERBOSE | re.IGNORECASE,
    ),
    "delete": re.compile(
        r"""\b(?: delet(?:e|ing) | remov(?:e|ing) | drop | erase | get\ rid\ of | lösch\w*
          | gelöscht | entfern\w* | supprim\w+ | efface\w* | elimin\w+ | borr(?:a|ar|e|en) | apag\w+
          | exclu(?:a|ir) | remov(?:a|er) | cancell(?:a|are) | verwijder\w* )\b""",
        re.VERBOSE | re.IGNORECASE,
    ),
    "list": re.compile(
        r"""^\W*(?:(?:please|can\ you|could\ you|bitte|por\ favor)\s+)?
          (?: list | enumerate | liste(?:n|z)?\b | lista(?:r)? | auflisten | enum[eè]r\w+ )\b
          (?!\s+(?:of|de|da|von)\b.*\b(?:create|erstell|cré|crea|cri))
          | \b(?: (?:show|give|tell|get)\ (?:me\ )?(?:all|every|the\ list\ of|a\ list\ of)\b
            | (?:which|what)\b.{1,40}\b(?:are\ there|exist|do\ (?:we|i|you)\ have|does\ .*\ have)\b
            | (?:zeig\w*|nenne)\ (?:mir\ )?alle\b | welche\b.{1,40}\bgibt\ es\b
            | (?:montre|affiche)[\w-]*\ (?:moi\ )?(?:tou(?:te)?s)\b | quelles?\b.{1,40}\bexist\w+
            | (?:muestra|enseña)(?:me)?\ tod[ao]s\b | qu[ée]\b.{1,40}\bhay\b
            | mostr[ae](?:\-me)?\ tod[ao]s\b | quais\b.{1,40}\b(?:há|existem)\b
            | mostra(?:mi)?\ tutt[ei]\b | toon\ (?:me\ )?alle\b )""",
        re.VERBOSE | re.IGNORECASE,
    ),
}
"""What messages ask for; the first that matches counts."""

_TOOL_VERBS: Final[Mapping[str, frozenset[str]]] = {
    "rename": frozenset({"rename"}),
    "delete": frozenset({"delete", "remove", "drop", "erase"}),
    "list": frozenset({"list", "find", "search", "enumerate"}),
}
_CREATES_OR_SHOWS: Final = frozenset(
    {"add", "create", "find", "get", "list", "make", "new", "open", "read", "show", "view"}
)
"""Verbs of tools that neither delete nor rename; others, such as "manage", may do everything."""
_ALL: Final = re.compile(
    r"\b(?:all|every|alle[ns]?|tou(?:te)?s|tod[ao]s|tutt[ei])\b", re.IGNORECASE
)
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def tool_for_message(intent: Intent, text: str) -> str | None:
    """The tool of an intent that does what a message asks for.

    Without a verb that says something else it is the main tool. None: the intent has no tool, or
    what is asked for needs another one than it has.
    """
    if not intent.tool or len(intent.tools) < 2:
        return intent.tool or None
    asked = next((kind for kind, verbs in _ASKED.items() if verbs.search(text)), "")
    verbs = _TOOL_VERBS.get(asked, frozenset())
    main_verb, *objects = _words(intent.tool)
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


def _is_about(tool: str, verbs: frozenset[str], objects: list[str]) -> bool:
    verb, *nouns = _words(tool)
    return verb in verbs and [noun.removesuffix("s") for noun in nouns] == [
        noun.removesuffix("s") for noun in objects
    ]


def _words(tool: str) -> list[str]:
    """The words of a tool's name: `deleteRelations` and `delete_relations` give two."""
    return [word.lower() for word in _WORDS.findall(tool)]
