"""JSON with comments and trailing commas, which become spaces so that positions stay correct."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from toolgate.types import Json

_SPACES = " \t\r\n"

_DECODER = json.JSONDecoder()

_NOT_BREAK = re.compile(r"[^\r\n]")

_TOKEN = re.compile(
    r"""
    "(?:[^"\\\r\n]|\\.)*"?      # a string, closed or cut off by the end of its line
    | //[^\r\n]*                 # a comment to the end of the line
    | /\*.*?\*/                  # a comment between marks
    | [,\]}]
    | [^\s,\]}"/]+
    | /
    """,
    re.VERBOSE | re.DOTALL,
)


class Repeated(dict[str, Any]):
    """An object with duplicate names; the last one counts, as in every JSON parser."""

    names: tuple[str, ...] = ()
    """The duplicate names."""


class TextSpan(NamedTuple):
    """Position of a value in a text."""

    key_start: int
    """Index of the opening quote of its name; in arrays, of the value itself."""

    start: int
    """Index of its first character."""

    end: int
    """Index after its last character."""


def plain(text: str) -> str:
    """Replace comments and trailing commas with spaces; length and lines do not change."""
    blanks: list[tuple[int, int]] = []
    comma = -1
    for token in _TOKEN.finditer(text):
        word = token[0]
        if word.startswith(("//", "/*")):
            blanks.append(token.span())
        elif word == ",":
            comma = token.start()
        else:
            if word in {"]", "}"} and comma >= 0:
                blanks.append((comma, comma + 1))
            comma = -1
    parts: list[str] = []
    copied = 0
    for start, end in sorted(blanks):
        parts += text[copied:start], _NOT_BREAK.sub(" ", text[start:end])
        copied = end
    parts.append(text[copied:])
    return "".join(parts)


def parse(text: str) -> object:
    """Parse a text with comments and trailing commas.

    Raises:
        ValueError: `json.JSONDecodeError` with its position, or a number that is too long.
        RecursionError: It is nested too deeply.
    """
    try:
        return json.loads(text, object_pairs_hook=_object)
    except ValueError:
        return json.loads(plain(text), object_pairs_hook=_object)


@dataclass
class _Level:
    """An object or array that is being traversed."""

    path: tuple[str | int, ...]
    is_object: bool
    key_start: int
    start: int
    index: int = 0


def spans(text: str) -> Mapping[tuple[str | int, ...], TextSpan]:
    """Return the position of each value by path; the last of duplicate names counts."""
    bare = plain(text)
    spans_by_path: dict[tuple[str | int, ...], TextSpan] = {}
    levels: list[_Level] = []
    at = _skip(bare, 0)
    path: tuple[str | int, ...] = ()
    key_start = at
    while True:
        # A value starts at `at`.
        if bare[at] in "{[":
            levels.append(_Level(path, bare[at] == "{", key_start, at))
            at = _skip(bare, at + 1)
            opened = True
        else:
            end = _end_of_scalar(bare, at)
            spans_by_path[path] = TextSpan(key_start, at, end)
            at = _skip(bare, end)
            opened = False
        # Close the containers that end here, then move to the next value.
        while levels and at < len(bare) and bare[at] in "}]":
            level = levels.pop()
            spans_by_path[level.path] = TextSpan(level.key_start, level.start, at + 1)
            at = _skip(bare, at + 1)
            opened = False
        if not levels:
            return spans_by_path
        if not opened:
            at = _skip(bare, at + 1)  # the comma
        level = levels[-1]
        key_start = at
        if level.is_object:
            name, end = _read_string(bare, at)
            path = (*level.path, name)
            at = _skip(bare, _skip(bare, end) + 1)
        else:
            path = (*level.path, level.index)
            level.index += 1


def _object(pairs: list[tuple[str, Any]]) -> Json:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    repeated = Repeated(members)
    names = [name for name, _ in pairs]
    repeated.names = tuple(name for name in members if names.count(name) > 1)
    return repeated


def _end_of_scalar(text: str, at: int) -> int:
    if text[at] == '"':
        return _read_string(text, at)[1]
    while at < len(text) and text[at] not in ",]}" and text[at] not in _SPACES:
        at += 1
    return at


def _read_string(text: str, at: int) -> tuple[str, int]:
    """Return the string that starts at `at`, and the index after it."""
    value, end = _DECODER.raw_decode(text, at)
    return str(value), end


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACES:
        at += 1
    return at
