"""Decides what `tools/list` returns, by its token cost, and caches the bytes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from toolgate.catalog.catalog import Catalog
from toolgate.catalog.snapshot import CatalogEntry, Snapshot

__all__ = ["Menu", "MenuRules"]

# Share of `auto_tokens` below which all tools are listed again, so that a list near the limit does
# not change with every tool (chosen).
_BACK_BELOW = 0.75
# Cached lists, one for each set of permissions (chosen).
_KEPT = 64


@dataclass(frozen=True, kw_only=True)
class MenuRules:
    """The settings of the tool list."""

    mode: Literal["auto", "meta", "all"]
    """`all`: the real tools; `meta`: the meta-tools and pinned ones; `auto`: by size."""

    auto_tokens: int
    """Largest number of estimated tokens up to which `auto` lists all tools."""

    pinned: frozenset[str]
    """Keys of tools that are always listed."""


class Menu:
    """Decides whether the real tools are listed, and caches the lists as bytes."""

    def __init__(
        self, catalog: Catalog, meta_tool: Callable[[str, Sequence[CatalogEntry]], bytes]
    ) -> None:
        """List the tools of `catalog`.

        `meta_tool` returns the definition of a meta-tool for a caller who may see some tools.
        """
        self._catalog = catalog
        self._meta_tool = meta_tool
        self._shows_all: bool | None = None
        self._listings: dict[tuple[object, ...], bytes] = {}

    def reset(self) -> None:
        """Decide again, because the rules have changed."""
        self._shows_all = None
        self._listings.clear()

    def shows_all(self, rules: MenuRules) -> bool:
        """Whether the real tools are listed now.

        With `auto`, the meta-tools are listed while the size is unknown because a server was
        never listed. A list that flips with every small change near the limit would cost clients
        their prompt cache, so it switches back to all tools only well below the limit.
        """
        if rules.mode != "auto":
            return rules.mode == "all"
        if self._catalog.never_listed():
            return False
        limit = rules.auto_tokens
        if self._shows_all is False:
            limit = int(limit * _BACK_BELOW)
        self._shows_all = self._catalog.snapshot.menu_tokens <= limit
        return self._shows_all

    def listing(self, rules: MenuRules, allowed: bytes | None, meta: Sequence[str]) -> bytes:
        """Return a JSON array of definitions.

        Args:
            rules: The settings.
            allowed: One byte for each tool of the snapshot, 1 if the caller may see it; None: all.
            meta: Names of the meta-tools to list before the real tools.
        """
        snapshot = self._catalog.snapshot
        every = self.shows_all(rules)
        mask = allowed
        key = (snapshot.version, every, tuple(meta), mask, rules.pinned)
        listing = self._listings.get(key)
        if listing is None:
            visible = snapshot.tools
            if mask is not None:
                visible = [tool for tool, is_seen in zip(visible, mask, strict=True) if is_seen]
            definitions = [self._meta_tool(name, visible) for name in meta]
            listing = (
                b"[" + b",".join([*definitions, *_tools(snapshot, rules, mask, every=every)]) + b"]"
            )
            if len(self._listings) >= _KEPT or any(k[0] != key[0] for k in self._listings):
                self._listings.clear()
            self._listings[key] = listing
        return listing


def _tools(snapshot: Snapshot, rules: MenuRules, mask: bytes | None, *, every: bool) -> list[bytes]:
    return [
        tool.raw
        for number, tool in enumerate(snapshot.tools)
        if (mask is None or mask[number]) and (every or tool.key in rules.pinned)
    ]
