"""Observers that are notified when a server connects, changes or ends."""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

ServerT = TypeVar("ServerT")
ServerT_contra = TypeVar("ServerT_contra", contravariant=True)


class ServerObserver(Protocol[ServerT_contra]):
    """Is notified about a server."""

    def server_connected(self, server: ServerT_contra) -> None:
        """Note that a connection is up, so the listing may have changed."""
        ...

    async def wait_listed(self, server: ServerT_contra) -> None:
        """Wait until the listing after a connection has been adopted, or has failed."""
        ...

    def server_changed(self, server: ServerT_contra) -> None:
        """Note that the server announced a changed list."""
        ...

    def server_state(self, server: ServerT_contra) -> None:
        """Note that `state` has changed."""
        ...

    def resource_updated(self, server: ServerT_contra, uri: str) -> None:
        """Note that a resource has new content."""
        ...


class SubjectObserver(Generic[ServerT]):
    """Reports events of one subject's connection as if they came from the whole server."""

    def __init__(
        self, server: ServerT, observer: ServerObserver[ServerT], *, retry: Callable[[], None]
    ) -> None:
        self._server = server
        self._observer = observer
        self._retry = retry

    def server_connected(self, server: ServerT) -> None:
        """Connect the server itself: this may be the first login with which it lists its tools."""
        del server
        self._retry()

    async def wait_listed(self, server: ServerT) -> None:
        """Do nothing: the server itself is listed."""

    def server_changed(self, server: ServerT) -> None:
        """Pass on that a list has changed."""
        del server
        self._observer.server_changed(self._server)

    def server_state(self, server: ServerT) -> None:
        """Do nothing: the server has its own state."""

    def resource_updated(self, server: ServerT, uri: str) -> None:
        """Do nothing: nobody subscribes over this connection."""
