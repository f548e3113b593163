"""Notifies clients when tools, prompts or resources change."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from toolgate.catalog import (
    CatalogChange,
    Menu,
    MenuShape,
)
from toolgate.gateway.listing.meta_definitions import discovery_description
from toolgate.gateway.listing.policy import ListingPolicy
from toolgate.gateway.parts import GatewayContext

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change that clients may be notified of."""

    kind: Literal["tools", "prompts", "resources", "resource"]
    """Which list has changed; `resource`: the content of one resource has changed."""

    uri: str | None = None
    """The URI of the resource, as clients use it."""


class ChangeNotifier:
    """Turns changes of catalog, settings and permissions into notifications for clients."""

    def __init__(self, context: GatewayContext, *, menu: Menu, listing: ListingPolicy) -> None:
        self._catalog = context.catalog
        self._menu = menu
        self._listing = listing
        self._index = context.search.index
        self._listeners: list[Callable[[Change], None]] = []
        self._access_listeners: list[Callable[[], None]] = []
        self._shapes: tuple[MenuShape, MenuShape] | None = None
        """What was listed last, to most clients and to those whose models see all names."""
        self._description: str | None = None
        self._missing_pins: set[str] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._detach = [
            context.catalog.events.on_change(self._on_catalog_change),
            context.catalog.events.on_state(self._on_server_state),
            context.catalog.events.on_resource(self.resource_updated),
        ]

    def close(self) -> None:
        """Stop listening to the catalog."""
        for detach in self._detach:
            detach()
        for task in self._background:
            task.cancel()

    def on_change(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Register a listener for changes. Returns a function that removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def on_access_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Register a listener for changed permissions. Returns a function that removes it."""
        self._access_listeners.append(listener)
        return lambda: self._access_listeners.remove(listener)

    def access_changed(self) -> None:
        """Notify that permissions have changed, and so perhaps what a client sees."""
        self.settings_changed()
        for listener in list(self._access_listeners):
            listener()

    def settings_changed(self) -> None:
        """Notify that settings have changed, and so perhaps what is listed."""
        self._menu.reset()
        for kind in ("tools", "prompts", "resources"):
            self.notify(Change(kind=kind))

    def packs_changed(self) -> None:
        """Notify that packs have changed, and so perhaps the meta-tools for rules."""
        self.notify(Change(kind="tools"))

    def notify(self, change: Change) -> None:
        """Notify every listener."""
        for listener in list(self._listeners):
            listener(change)

    def resource_updated(self, server: str, uri: str) -> None:
        """Notify that a server announced new content of one of its resources."""
        resources = self._catalog.snapshot.resources
        explicit = f"toolgate://{server}/{uri}"
        renamed = explicit in resources and resources[explicit].server == server
        self.notify(Change(kind="resource", uri=explicit if renamed else uri))

    def _on_catalog_change(self, kind: CatalogChange) -> None:
        if kind == "tools":
            self._warn_of_missing_pins()
            snapshot = self._catalog.snapshot
            self._spawn(self._index.update_to(snapshot.version, snapshot.tools))
            before, after = self._note_shapes()
            description = discovery_description(snapshot.tools) if "meta" in after else ""
            is_same = description == self._description and not self._listing.pinned()
            self._description = description
            if before == after == ("meta", "meta") and is_same:
                return  # the meta-tools are listed before and after
        self.notify(Change(kind=kind))

    def _on_server_state(self) -> None:
        before, after = self._note_shapes()
        if before is not None and before != after:
            self.notify(Change(kind="tools"))

    def _note_shapes(
        self,
    ) -> tuple[tuple[MenuShape, MenuShape] | None, tuple[MenuShape, MenuShape]]:
        """Return what was listed before, and what is listed now."""
        before = self._shapes
        self._shapes = self._listing.shape(None), self._listing.shape_for_names(None)
        return before, self._shapes

    def _warn_of_missing_pins(self) -> None:
        """Log pinned tools that do not exist, once per tool, after all servers have been listed."""
        pinned = self._listing.pinned() - self._missing_pins
        if not pinned or self._catalog.never_listed():
            return
        for key in sorted(key for key in pinned if self._catalog.snapshot.tool(key) is None):
            self._missing_pins.add(key)
            log.warning("pinned tool is not there", extra={"tool": key})

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Future[None]") -> None:
        self._background.discard(task)  # pyright: ignore[reportArgumentType]
        if not task.cancelled() and task.exception() is not None:
            log.error("indexing failed", exc_info=task.exception())
