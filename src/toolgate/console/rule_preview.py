"""Which tools the patterns of a rule match, before it is saved."""

from collections.abc import Sequence
from dataclasses import dataclass

from toolgate.catalog import CatalogEntry
from toolgate.console.request import PageRequest
from toolgate.errors import ArgumentError
from toolgate.security.access import matches_pattern, parse_pattern
from toolgate.types import json_object

_SHOWN = 12
"""Tools of a pattern that are named (chosen: enough to see what it matches)."""

_OPTIONS = 20
"""Servers and tools that a picker offers at a time (chosen: a readable list)."""


@dataclass(frozen=True, kw_only=True)
class PatternMatch:
    """The tools that a pattern matches."""

    pattern: str
    """The pattern as entered."""

    count: int = 0
    """Number of matching tools."""

    keys: Sequence[str] = ()
    """Keys of the first matching tools."""

    words: str = ""
    """What the pattern matches if not tools, or why it is invalid."""

    is_wrong: bool = False
    """Whether the pattern is invalid."""


def typed_patterns(request: PageRequest) -> list[str]:
    """Return the patterns of a rule that is being edited, including the picked one."""
    text = request.value("patterns") or request.value("tools")
    patterns = [line.strip() for line in text.splitlines() if line.strip()]
    picked = request.value("pick").strip()
    return [*patterns, picked] if picked and picked not in patterns else patterns


def is_destructive(entry: CatalogEntry) -> bool:
    """Whether a tool is marked as destructive."""
    hints = json_object(entry.definition.get("annotations"))
    return hints.get("destructiveHint") is True and not entry.read_only


def matches_of(
    request: PageRequest, patterns: Sequence[str], *, hint: str = ""
) -> list[PatternMatch]:
    """Return the current tools that each pattern matches."""
    entries = [
        entry
        for entry in request.gateway.visible.tools(request.caller)
        if not hint or (entry.read_only if hint == "read_only" else is_destructive(entry))
    ]
    return [_match(pattern, entries) for pattern in patterns]


def _match(pattern: str, entries: Sequence[CatalogEntry]) -> PatternMatch:
    try:
        kind, text = parse_pattern(pattern)
    except ArgumentError as error:
        return PatternMatch(pattern=pattern, words=error.failed, is_wrong=True)
    match kind:
        case "any":
            keys = [entry.key for entry in entries]
        case "server":
            keys = [entry.key for entry in entries if matches_pattern(text, entry.server)]
        case "tool":
            keys = [entry.key for entry in entries if matches_pattern(text, entry.key)]
        case _:
            return PatternMatch(pattern=pattern, words=f"a {kind}, not tools")
    return PatternMatch(pattern=pattern, count=len(keys), keys=keys[:_SHOWN])


def options_of(request: PageRequest, word: str, *, tools_only: bool = False) -> list[str]:
    """Return names of servers (unless `tools_only`), then keys of tools, that contain a word."""
    word = word.strip().lower()
    servers = () if tools_only else request.gateway.servers.names(request.caller)
    names = [name for name in servers if word in name.lower()]
    keys = (
        tool.key
        for tool in request.gateway.visible.tools(request.caller)
        if word in tool.key.lower()
    )
    return [*names[:_OPTIONS], *keys][:_OPTIONS]
