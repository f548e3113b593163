"""Protects files of a pack against changes by tools of other servers."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, cast

from toolgate.security.guards import PathReadings, TooManyReadingsError, unpacked
from toolgate.types import Json, json_object

_CHANGES: Final = frozenset(
    [
        *("add", "append", "apply", "change", "copy", "create", "cut", "delete", "edit"),
        *("erase", "insert", "modify", "move", "multiedit", "overwrite", "patch", "put"),
        *("remove", "rename", "replace", "rewrite", "rm", "save", "set", "store", "str"),
        *("truncate", "unlink", "update", "upload", "write"),
    ]
)
"""Words in the names of tools that change files."""

_PATH_ARGUMENT: Final = re.compile(
    r"path|file|uri|source|dest|target|from$|to$|^name$", re.IGNORECASE
)
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_MAX_PATH_CHARS: Final = 2**18
"""Characters (chosen: 64 times the longest path of Linux, PATH_MAX)."""
_MAX_DEPTH: Final = 6
"""Levels of the arguments (chosen: deeper values are data)."""


@dataclass(frozen=True, kw_only=True)
class Protection:
    """The files that only the tools of one pack may change."""

    pack: str
    """The name of the pack, which is also the name of its server."""

    suffixes: tuple[str, ...]
    """Suffixes of the file names, in lower case: `.rel`."""

    hint: str = ""
    """What to use instead."""


class Protections:
    """The protected files of all packs, replaceable at any time."""

    def __init__(self) -> None:
        """Start without protections."""
        self._protections: tuple[Protection, ...] = ()
        self.is_empty = True
        """Whether no file is protected."""

    def take(self, protections: Iterable[Protection]) -> None:
        """Replace the protections."""
        self._protections = tuple(protection for protection in protections if protection.suffixes)
        self.is_empty = not self._protections

    def refusal(
        self,
        server: str,
        tool: str,
        arguments: object,
        *,
        read_only: bool,
        folder: str | None = None,
    ) -> str:
        """Why a call is refused; empty if it is allowed.

        Args:
            server: The server of the tool; the pack's own tools are never refused.
            tool: Its name on that server; the words in it tell whether it changes files.
            arguments: The arguments; those whose names suggest paths are checked.
            read_only: Whether the tool is annotated as read-only.
            folder: The working folder of the server, if it shares the gateway's file system;
                symbolic links are followed then.
        """
        protections = [item for item in self._protections if item.pack != server]
        if not protections or read_only or not _changes(tool):
            return ""
        readings = PathReadings((), folder)
        try:
            inner, _ = unpacked(json_object(arguments))
        except RecursionError:
            return "The arguments contain JSON that is nested too deeply to be checked."
        for path in _paths(inner, "", 0):
            try:
                names = [name.rstrip("/").lower() for name in (path, *readings.all(path))]
            except TooManyReadingsError:
                return f"{path[:100]} is encoded too often to tell what file it is."
            for protection in protections:
                if any(name.endswith(protection.suffixes) for name in names):
                    return (
                        f"{path} is not changed as text: its kind of file belongs to the pack "
                        f"{protection.pack!r}. {protection.hint}"
                    ).rstrip()
        return ""


def _changes(tool: str) -> bool:
    return any(word.lower() in _CHANGES for word in _WORDS.findall(tool))


def _paths(value: object, key: str, depth: int) -> Iterator[str]:
    """The strings in arguments that may be paths."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, dict):
        for name, inner in cast("Json", value).items():
            yield from _paths(inner, name, depth + 1)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _paths(inner, key, depth + 1)
    elif isinstance(value, str) and len(value) <= _MAX_PATH_CHARS and _PATH_ARGUMENT.search(key):
        yield value.split("?", 1)[0].strip()
