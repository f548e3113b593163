"""Finds the tools of an intent that no example prompt asks for.

A prompt asks for a tool if it contains the first word of the tool's name, or a synonym of it,
and another word of the name: "drop the orders relation" asks for `deleteRelation`. Words that
are in the names of all tools of the intent do not count; a tool with no other words is not
checked.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

_SPLIT: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_WORD: Final = re.compile(r"[^\W\d_]+")

_ALSO: Final[Mapping[str, str]] = {
    "open": "opens show view display edit see look inspect create make add new build need insert"
    " want define connect generate öffne öffnen zeige erstelle abre abrir crea muestra ouvre",
    "create add new make build insert register": "creates makes adds build need insert generate"
    " define set start raise book place open new want erstelle anlegen neu neue lege crea crear"
    " nuevo nueva créer crée nouveau",
    "delete remove drop clear": "remove drop erase destroy clear kill scrap discard trash bin rid"
    " delete lösche löschen entferne borra borrar elimina eliminar supprime supprimer enlève",
    "list": "show view display see all every overview which what exist have inventory liste zeige"
    " alle welche lista listar muestra cuáles todas affiche montre quelles toutes",
    "get show read fetch view describe display": "get show give tell see what which how when fetch"
    " read retrieve look find display info detail describe list view where status zeige gib dame"
    " muestra donne montre",
    "find search discover lookup": "find search look discover detect suggest identify where which"
    " guess recommend any possible potential propose suche finde busca cherche trouve",
    "query": "query ask check look inspect explore show what which list describe read examine",
    "update change edit modify": "update change edit modify alter adjust correct fix set replace"
    " ändere ändern cambia cambiar modifica changer modifier",
    "set switch select": "set switch change use select choose pick activate go move",
    "rename": "rename call name retitle umbenennen renombra renombrar renomme",
    "undo revert restore": "undo revert back restore rollback reverse oops rückgängig annule",
    "cancel stop": "cancel stop abort revoke withdraw call storniere cancela annule",
    "send": "send mail post deliver forward",
    "count": "count many number total",
    "export": "export download save dump",
    "import": "import load upload",
    "run start execute": "run start execute launch do perform",
}
"""First words of tool names, with the words that people use for them."""


def tools_without_prompts(tools: Sequence[str], prompts: Sequence[str]) -> Iterator[str]:
    """Yield the tools that no prompt asks for, in their order."""
    names = {tool: _words_of(tool) for tool in tools}
    sets = [frozenset(words) for words in names.values()]
    shared = frozenset[str]().union(*sets[:1]).intersection(*sets)
    prompt_words = [
        frozenset(_stem(word) for word in _WORD.findall(text.casefold())) for text in prompts
    ]
    for tool, words in names.items():
        distinctive = [word for word in words if word not in shared]
        if distinctive and not any(_asks(stems, distinctive) for stems in prompt_words):
            yield tool


def example(tool: str) -> str:
    """Return how a prompt for a tool could start."""
    words = _SPLIT.findall(tool.rpartition(":")[2])
    return repr(f"{' '.join(words).lower()} ...")


def _asks(prompt_words: frozenset[str], words: Sequence[str]) -> bool:
    first, *rest = words
    meant = _MEANT.get(first)
    if meant is None:
        return bool(prompt_words.intersection(words))
    return bool(prompt_words & meant) and (not rest or bool(prompt_words.intersection(rest)))


def _words_of(tool: str) -> tuple[str, ...]:
    return tuple(_stem(word) for word in _SPLIT.findall(tool.rpartition(":")[2]))


def _stem(word: str) -> str:
    """Remove plural endings."""
    word = word.casefold()
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        return word[:-1]
    return word


_MEANT: Final = {
    _stem(first): frozenset(map(_stem, (first, *words.split())))
    for names, words in _ALSO.items()
    for first in names.split()
}
