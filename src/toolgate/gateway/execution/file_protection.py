"""Protects files of a pack against changes by tools of other servers."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, cast

from toolgate.types import Json

__all__ = ["Protection", "Protections"]

_CHANGES: Final = frozenset(
    [
        *("add", "append", "apply", "change", "copy", "create", "cut", "delete", "edit"),
        *("erase", "insert", "modify", "move", "multiedit", "overwrite", "patch", "put"),
        *("remove", "rename", "replace", "rewrite", "rm", "save", "set", "store", "str"),
        *("truncate", "unlink", "update", "upload", "write"),
    ]
)
"""Words in the names of tools that change files."""

_PLACE: Final = re.compile(r"path|file|uri|source|dest|target|from$|to$|^name$", re.IGNORECASE)
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LONGEST: Final = 4_096
_DEEPEST: Final = 6


@dataclass(frozen=True, kw_only=True)
class Protection:
    """What one pack keeps for its own tools."""

    pack: str
    """Its name, which is that of its server too."""

    suffixes: tuple[str, ...]
    """How names of the files end, in lower case: `.rel`."""

    hint: str = ""
    """What to use instead."""


class Protections:
    """What all packs keep for their own tools; can be exchanged as a whole at any time."""

    def __init__(self) -> None:
        """Protect nothing yet."""
        self._kept: tuple[Protection, ...] = ()

    def take(self, protections: Iterable[Protection]) -> None:
        """Go by these from now on."""
        self._kept = tuple(each for each in protections if each.suffixes)

    def refusal(self, server: str, tool: str, arguments: object, *, read_only: bool) -> str:
        """Why a call must not be made; empty where it may.

        Args:
            server: Whose tool it is; tools of the pack itself may all.
            tool: Its own name; what it does to files is told by its words.
            arguments: Of the call; files are looked for where paths are expected.
            read_only: Whether the tool is marked so.
        """
        if not self._kept or read_only or not _changes(tool):
            return ""
        for place in _places(arguments, "", 0):
            for kept in self._kept:
                if kept.pack != server and place.lower().endswith(kept.suffixes):
                    return (
                        f"{place} is not changed as text: its kind of file belongs to the pack "
                        f"{kept.pack!r}. {kept.hint}"
                    ).rstrip()
        return ""


def _changes(tool: str) -> bool:
    return any(word.lower() in _CHANGES for word in _WORDS.findall(tool))


def _places(value: object, key: str, depth: int) -> Iterator[str]:
    """The texts of arguments that may be paths."""
    if depth > _DEEPEST:
        return
    if isinstance(value, dict):
        for name, inner in cast("Json", value).items():
            yield from _places(inner, name, depth + 1)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _places(inner, key, depth + 1)
    elif isinstance(value, str) and len(value) <= _LONGEST and _PLACE.search(key):
        yield value.split("?", 1)[0].strip()
