"""Which lists differ between two snapshots of the catalog."""

from collections.abc import Iterable
from itertools import islice
from operator import is_
from typing import Literal

from toolgate.catalog.snapshot import CatalogEntry, ServerEntries, Snapshot

CatalogChange = Literal["tools", "prompts", "resources"]
"""A list that has changed."""

_STEP = 1_024
"""Servers that are compared at a time: one comparison of two slices runs in C (chosen)."""

_KINDS: tuple[CatalogChange, ...] = ("tools", "prompts", "resources")


def changed_lists(old: Snapshot, new: Snapshot) -> list[CatalogChange]:
    """Return the lists that differ in their entries, order or definitions."""
    before, after = _changed_servers(old, new)
    return [kind for kind in _KINDS if _identities(before, kind) != _identities(after, kind)]


def _changed_servers(
    old: Snapshot, new: Snapshot
) -> tuple[list[ServerEntries], list[ServerEntries]]:
    """Return the servers of both snapshots, without common ones at the start and the end."""
    if list(old.servers) == list(new.servers):
        is_same = list(map(is_, old.servers.values(), new.servers.values()))
        if all(is_same):
            return [], []
        head, tail = is_same.index(False), is_same[::-1].index(False)
    else:
        before, after = _with_identity(old), _with_identity(new)
        head = _common_prefix(before, after, min(len(before), len(after)))
        tail = _common_prefix(before[::-1], after[::-1], min(len(before), len(after)) - head)
    return (
        list(islice(old.servers.values(), head, len(old.servers) - tail)),
        list(islice(new.servers.values(), head, len(new.servers) - tail)),
    )


def _with_identity(snapshot: Snapshot) -> list[tuple[str, int]]:
    """Return server names with the `id` of their entries, so that comparisons run in C."""
    return list(zip(snapshot.servers, map(id, snapshot.servers.values()), strict=True))


def _common_prefix(left: list[tuple[str, int]], right: list[tuple[str, int]], limit: int) -> int:
    """Return the number of equal items at the start, at most `limit`."""
    length = 0
    while length < limit:
        end = min(length + _STEP, limit)
        if left[length:end] != right[length:end]:
            break
        length = end
    while length < limit and left[length] == right[length]:
        length += 1
    return length


def _identities(servers: Iterable[ServerEntries], kind: CatalogChange) -> list[tuple[str, str]]:
    return [
        (entry.key, entry.digest) for entries in servers for entry in _entries_of(entries, kind)
    ]


def _entries_of(entries: ServerEntries, kind: CatalogChange) -> tuple[CatalogEntry, ...]:
    match kind:
        case "tools":
            return entries.tools
        case "prompts":
            return entries.prompts
        case "resources":
            return entries.resources + entries.templates
