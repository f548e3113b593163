"""Renamed keys: the old name works for a while, with a warning."""

from dataclasses import dataclass
from typing import cast

from toolgate.settings.config_file import (
    ConfigDocument,
)
from toolgate.settings.table_reader import dotted
from toolgate.types import Json


@dataclass(frozen=True, kw_only=True)
class RenamedKey:
    """A renamed key; the old name works for one minor version, with a warning."""

    old: tuple[str, ...]
    """Path of the old name; `*` matches any name."""

    new: str
    """New name of the last part."""

    until: str
    """The first version in which the old name no longer works."""

    table: tuple[str, ...] | None = None
    """The table to which the key moved, `()` for the top of the file; None if it did not move."""

    def new_path(self, old: tuple[str, ...]) -> tuple[str, ...]:
        """Return the new path of a key that was found under its old name."""
        return (*(old[:-1] if self.table is None else self.table), self.new)


RENAMED: tuple[RenamedKey, ...] = (
    RenamedKey(old=("search", "strategy"), new="optimization", table=(), until="0.2.0"),
)
"""All renamed keys whose old names still work."""


def matches(table: object, pattern: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the paths in a table that match a pattern with `*`."""
    if not isinstance(table, dict) or not pattern:
        return []
    paths: list[tuple[str, ...]] = []
    for name, value in cast("Json", table).items():
        if pattern[0] in {"*", name}:
            paths += [(name,)] if len(pattern) == 1 else []
            paths += [(name, *rest) for rest in matches(value, pattern[1:])]
    return paths


def with_new_names(document: ConfigDocument, notices: list[str]) -> Json:
    """Return the root with renamed keys under their new names."""
    root = document.root
    for renamed in RENAMED:
        for path in list(matches(root, renamed.old)):
            new_path = renamed.new_path(path)
            name = renamed.new if renamed.table is None else dotted(new_path)
            parent = root
            for part in new_path[:-1]:
                parent = parent[part]
            if renamed.new in parent:
                raise document.error(
                    path,
                    f"{dotted(path)} is the old name of {name!r}, and both are there.",
                    hint="Remove the old one.",
                )
            before = root
            for part in path[:-1]:
                before = before[part]
            parent[renamed.new] = before.pop(path[-1])
            where = " at the top of the file" if len(new_path) == 1 < len(path) else ""
            notices.append(
                f"{document.location(path)}: {dotted(path)} is called {name!r} now{where}; the old "
                f"name works until {renamed.until}. Run: toolgate config migrate"
            )
    return root
