"""Finds the table or type with a name, regardless of case, number and spelling."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Final

from toolgate.databases.connections import NamedType, Schema, TableSchema, singular, words_of

_MOST_NEAR: Final = 5
"""Names that are suggested (chosen: readable on one line)."""


@dataclass(frozen=True, kw_only=True)
class TypeMatches:
    """The types that a name may refer to."""

    matches: tuple[TableSchema | NamedType, ...] = ()
    """The best matches: one, or several that match equally well."""

    near: tuple[str, ...] = ()
    """Similar names if nothing matches."""


def find_types(schema: Schema, name: str) -> TypeMatches:
    """Find the tables, views and types that a name refers to.

    In order of precedence: exact matches, other case, other separators, singular or plural, and
    a part of the name. `*` matches any text.
    """
    everything: tuple[TableSchema | NamedType, ...] = (*schema.tables, *schema.types)
    name = name.strip().strip("\"'`").strip()
    if "*" in name:
        pattern = name.casefold()
        return TypeMatches(
            matches=tuple(
                candidate
                for candidate in everything
                if fnmatchcase(candidate.name.casefold(), pattern)
            )
        )
    for form in _FORMS:
        key = form(name)
        if not key:
            continue
        matches = [candidate for candidate in everything if form(candidate.name) == key]
        if "." not in name:  # without a schema, match the name in any schema
            matches = matches or [
                candidate
                for candidate in everything
                if form(candidate.name.rpartition(".")[2]) == key
            ]
        if matches:
            return TypeMatches(matches=tuple(matches))
    words = set(_words(name))
    parts = [
        candidate for candidate in everything if words and words <= set(_words(candidate.name))
    ]
    if parts:
        return TypeMatches(matches=tuple(parts))
    names = {_joined(candidate.name): candidate.name for candidate in everything}
    close = get_close_matches(_joined(name), names, n=_MOST_NEAR, cutoff=0.6)
    return TypeMatches(near=tuple(names[joined] for joined in close))


def _words(name: str) -> list[str]:
    """Split a name into words, in the singular."""
    return [singular(word) for word in words_of(name)]


def _joined(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold())


def _in_singular(name: str) -> str:
    return "".join(_words(name))


_FORMS: Final[tuple[Callable[[str], str], ...]] = (str, str.casefold, _joined, _in_singular)
