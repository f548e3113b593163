"""Decides what `tools/list` returns, by its token cost, and caches the bytes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from toolgate.base import json_text
from toolgate.base.token_estimate import estimate_tokens
from toolgate.catalog.catalog import Catalog
from toolgate.catalog.snapshot import CatalogEntry, Snapshot
from toolgate.types import json_object

SHORT_TOKENS = 430
"""Largest cost of a short list in estimated tokens: of all names and one definition of average
size. Up to there, `auto` lists all tools for a client whose model sees only names until it looks
for a tool, since that costs less than the meta-tools and one search; from 440 on sometimes more,
above 590 never less: 50 catalogs of published servers, 2026-11-27, benchmarks/client_search.py."""

# Share of the limits below which all tools are listed again, so that a list near the limit does
# not change with every tool (chosen).
_BACK_BELOW = 0.75
# Cached lists, one for each set of permissions (chosen).
_KEPT = 64
# Characters of a short description (chosen: nine of ten descriptions of published tools fit).
_SHORT_CHARS = 400

MenuShape: TypeAlias = Literal["all", "short", "meta"]
"""`all`: the real tools; `short`: these with short descriptions; `meta`: the meta-tools."""


@dataclass(frozen=True, kw_only=True)
class MenuRules:
    """The settings of the tool list."""

    mode: Literal["auto", "meta", "all"]
    """`all`: the real tools; `meta`: the meta-tools and pinned ones; `auto`: by size."""

    auto_tokens: int
    """Largest number of estimated tokens up to which `auto` lists all tools."""

    pinned: frozenset[str]
    """Keys of tools that are always listed."""

    shows_names: bool = False
    """Whether the client's model sees only the names of tools until it looks for one."""

    load_at_start: str = ""
    """Member of `_meta` with which the client's model sees a tool without looking for it."""


class Menu:
    """Decides whether the real tools are listed, and caches the lists as bytes."""

    def __init__(
        self, catalog: Catalog, meta_tool: Callable[[str, Sequence[CatalogEntry], str], bytes]
    ) -> None:
        """List the tools of `catalog`.

        `meta_tool` returns the definition of a meta-tool for a caller who may see some tools, and
        whose client has a member `load_at_start`.
        """
        self._catalog = catalog
        self._meta_tool = meta_tool
        self._fitted: dict[str, bool] = {}
        """Whether the definitions, and the short list, fitted when this was last decided."""
        self._short: tuple[int, int] = (-1, 0)
        self._listings: dict[tuple[object, ...], bytes] = {}

    def reset(self) -> None:
        """Decide again, because the rules have changed."""
        self._fitted.clear()
        self._listings.clear()

    def shape(self, rules: MenuRules) -> MenuShape:
        """What is listed now.

        With `auto`, the meta-tools are listed while the size is unknown because a server was
        never listed. A list that flips with every small change near the limit would cost clients
        their prompt cache, so it switches back to all tools only well below the limit.
        """
        if rules.mode != "auto":
            return rules.mode
        if self._catalog.never_listed():
            return "meta"
        snapshot = self._catalog.snapshot
        if self._fits("definitions", snapshot.menu_tokens, rules.auto_tokens):
            return "all"
        if rules.shows_names and self._fits("short", self._short_tokens(snapshot), SHORT_TOKENS):
            return "short"
        return "meta"

    def _short_tokens(self, snapshot: Snapshot) -> int:
        """`short_tokens` of a snapshot, computed once."""
        if self._short[0] != snapshot.version:
            self._short = snapshot.version, short_tokens(snapshot.name_tokens, snapshot.tools)
        return self._short[1]

    def listing(self, rules: MenuRules, allowed: bytes | None, meta: Sequence[str]) -> bytes:
        """Return a JSON array of definitions.

        Args:
            rules: The settings.
            allowed: One byte for each tool of the snapshot, 1 if the caller may see it; None: all.
            meta: Names of the meta-tools to list before the real tools.
        """
        snapshot = self._catalog.snapshot
        shape = self.shape(rules)
        mask = allowed
        key = (snapshot.version, shape, tuple(meta), mask, rules.pinned, rules.load_at_start)
        listing = self._listings.get(key)
        if listing is None:
            visible = snapshot.tools
            if mask is not None:
                visible = [tool for tool, is_seen in zip(visible, mask, strict=True) if is_seen]
            definitions = [self._meta_tool(name, visible, rules.load_at_start) for name in meta]
            listing = b"[" + b",".join([*definitions, *_tools(snapshot, rules, mask, shape)]) + b"]"
            if len(self._listings) >= _KEPT or any(k[0] != key[0] for k in self._listings):
                self._listings.clear()
            self._listings[key] = listing
        return listing

    def _fits(self, what: str, tokens: int, limit: int) -> bool:
        if self._fitted.get(what) is False:
            limit = int(limit * _BACK_BELOW)
        self._fitted[what] = tokens <= limit
        return self._fitted[what]


def _tools(
    snapshot: Snapshot, rules: MenuRules, mask: bytes | None, shape: MenuShape
) -> list[bytes]:
    return [
        shortened(tool.raw) if shape == "short" else tool.raw
        for number, tool in enumerate(snapshot.tools)
        if (mask is None or mask[number]) and (shape != "meta" or tool.key in rules.pinned)
    ]


def short_tokens(name_tokens: int, tools: Sequence[CatalogEntry]) -> int:
    """The cost of a short list: its names, and one definition of average size, once it is needed.

    Names alone that exceed the limit are not added to.
    """
    if name_tokens > SHORT_TOKENS or not tools:
        return name_tokens
    definitions = sum(estimate_tokens(shortened(tool.raw)) for tool in tools)
    return name_tokens + definitions // len(tools)


def shortened(raw: bytes) -> bytes:
    """A definition whose description ends with a sentence or word before `_SHORT_CHARS`."""
    definition = json_object(json_text.loads(raw))
    text = definition.get("description")
    if not isinstance(text, str) or len(text) <= _SHORT_CHARS:
        return raw
    begin = text[:_SHORT_CHARS]
    end = max(begin.rfind(". "), begin.rfind(".\n"), begin.rfind("\n\n"))
    if end < _SHORT_CHARS // 2:
        end = begin.rfind(" ")
    short = begin[: end + 1].rstrip() if end > 0 else begin
    return json_text.dumps({**definition, "description": short + " …"})
