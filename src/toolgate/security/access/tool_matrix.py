"""Tools of a snapshot as rows of bits, to match patterns against all of them at once."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from toolgate.security.access.decision import (
    Resource,
    ResourceSnapshot,
)
from toolgate.security.access.rules import AccessRule, glob

BitRow: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]


_WILD = frozenset("*?")


_OF_TOOLS = frozenset({"any", "server", "tool"})
"""Kinds of rules that apply to tools."""


class ToolMatrix:
    """The tools of one snapshot, for matching patterns against all of them at once."""

    def __init__(self, things: ResourceSnapshot, distrusted: frozenset[str]) -> None:
        self.version = things.version
        self.distrusted = distrusted
        tools = things.tools
        self.count = len(tools)
        self.keys = [tool.key for tool in tools]
        self.order = sorted(range(self.count), key=self.keys.__getitem__)
        self.sorted = [self.keys[at] for at in self.order]
        hints = [trusted_hints(tool, distrusted) for tool in tools]
        self.read_only = _bits([read_only for read_only, _ in hints])
        self.destructive = _bits([destructive for _, destructive in hints])
        self.internal = _bits([tool.internal for tool in tools])
        spans: dict[str, list[int]] = {}
        for at, tool in enumerate(tools):
            spans.setdefault(tool.server, []).append(at)
        self.by_server = spans
        self._rows: dict[tuple[str, str], BitRow] = {}
        self._of_subjects: dict[tuple[str, str], BitRow | None] = {}
        self._rules: object = None

    def of_subject(
        self, rules: Mapping[str, Sequence[AccessRule]], word: str, effect: str
    ) -> BitRow | None:
        """Return the tools that a subject's rules allow or deny; None without such a rule."""
        # Rules are replaced as a whole, so a new object means that results are outdated.
        if self._rules is not rules:
            self._rules, self._of_subjects = rules, {}
        try:
            return self._of_subjects[word, effect]
        except KeyError:
            rows = [
                self.row(rule)
                for rule in rules.get(word, ())
                if rule.effect == effect and rule.kind in _OF_TOOLS
            ]
            row: BitRow | None = np.bitwise_or.reduce(rows, axis=0) if rows else None
            self._of_subjects[word, effect] = row
            return row

    def row(self, rule: AccessRule) -> BitRow:
        """Return the tools that a rule matches, as packed bits."""
        scope = "tool" if rule.kind == "tool" else "server"
        row = self._rows.get((scope, rule.pattern))
        if row is None:
            matches = (
                self._of_tools(rule.pattern)
                if scope == "tool"
                else self.of_servers(
                    name for name in self.by_server if matches_pattern(rule.pattern, name)
                )
            )
            row = self._rows[scope, rule.pattern] = matches
        # Not in the cached row, which rules with and without a hint share.
        if rule.hint:
            return row & (self.read_only if rule.hint == "read_only" else self.destructive)
        return row

    def of_servers(self, names: Iterable[str]) -> BitRow:
        """Return the tools of servers."""
        bits = np.zeros(self.count, np.bool_)
        bits[[at for name in names for at in self.by_server.get(name, ())]] = True
        return np.packbits(bits)

    def of_keys(self, keys: Iterable[str]) -> BitRow:
        """Return tools by key; unknown keys are ignored."""
        bits = np.zeros(self.count, np.bool_)
        for key in keys:
            at = bisect_left(self.sorted, key)
            if at < self.count and self.sorted[at] == key:
                bits[self.order[at]] = True
        return np.packbits(bits)

    def _of_tools(self, pattern: str) -> BitRow:
        # The fixed text before the first wildcard limits the search to a range of the sorted keys.
        wild = next((at for at, char in enumerate(pattern) if char in _WILD), len(pattern))
        head, rest = pattern[:wild], pattern[wild:]
        low = bisect_left(self.sorted, head)
        # U+10FFFF, the last code point, sorts after every key with this prefix.
        high = bisect_left(self.sorted, head + chr(0x10FFFF)) if rest else low + 1
        near, places = self.sorted[low:high], self.order[low:high]
        bits = np.zeros(self.count, np.bool_)
        if rest == "*":
            bits[places] = True
        elif not rest:
            bits[[at for key, at in zip(near, places, strict=True) if key == pattern]] = True
        else:
            match = glob(pattern).fullmatch
            bits[[at for key, at in zip(near, places, strict=True) if match(key)]] = True
        return np.packbits(bits)


def compile_rules(
    things: ResourceSnapshot, rules: Mapping[str, Sequence[AccessRule]], distrusted: frozenset[str]
) -> ToolMatrix:
    """Create a matrix in which all rules are already matched."""
    tools = ToolMatrix(things, distrusted)
    for word in rules:
        for effect in ("allow", "deny"):
            tools.of_subject(rules, word, effect)
    return tools


def trusted_hints(thing: Resource | None, distrusted: frozenset[str]) -> tuple[bool, bool]:
    """Return whether a tool is read-only and destructive; untrusted marks are ignored."""
    if thing is None or thing.server in distrusted:
        # The safe assumption: such a tool counts as one that writes and destroys.
        return False, True
    return thing.read_only, thing.destructive


def matches_pattern(pattern: str, text: str) -> bool:
    """Whether a text matches a pattern with `*` and `?`."""
    if pattern == "*" or pattern == text:
        return True
    return not _WILD.isdisjoint(pattern) and glob(pattern).fullmatch(text) is not None


def _bits(values: Sequence[bool]) -> BitRow:
    return np.packbits(np.fromiter(values, np.bool_, count=len(values)))
