"""Decides what `tools/list` shows, by its cost, and caches the bytes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from toolgate.catalog.catalog import Catalog
from toolgate.catalog.snapshot import CatalogEntry, Snapshot

__all__ = ["Menu", "MenuRules"]

# Share of `auto_tokens` below which all tools are listed again. Chosen, so that a listing near the
# limit does not change with every tool.
_BACK_BELOW = 0.75
# Listings that are kept as bytes, one for each set of permissions. Chosen.
_KEPT = 64


@dataclass(frozen=True, kw_only=True)
class MenuRules:
    """What the settings say about the menu."""

    mode: Literal["auto", "meta", "all"]
    """`all` the real tools, `meta` the meta-tools and pinned ones, `auto` by size."""

    auto_tokens: int
    """Menus up to this many estimated tokens are shown as they are."""

    pinned: frozenset[str]
    """Keys of tools that are always shown."""


class Menu:
    """Decides whether the real tools are listed, and keeps the bytes of listings."""

    def __init__(
        self, catalog: Catalog, meta_tool: Callable[[str, Sequence[CatalogEntry]], bytes]
    ) -> None:
        """List the tools of `catalog`.

        `meta_tool` gives the definition of a meta-tool for somebody who may see some tools.
        """
        self._catalog = catalog
        self._meta_tool = meta_tool
        self._shows_all: bool | None = None
        self._listings: dict[tuple[object, ...], bytes] = {}

    def reset(self) -> None:
        """The rules have changed: decide anew."""
        self._shows_all = None
        self._listings.clear()

    def shows_all(self, rules: MenuRules) -> bool:
        """Whether the real tools are listed now.

        With `auto`, while a server was never listed the size is not known, and the meta-tools are
        shown. Near the limit a list that flips with every small change would cost clients their
        prompt cache, so it goes back to all tools only well below it.
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
        """A JSON array of definitions.

        Args:
            rules: What the settings say.
            allowed: For each tool of the snapshot a byte, 1 where the caller may see it; None: all.
            meta: Names of the meta-tools to show before the real tools.
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
