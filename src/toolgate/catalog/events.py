"""Notifies listeners of changes in the catalog."""

from collections.abc import Callable

from toolgate.catalog.changes import CatalogChange


class CatalogEvents:
    """The listeners of the catalog, by kind of event."""

    def __init__(self) -> None:
        self._change_listeners: list[Callable[[CatalogChange], None]] = []
        self._state_listeners: list[Callable[[], None]] = []
        self._resource_listeners: list[Callable[[str, str], None]] = []

    def on_change(self, listener: Callable[[CatalogChange], None]) -> Callable[[], None]:
        """Register a listener for changed lists. Returns a function that removes it."""
        self._change_listeners.append(listener)
        return lambda: self._change_listeners.remove(listener)

    def on_state(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Register a listener for server states. Returns a function that removes it."""
        self._state_listeners.append(listener)
        return lambda: self._state_listeners.remove(listener)

    def on_resource(self, listener: Callable[[str, str], None]) -> Callable[[], None]:
        """Register a listener for server and URI of resources with new content.

        Returns:
            A function that removes it.
        """
        self._resource_listeners.append(listener)
        return lambda: self._resource_listeners.remove(listener)

    def list_changed(self, kind: CatalogChange) -> None:
        """Notify the listeners for changed lists."""
        for listener in list(self._change_listeners):
            listener(kind)

    def state_changed(self) -> None:
        """Notify the listeners for server states."""
        for listener in list(self._state_listeners):
            listener()

    def resource_updated(self, server: str, uri: str) -> None:
        """Notify the listeners for resources."""
        for listener in list(self._resource_listeners):
            listener(server, uri)
